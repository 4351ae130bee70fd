"""Draw what `python -m bench.encoders` found: mAP against bytes per slide, a panel per task and protocol."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from matplotlib.figure import Figure


class Scored(Protocol):
    """A measure in % and its standard error."""

    @property
    def mean(self) -> float: ...
    @property
    def error(self) -> float: ...


CURVE = "recommended"
"""Rows `recommended N bits` are joined to a curve."""

POINTS = {
    "yottixel": "#666666",
    "mean": "#7a9e3a",
    "vlad": "#8d6cab",
    "gmm-fv": "#b07d2b",
    "deep-sbfv old best 5000 bits": "#e08a8c",
    "deep-sbfv best 5000 bits": "#b3282d",
    "recommended, without labels": "#6ba3d6",
}


def draw(
    panels: Mapping[str, tuple[Mapping[str, Mapping[str, Scored]], Mapping[str, float]]], file: Path, columns: int = 4
) -> None:
    """Write a figure of `panels`: title -> (row of the table -> measure -> score, row -> bytes per slide)."""
    across = min(columns, len(panels))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(3.3 * across, 2.9 * down + 0.6), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for panel, (title, (found, sizes_of)) in zip(axes, panels.items()):
        curve = [name for name in found if name.startswith(f"{CURVE} ") and name.endswith(" bits")]
        lines = {CURVE: ("#1f5fa8", curve)} | {name: (colour, [name]) for name, colour in POINTS.items()}
        for label, (colour, names) in lines.items():
            own = sorted(((sizes_of[name], found[name]["mAP"]) for name in names if name in found), key=lambda x: x[0])
            if own:
                sizes, scores = [size for size, _ in own], [score.mean for _, score in own]
                errors = [score.error for _, score in own]
                panel.errorbar(sizes, scores, errors, color=colour, marker=".", capsize=2, label=label)
        panel.set_xscale("log")
        panel.set_title(title, fontsize=9)
        panel.set_xlabel("bytes per slide")
        panel.grid(alpha=0.25)
    for panel in axes[len(panels) :]:
        panel.set_visible(False)
    axes[0].set_ylabel("mAP, %")
    shown = {label: handle for panel in axes for handle, label in zip(*panel.get_legend_handles_labels())}
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(file, dpi=110)
