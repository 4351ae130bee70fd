"""Draw what `python -m bench.encoders` found: quality against the number of bits, a panel a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray


class Scored(Protocol):
    """A macro F1 in %, and its resampled values."""

    @property
    def mean(self) -> float: ...
    @property
    def resampled(self) -> NDArray[np.float64]: ...


LINES = {"yottixel": "#666666", "gmm-fv": "#b07d2b", "mean": "#7a9e3a"}
"""Encoders without a number of bits, drawn as levels."""

CURVES = {
    "deep-sbfv best": "#1f5fa8",
    "deep-bfv best": "#6ba3d6",
    "deep-sbfv paper": "#b3282d",
    "deep-bfv paper": "#e08a8c",
}


def draw(tasks: Mapping[str, Mapping[str, Scored]], bits: Sequence[int], file: Path) -> None:
    """Write a figure of `tasks` (name -> row of the table -> score); curves go through the rows of each of `bits`."""
    figure = Figure(figsize=(3.4 * len(tasks), 3.6), layout="constrained")
    panels = figure.subplots(1, len(tasks), squeeze=False)[0]
    for panel, (name, found) in zip(panels, tasks.items()):
        for row, colour in LINES.items():
            if row in found:
                panel.axhline(found[row].mean, color=colour, linestyle=":", label=row)
        for place, (start, colour) in enumerate(CURVES.items()):
            # Rows of preset paper say their epochs between the name and the bits.
            own = [row for row in found if row.startswith(start) and "conditioned" not in row]
            points = {b: found[row] for b in bits for row in own if row.endswith(f" {b} bits")}
            if points:
                means = [score.mean for score in points.values()]
                errors = [float(score.resampled.std()) for score in points.values()]
                aside = 1.05 ** (place - 1.5)  # so that error bars do not hide each other
                panel.errorbar(
                    [b * aside for b in points], means, errors, color=colour, marker=".", capsize=2, label=start
                )
        panel.set_xscale("log")
        panel.set_xticks(list(bits), [f"{b:,}" for b in bits], fontsize=8)
        panel.minorticks_off()
        panel.set_title(name)
        panel.set_xlabel("bits")
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("macro F1, %")
    shown = {label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels())}
    columns = min(len(shown), 2 * len(tasks))
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=max(1, columns), frameon=False)
    figure.savefig(file, dpi=110)
