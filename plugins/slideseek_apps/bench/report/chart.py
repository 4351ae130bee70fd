"""Charts as SVG text: shapes with class names here, their look in `chart_style`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from slideseek_apps.bench.report.chart_style import COLOURS, with_attributes

WIDTH, HEIGHT = 620, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 18, 16, 50
SERIES = len(COLOURS)
LONGEST_NAME = 38
_MARKERS = ("circle", "square", "diamond", "triangle")


@dataclass(frozen=True, slots=True)
class Series:
    """One line or set of points. low, high: bounds drawn as whiskers."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis.

    ticks: their positions, for an option with few values; by default round numbers. from_zero: it begins at 0. whole:
    its values are counts, such as epochs. share: its values are percentages, so it ends at 0 and 100.
    """

    label: str
    log: bool = False
    ticks: Sequence[float] = ()
    from_zero: bool = False
    whole: bool = False
    share: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """A named horizontal line that the series are compared with."""

    name: str
    y: float


class _Scale:
    """Map values to pixels, and choose round numbers for ticks."""

    def __init__(self, values: Sequence[float], axis: Axis, start: float, end: float) -> None:
        self.axis, self.start, self.end = axis, start, end
        low, high = min(values), max(values)
        if axis.log:
            low, high = math.log10(low), math.log10(high)
        if axis.from_zero:
            low = min(low, 0.0)
        room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
        self.low = low if axis.from_zero and low == 0 else low - room
        self.high = high + room
        if axis.share:
            self.low, self.high = max(self.low, 0.0), min(self.high, 100.0)

    def __call__(self, value: float) -> float:
        place = math.log10(value) if self.axis.log else value
        return self.start + (place - self.low) / (self.high - self.low) * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        if self.axis.ticks:
            return list(self.axis.ticks)
        if self.axis.log:
            powers = range(math.ceil(self.low), math.floor(self.high) + 1)
            ticks = [10.0**power for power in powers]
            if len(ticks) >= 2:
                return ticks
            fine = [m * 10.0**p for p in range(math.floor(self.low), math.ceil(self.high) + 1) for m in (1, 2, 3, 5, 7)]
            inside = [tick for tick in fine if self.low <= math.log10(tick) <= self.high]
            return inside if len(inside) >= 2 else _round_numbers(10**self.low, 10**self.high)
        return _round_numbers(self.low, self.high, least=1.0 if self.axis.whole else 0.0)


def line_chart(
    series: Sequence[Series], x: Axis, y: Axis, title: str, levels: Sequence[Level] = (), join: bool = True
) -> str:
    """Return a chart of lines with markers and whiskers; `join` False draws points alone."""
    number_of_lines = _legend_lines([s.name for s in series] if join or len(series) > 1 else [])
    top = TOP + 20 * number_of_lines
    height = HEIGHT + 20 * number_of_lines
    xs = _Scale([v for s in series for v in s.x], x, LEFT, WIDTH - RIGHT)
    bounds = [v for s in series for part in (s.y, s.low, s.high) for v in part if v is not None]
    ys = _Scale([*bounds, *(level.y for level in levels)], y, height - BOTTOM, top)
    parts = [_frame(xs, ys, x, y, top, height)]
    for level in levels:
        at = ys(level.y)
        parts.append(f'<line class="level" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
    for number, one in enumerate(series):
        beside = (
            7 * (number - (len(series) - 1) / 2) if any(low is not None for low in one.low) else 0.0
        )  # whiskers of two series must not overlap
        parts.append(_draw_series(one, number, xs, ys, join, beside))
    for level in levels:  # names after all lines, so that no line crosses them
        at = ys(level.y) - 5
        parts.append(f'<text class="level-name" x="{WIDTH - RIGHT - 4}" y="{at:.1f}">{escape(level.name)}</text>')
    if number_of_lines:
        parts.append(_legend([s.name for s in series], join))
    return _svg(WIDTH, height, title, parts)


def trace_chart(series: Sequence[Series], x: Axis, y: Axis, title: str) -> str:
    """Return thin lines without markers, for curves of many points; points are thinned out, but peaks are kept."""
    lines = _legend_lines([s.name for s in series])
    top, height = TOP + 20 * lines, HEIGHT + 20 * lines
    xs = _Scale([v for s in series for v in s.x], x, LEFT, WIDTH - RIGHT)
    ys = _Scale([v for s in series for v in s.y], y, height - BOTTOM, top)
    parts = [_frame(xs, ys, x, y, top, height)]
    parts += [_trace(one, number, xs, ys) for number, one in enumerate(series)]
    parts.append(_legend([s.name for s in series], join=True, markers=False))
    return _svg(WIDTH, height, title, parts)


def panel_chart(series: Sequence[Series], x: Axis, y: Axis, title: str) -> str:
    """Return the same as `trace_chart` with one panel per series, for traces that would hide each other."""
    tall, gap = (150, 18) if len(series) > 1 else (HEIGHT - BOTTOM - TOP, 0)
    top = TOP + 20 * _legend_lines([s.name for s in series])
    height = top + len(series) * (tall + gap) - gap + BOTTOM
    xs = _Scale([v for s in series for v in s.x], x, LEFT, WIDTH - RIGHT)
    parts = []
    for number, one in enumerate(series):
        upper = top + number * (tall + gap)
        ys = _Scale([v for s in series for v in s.y], y, upper + tall, upper)
        parts += [_y_ticks(ys), _trace(one, number, xs, ys)]
    parts.append(_x_ticks(xs, height) + _axis_names(x, y, top, height))
    parts.append(_legend([s.name for s in series], join=True, markers=False))
    return _svg(WIDTH, height, title, parts)


def interval_chart(rows: Sequence[tuple[str, float, float | None, float | None, bool]], x: Axis, title: str) -> str:
    """Return one row per engine, a dot with its interval. rows: (name, value, low, high, highlighted)."""
    left = 20 + int(7.6 * max(len(_shortened(name)) for name, *_ in rows))
    height = TOP + 30 * len(rows) + BOTTOM
    values = [v for _, *numbers, _ in rows for v in numbers if v is not None]
    xs = _Scale(values, x, left, WIDTH - RIGHT - 34)
    parts = []
    for tick in xs.ticks:
        at = xs(tick)
        parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{height - BOTTOM}"/>')
        parts.append(f'<text class="tick x" x="{at:.1f}" y="{height - BOTTOM + 18}">{_label(tick)}</text>')
    for i, (name, value, low, high, best) in enumerate(rows):
        y = TOP + 30 * i + 15
        css = "best" if best else "other"
        parts.append(f'<text class="row-name {css}" x="{left - 12}" y="{y + 4}">{escape(_shortened(name))}</text>')
        if low is not None and high is not None:
            parts.append(f'<line class="whisker {css}" x1="{xs(low):.1f}" x2="{xs(high):.1f}" y1="{y}" y2="{y}"/>')
        parts.append(f'<circle class="dot {css}" cx="{xs(value):.1f}" cy="{y}" r="5"/>')
        after = max(xs(value), xs(high) if high is not None else 0) + 8
        parts.append(f'<text class="value {css}" x="{after:.1f}" y="{y + 4}">{value:.1f}</text>')
    middle = (left + WIDTH - RIGHT) / 2
    parts.append(f'<text class="axis x" x="{middle:.0f}" y="{height - 10}">{escape(x.label)}</text>')
    return _svg(WIDTH, height, title, parts)


def _shortened(name: str) -> str:
    """Return a name short enough to leave room for the chart."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _trace(one: Series, number: int, xs: _Scale, ys: _Scale) -> str:
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in _thin([(xs(a), ys(b)) for a, b in zip(one.x, one.y)]))
    return f'<polyline class="trace s{number % SERIES}" points="{points}"/>'


