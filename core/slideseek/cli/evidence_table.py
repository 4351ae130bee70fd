"""Evidence as a table, as printed by `search --evidence`, `explain` and sessions."""

from __future__ import annotations

import click

from slideseek.cli.output import print_table
from slideseek.searching.evidence import Evidence, strongest
from slideseek.searching.patch_squares import PatchSquares


def print_evidence(evidence: Evidence, query_id: str, hit_id: str, count: int) -> None:
    """Print the `count` strongest pairs or patches; positions are level-0 pixels of their slide."""
    if evidence.kind == "pairs":
        _print_pairs(evidence, query_id, hit_id, count)
    else:
        _print_contributions(evidence, query_id, hit_id, count)


def _print_pairs(evidence: Evidence, query_id: str, hit_id: str, count: int) -> None:
    rows = [
        [
            str(rank),
            f"{pair.query} at {_place(evidence.query, pair.query)}",
            f"{pair.hit} at {_place(evidence.hit, pair.hit)}",
            f"{pair.distance:.6g}",
        ]
        for rank, pair in enumerate(evidence.pairs[:count], start=1)
    ]
    print_table(("", f"patch of {query_id}", f"most like it in {hit_id}", "distance"), rows, right=(0, 3))
    name = f" ({evidence.measure})" if evidence.measure else ""
    click.echo(f"distance {evidence.value:.6g}{name}, from the pairs of {len(evidence.pairs)} patches of the query")


def _print_contributions(evidence: Evidence, query_id: str, hit_id: str, count: int) -> None:
    sides = (query_id, evidence.query, evidence.parts), (hit_id, evidence.hit, evidence.hit_parts)
    for slide_id, squares, parts in sides:
        if not squares.side.any():  # text
            continue
        rows = []
        for rank, number in enumerate(strongest(parts, count), start=1):
            part = float(parts[number])
            rows.append([str(rank), f"{number} at {_place(squares, number)}", f"{part:+z.6f}", evidence.share(part)])
        print_table(("", f"patch of {slide_id}", "adds", "share"), rows, right=(0, 2, 3))
        if evidence.kind == "contributions":
            click.echo(f"similarity {evidence.value:.6f}: {len(parts)} patches of {slide_id} add up to it")
        else:
            click.echo(f"distance {evidence.value:.6g} ({evidence.measure}): it grows by this much without the patch")


def _place(squares: PatchSquares, number: int) -> str:
    """Format a patch's position: its top-left corner in level-0 pixels, and its slide if there are several."""
    x, y = squares.xy[number]
    return f"{x},{y}" + (f" of {squares.slides[number]}" if squares.slides else "")
