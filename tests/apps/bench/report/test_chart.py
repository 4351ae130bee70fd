"""Charts: what must be seen is inside, apart and readable."""

import re

import pytest

from slideseek_apps.bench.report.chart import LONGEST_NAME, WIDTH, Axis, Series, interval_chart, line_chart, panel_chart


def texts(svg, css):
    return re.findall(rf'<text class="{css}"[^>]*>([^<]*)</text>', svg)


def test_traces_that_hide_each_other_have_a_panel_each():
    x = [1.0, 2.0, 3.0]
    svg = panel_chart([Series("a", x, [-1, 0, 1]), Series("b", x, [1, 0, -1])], Axis("x"), Axis("y"), "t")
    heights = [[float(p.split(",")[1]) for p in points.split()] for points in re.findall(r'points="([^"]*)"', svg)]
    assert max(heights[0]) < min(heights[1])
    assert max(heights[0]) - min(heights[0]) == pytest.approx(max(heights[1]) - min(heights[1]), abs=0.2)


def test_counts_have_whole_ticks():
    svg = line_chart([Series("a", [1, 2, 3], [5, 6, 7])], Axis("epoch", whole=True), Axis("y"), "t")
    assert texts(svg, "tick x") == ["1", "2", "3"]


def test_a_narrow_log_axis_has_two_ticks_at_least():
    svg = line_chart([Series("a", [1, 2], [2100, 2900])], Axis("x"), Axis("y", log=True), "t")
    assert len(texts(svg, "tick y")) >= 2


def test_the_last_tick_is_not_cut():
    svg = line_chart([Series("a", [100, 10_000_000], [1, 2])], Axis("bytes", log=True), Axis("y"), "t")
    at = re.findall(r'<text class="tick x"[^>]* x="([\d.]+)"[^>]*>10,000,000<', svg)
    assert float(at[0]) + 3.6 * len("10,000,000") <= WIDTH


def test_long_names_leave_room_for_the_chart():
    svg = interval_chart([("n" * 200, 50.0, 40.0, 60.0, True), ("b", 45.0, None, None, False)], Axis("x"), "t")
    assert [len(name) for name in texts(svg, "row-name best")] == [LONGEST_NAME]
    dots = [float(x) for x in re.findall(r'cx="([\d.]+)"', svg)]
    assert dots[1] < dots[0] < WIDTH
