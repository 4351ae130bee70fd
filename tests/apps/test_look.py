"""Reports, benchmark pages and the viewer look alike: the same names stand for the same colours, light and dark.

Each is a page of its own that loads nothing, so each carries the values; this holds them together.
"""

import re
from importlib import resources

import pytest

VIEWER = ("slideseek_apps.viewer", "static/css/base.css")
PAGES = (("slideseek_apps.reports", "search.html.jinja"), ("slideseek_apps.bench.report", "page.css"))
BENCH_EXTRA = ("slideseek_apps.bench.report", "leaderboard.html.jinja")


def text_of(package, name):
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def tokens(css):
    """Return the values of the first two `:root` blocks by name: light, dark."""
    blocks = re.findall(r":root[^{]*\{(.*?)\}", css, flags=re.DOTALL)[:2]
    return [dict(re.findall(r"(--[\w-]+):\s*([^;]+);", block)) for block in blocks]


def body_font(css):
    (font,) = re.findall(r"font: (14px/[^;]+);", css)
    return font


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page[1])
def test_the_colours_type_and_corners_are_the_viewers(page):
    css, viewer = text_of(*page), text_of(*VIEWER)
    for mine, wanted in zip(tokens(css), tokens(viewer), strict=True):
        assert len(mine) > 8
        assert mine == {name: wanted.get(name) for name in mine}
    assert body_font(css) == body_font(viewer)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page[1])
def test_every_colour_is_defined_and_used(page):
    css = text_of(*page)
    used = set(re.findall(r"var\((--[\w-]+)\)", css + (text_of(*BENCH_EXTRA) if "bench" in page[0] else "")))
    light, dark = tokens(css)
    assert set(light) == used, "no colour is missing, none is left over"
    assert set(light) - set(dark) == {"--radius"}, "the dark page defines the same colours"


def test_heat_maps_have_the_viewers_colours():
    from slideseek_apps.reports.heat_colours import PARTED, RISING

    script = text_of("slideseek_apps.viewer", "static/js/heat.js")
    for name, stops in (("RISING", RISING), ("PARTED", PARTED)):
        (written,) = re.findall(rf"const {name} = \[(.*)\];", script)
        assert [int(value) for value in re.findall(r"\d+", written)] == stops.astype(int).ravel().tolist()
