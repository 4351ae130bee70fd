"""The tables of docs/results/encoders.md, as Markdown: a column per task and protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from bench.encoder_scores import Score

Columns: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Score]]]
"""Title of a column -> row -> measure -> score."""

BARS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "recommended 5000 bits",
        ("mAP", "F1@3"),
        ("yottixel", "mean", "gmm-fv", "deep-sbfv old best 5000 bits"),
    ),
    ("recommended 512 bits", ("mAP",), ("yottixel",)),
    ("deep-sbfv best 5000 bits", ("mAP",), ("yottixel", "deep-sbfv old best 5000 bits")),
    ("recommended, without labels", ("mAP",), ("yottixel", "mean", "gmm-fv")),
    ("recommended, shuffled labels", ("mAP",), ("recommended, without labels",)),
    ("recommended, projection alone, shuffled labels", ("mAP",), ("chance",)),
    *(
        (f"control, {name}", ("mAP", "F1@3"), (f"control, {name}, queries swapped",))
        for name in ("recommended", "projection alone")
    ),
    *((name, ("mAP",), ("chance",)) for name in ("yottixel", "mean", "gmm-fv")),
)
"""A row, and what it is compared with in which measures."""


def page(columns: Columns) -> str:
    """Return all tables: each measure, paired differences with standard errors, and what bits keep of floats."""
    parts = [_table(columns, measure) for measure in ("mAP", "F1@1", "F1@3", "F1@5")]
    parts += [_differences(columns, *bar) for bar in BARS]
    for bits in ("recommended 5000 bits", "recommended 512 bits", "recommended, learnt rotations"):
        kept = [
            f"{100 * found[bits]['mAP'].mean / found['recommended, floats']['mAP'].mean:.1f}"
            for found in columns.values()
            if bits in found and "recommended, floats" in found
        ]
        if not kept:
            continue
        parts.append(f"{bits} keep, in % of the mAP of the float code: {', '.join(kept)}")
    return "\n\n".join(part for part in parts if part)


def _table(columns: Columns, measure: str) -> str:
    names = list(dict.fromkeys(name for found in columns.values() for name in found))
    best = {title: max(found[name][measure].mean for name in found) for title, found in columns.items()}
    rows = [(name, [_bold(found, name, measure, best[title]) for title, found in columns.items()]) for name in names]
    return _markdown(measure if measure == "mAP" else f"macro {measure.replace('@', ' of ')}", columns, rows)


def _bold(found: Mapping[str, Mapping[str, Score]], name: str, measure: str, best: float) -> str:
    if name not in found:
        return ""
    value = found[name][measure].mean
    return f"**{value:.1f}**" if value == best else f"{value:.1f}"


def _differences(columns: Columns, name: str, measures: Sequence[str], rivals: Sequence[str]) -> str:
    return _markdown(f"`{name}`, minus", columns, list(_compared(columns, name, measures, rivals)))


def _compared(
    columns: Columns, name: str, measures: Sequence[str], rivals: Sequence[str]
) -> Iterator[tuple[str, list[str]]]:
    for measure in measures:
        for rival in rivals:
            cells = []
            for found in columns.values():
                if name in found and rival in found:
                    difference, error = found[name][measure].against(found[rival][measure])
                    cells.append(f"{difference:+.1f} ± {error:.1f}")
                else:
                    cells.append("")
            if any(cells):
                yield f"`{rival}`, {measure}", cells


def _markdown(corner: str, columns: Columns, rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    if not rows:
        return ""
    lines = [f"| {corner} | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    return "\n".join([*lines, *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows)])