def _frame(xs: _Scale, ys: _Scale, x: Axis, y: Axis, top: int, height: int) -> str:
    return _y_ticks(ys) + _x_ticks(xs, height) + _axis_names(x, y, top, height)


def _y_ticks(ys: _Scale) -> str:
    parts = []
    for tick in ys.ticks:
        at = ys(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text class="tick y" x="{LEFT - 8}" y="{at + 4:.1f}">{_label(tick)}</text>')
    return "".join(parts)


def _x_ticks(xs: _Scale, height: int) -> str:
    parts, free = [], 0.0
    for tick in xs.ticks:
        at = xs(tick)
        parts.append(
            f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{height - BOTTOM}" y2="{height - BOTTOM + 5}"/>'
        )
        label = _label(tick, widest=1e8)
        half = 3.6 * len(label)  # of the text's width: the label must not be cut off at the edge
        inside = min(at, WIDTH - half)
        if inside - half < free:  # it would run into the label before it; the mark stays
            continue
        free = inside + half + 4
        parts.append(f'<text class="tick x" x="{inside:.1f}" y="{height - BOTTOM + 19}">{label}</text>')
    parts.append(f'<line class="base" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height - BOTTOM}" y2="{height - BOTTOM}"/>')
    return "".join(parts)


def _axis_names(x: Axis, y: Axis, top: int, height: int) -> str:
    centre, middle = (LEFT + WIDTH - RIGHT) / 2, (top + height - BOTTOM) / 2
    return (
        f'<text class="axis x" x="{centre:.0f}" y="{height - 8}">{escape(x.label)}</text>'
        f'<text class="axis y" transform="translate(15 {middle:.0f}) rotate(-90)">{escape(y.label)}</text>'
    )


def _draw_series(one: Series, number: int, xs: _Scale, ys: _Scale, join: bool, beside: float) -> str:
    parts, css = [], f"s{number % SERIES}"
    points = [(xs(a) + beside, ys(b)) for a, b in zip(one.x, one.y)]
    for (at, _), low, high in zip(points, one.low, one.high):
        if low is not None and high is not None:
            ends = f'y1="{ys(low):.1f}" y2="{ys(high):.1f}"'
            parts.append(f'<line class="whisker {css}" x1="{at:.1f}" x2="{at:.1f}" {ends}/>')
    if join and len(points) > 1:
        listed = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline class="line {css}" points="{listed}"/>')
    return "".join([*parts, *(_marker(number, a, b) for a, b in points)])


def _marker(number: int, x: float, y: float) -> str:
    css = f'class="dot s{number % SERIES}"'
    # With the next round of colours the shapes move on by one, so that no two of 32 series look alike.
    shape = _MARKERS[(number + number // SERIES) % len(_MARKERS)]
    if shape == "circle":
        return f'<circle {css} cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'
    if shape == "square":
        return f'<rect {css} x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
    corners = [(0, -5.6), (5.6, 0), (0, 5.6), (-5.6, 0)] if shape == "diamond" else [(0, -5.4), (5.2, 4), (-5.2, 4)]
    return f'<polygon {css} points="{" ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in corners)}"/>'


def _legend_places(names: Sequence[str]) -> list[tuple[float, int]]:
    """Return the x position and the line of each name in a legend."""
    places: list[tuple[float, int]] = []
    x, line = float(LEFT), 0
    for name in names:
        width = 34 + 7.2 * len(name)
        if x + width > WIDTH and x > LEFT:
            x, line = float(LEFT), line + 1
        places.append((x, line))
        x += width
    return places


def _legend_lines(names: Sequence[str]) -> int:
    return _legend_places(names)[-1][1] + 1 if names else 0


def _legend(names: Sequence[str], join: bool, markers: bool = True) -> str:
    parts = []
    for number, (name, (x, line)) in enumerate(zip(names, _legend_places(names))):
        y = 14 + 20 * line
        if join:
            parts.append(f'<line class="line s{number % SERIES}" x1="{x:.0f}" x2="{x + 18:.0f}" y1="{y}" y2="{y}"/>')
        if markers:
            parts.append(_marker(number, x + 9, y))
        parts.append(f'<text class="legend" x="{x + 24:.0f}" y="{y + 4}">{escape(name)}</text>')
    return "".join(parts)


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
        f"{with_attributes(''.join(parts))}</svg>"
    )


def _thin(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep the first, lowest, highest and last point of each half pixel, so that no peak is lost."""
    if len(points) < 2 * WIDTH:
        return list(points)
    columns: dict[int, list[tuple[float, float]]] = {}
    for point in points:
        columns.setdefault(int(point[0] * 2), []).append(point)
    kept = []
    for column in columns.values():
        ends = {column.index(p) for p in (min(column, key=lambda p: p[1]), max(column, key=lambda p: p[1]))}
        kept += [column[i] for i in sorted(ends | {0, len(column) - 1})]
    return kept


def _round_numbers(low: float, high: float, least: float = 0.0) -> list[float]:
    """Return about six round numbers between `low` and `high`, at least `least` apart."""
    step = max(_round_step((high - low) / 6), least)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= step * 0.999)


def _label(value: float, widest: float = 1e7) -> str:
    if value and (abs(value) < 5e-3 or abs(value) >= widest):
        mantissa, _, power = f"{value:.0e}".partition("e")
        return f"{mantissa}e{int(power)}"
    return f"{value:,.10g}" if abs(value) >= 1000 else f"{round(value, 10):g}"
