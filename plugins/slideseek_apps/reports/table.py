"""Evidence as tables for people."""

from __future__ import annotations

import click
import numpy as np

from slideseek.cli.output import print_table
from slideseek.searching.evidence import Evidence
from slideseek.searching.patch_squares import Fields
from slideseek.types import Float64


def strongest(parts: Float64, count: int) -> list[int]:
    """Return the numbers of the patches with the largest parts, largest first."""
    return [int(number) for number in np.argsort(-parts, kind="stable")[:count]]


def print_evidence(evidence: Evidence, query_id: str, hit_id: str, count: int) -> None:
    """Print the strongest evidence for people."""
    if evidence.kind == "pairs":
        _print_pairs(evidence, query_id, hit_id, count)
    else:
        _print_contributions(evidence, query_id, hit_id, count)


def _print_pairs(evidence: Evidence, query_id: str, hit_id: str, count: int) -> None:
    rows = [
        [
            str(rank),
            f"{pair.query} at {place(evidence.query, pair.query)}",
            f"{pair.hit} at {place(evidence.hit, pair.hit)}",
            f"{pair.distance:.6g}",
        ]
        for rank, pair in enumerate(evidence.pairs[:count], start=1)
    ]
    print_table(("", f"patch of {query_id}", f"most like it in {hit_id}", "distance"), rows, right=(0, 3))
    click.echo(f"distance {evidence.value:.6g}: the median over {len(evidence.pairs)} patches of the query")


def _print_contributions(evidence: Evidence, query_id: str, hit_id: str, count: int) -> None:
    sides = (query_id, evidence.query, evidence.parts), (hit_id, evidence.hit, evidence.hit_parts)
    for slide_id, fields, parts in sides:
        rows = [
            [str(rank), f"{number} at {place(fields, number)}", f"{parts[number]:+.6f}", share(parts[number], evidence)]
            for rank, number in enumerate(strongest(parts, count), start=1)
        ]
        print_table(("", f"patch of {slide_id}", "adds", "share"), rows, right=(0, 2, 3))
        click.echo(f"similarity {evidence.value:.6f}: {len(parts)} patches of {slide_id} add up to it")


def share(part: float, evidence: Evidence) -> str:
    """Write a part as a share of the whole; "" where the whole is nothing."""
    return f"{part / evidence.value:.1%}" if abs(evidence.value) > 1e-12 else ""


def place(fields: Fields, number: int) -> str:
    """Write where a patch lies: its top-left corner in level-0 pixels, and its slide where there are several."""
    x, y = fields.xy[number]
    return f"{x},{y}" + (f" of {fields.slides[number]}" if fields.slides else "")
