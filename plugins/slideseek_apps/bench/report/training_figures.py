"""Figures of training: the L1 norm of the gradient, and the values of a slide's code (the paper's Figure 2)."""

from __future__ import annotations

from collections.abc import Sequence

from slideseek_apps.bench.report.chart import Axis, Series, panel_chart, trace_chart
from slideseek_apps.bench.report.figures import Figure
from slideseek_apps.bench.report.sections import heading
from slideseek_apps.bench.results import Cell

GRADIENT = "gradient_l1"
"""The column of a training log that holds the L1 norm of the gradient of the loss."""


def training_figures(cells: Sequence[Cell]) -> list[tuple[str, Figure]]:
    """Return (heading, figure) for the training cells of each dataset; the first seed of an engine is drawn."""
    groups: dict[str, dict[str, Cell]] = {}
    for cell in sorted(cells, key=lambda cell: cell.seed):
        if cell.kind == "training":
            groups.setdefault(heading(cell), {}).setdefault(cell.name, cell)
    found = []
    for name, members in groups.items():
        drawn = (_values(list(members.values())), _curves(list(members.values())))
        found += [(name, figure) for figure in drawn if figure is not None]
    return found


def _values(cells: Sequence[Cell]) -> Figure | None:
    series = []
    for cell in cells:
        if (cell.folder / "values.npz").is_file():
            values = cell.values()["values"]
            series.append(Series(cell.name, [float(i) for i in range(1, len(values) + 1)], [float(v) for v in values]))
    if not series:
        return None
    widest = max(len(one.x) for one in series)
    svg = panel_chart(series, Axis("dimension, by falling variance"), Axis("value"), "Values of a slide's code")
    caption = f"The code of one test slide in its {widest:,} dimensions of highest variance over slides."
    return Figure("values", "Feature values", caption, svg)


def _curves(cells: Sequence[Cell]) -> Figure | None:
    series = []
    for cell in cells:
        log = cell.training()
        points = [(epoch, value) for epoch, value in zip(log["epoch"], log.get(GRADIENT, ())) if value > 0]
        if points:
            series.append(Series(cell.name, [e for e, _ in points], [v for _, v in points]))
    if not series:
        return None
    svg = trace_chart(
        series, Axis("epoch", whole=True), Axis("L1 norm of the gradient", log=True), "Gradient L1 by epoch"
    )
    caption = "L1 norm of the gradient of the loss with respect to all parameters, by epoch of training (log scale)."
    return Figure("gradient", "Gradient sparsity", caption, svg)
