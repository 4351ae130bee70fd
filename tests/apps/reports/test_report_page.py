"""The report page: complete, escaped, and without a reference to anything outside itself."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from slideseek_apps.reports.report_page import HitPanel, Panel, QuerySection, Report, TextTable, render_report

HOSTILE = "<script>alert('x')</script>\" onload=\"x"
VOID = {"meta", "img", "br", "rect"}


class Page(HTMLParser):
    """Collect elements and text; fail on a tag that is closed out of turn."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.text += data + " "

    def all(self, tag: str, css_class: str = "") -> list[dict[str, str | None]]:
        wanted = set(css_class.split())
        return [a for t, a in self.elements if t == tag and wanted <= set((a.get("class") or "").split())]


def picture(seed: int, height: int = 60, width: int = 80) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)


def panel(slide_id: str, seed: int = 0, patches: int = 3) -> Panel:
    boxes = [(10.0 * i, 5.0, 8.0, 8.0) for i in range(patches)]
    mosaic = [picture(100 * seed + i + 1, 16, 16) for i in range(patches)]
    facts = {"patient": f"P-{seed}", "diagnosis": "adenocarcinoma"}
    return Panel(slide_id, facts, picture(seed), boxes, mosaic, 12.5)


@pytest.fixture
def section() -> QuerySection:
    hits = [
        HitPanel(1, 10.0, True, panel("near", 1)),
        HitPanel(2, 20.0, False, panel("middle", 2)),
        HitPanel(3, 40.0, None, panel("far", 3)),
    ]
    votes = {"site": "colon (3 of 3)", "diagnosis": "adenocarcinoma (2 of 3)"}
    return QuerySection(panel("query"), "sbfv-5k", "vertical", votes, hits, ["one patient left out"], 1.25)


def test_every_hit_and_every_picture_is_there(section: QuerySection) -> None:
    page = Page(render_report(Report("Search", "of one slide", {"archive": "demo"}, [], [section])))
    sources = [image["src"] or "" for image in page.all("img")]
    assert len(sources) == len(set(sources)) == 4 * (1 + 3)
    assert all(source.startswith("data:image/jpeg;base64,") for source in sources)
    assert len(page.all("rect")) == 4 * 3
    assert len(page.all("li", "hit")) == 3
    for words in ("query", "near", "middle", "far", "colon (3 of 3)", "one patient left out", "1.25 ms", "P-2", "demo"):
        assert words in page.text
    assert page.text.index("near") < page.text.index("middle") < page.text.index("far")


def test_boxes_lie_in_the_frame_of_the_thumbnail(section: QuerySection) -> None:
    page = Page(render_report(Report("Search", sections=[section])))
    assert page.all("svg")[0]["viewbox"] == "0 0 80 60"
    assert page.all("rect")[1] == {"x": "10.0", "y": "5.0", "width": "8.0", "height": "8.0"}


def test_scale_bar_matches_the_thumbnail(section: QuerySection) -> None:
    page = Page(render_report(Report("Search", sections=[section])))
    # 80 pixels of 12.5 µm are 1000 µm: the longest round length within 30 % is 200 µm, 20 % of the width.
    assert page.all("div", "scale")[0]["style"] == "width:20.0%"
    assert page.text.count("200 µm") == 4


def test_agreement_is_said_in_words_and_signs(section: QuerySection) -> None:
    page = Page(render_report(Report("Search", sections=[section])))
    for sign, words in (("✓", "agrees with the query"), ("✕", "differs from the query"), ("?", "not comparable")):
        assert sign in page.text and words in page.text
    assert len(page.all("li", "hit differs")) == 1
    assert "1 of 2" in page.text  # one hit of the two whose label is known


def test_distance_bars_are_shares_of_the_largest(section: QuerySection) -> None:
    page = Page(render_report(Report("Search", sections=[section])))
    assert [bar["style"] for bar in page.all("i")] == ["width:25.0%", "width:50.0%", "width:100.0%"]


@pytest.mark.parametrize("distances", [(0.0, 0.0), (-1e-7, 0.5)])
def test_bars_stay_on_the_track(section: QuerySection, distances: tuple[float, float]) -> None:
    hits = [HitPanel(i, distance, True, panel("a")) for i, distance in enumerate(distances, 1)]
    widths = [replace(section, hits=hits).bar(hit) for hit in hits]
    assert all(0 <= width <= 100 for width in widths) and widths[0] == 0


def test_hostile_text_stays_text(section: QuerySection) -> None:
    hit = HitPanel(1, 1.0, None, replace(panel(HOSTILE), facts={HOSTILE: HOSTILE}))
    gone = HitPanel(2, 2.0, None, Panel(HOSTILE))
    hostile = replace(
        section, query=panel(HOSTILE), engine=HOSTILE, votes={HOSTILE: HOSTILE}, hits=[hit, gone], notes=[HOSTILE]
    )
    table = TextTable(HOSTILE, [HOSTILE], [[HOSTILE]])
    html = render_report(Report(HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, [table], [hostile, hostile]))
    page = Page(html)
    assert not page.all("script")
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert "<script" not in html
    assert page.text.count("alert('x')") > 15


def test_page_refers_to_nothing_outside(section: QuerySection) -> None:
    html = render_report(Report("Search", sections=[section, section], tables=[TextTable("t", ["a"], [["1"]])]))
    page = Page(html)
    assert not re.search(r"https?:|[\"'(]//|@import|url\(", html)
    targets = [a[name] for _, a in page.elements for name in ("src", "href", "action") if a.get(name)]
    assert all(target.startswith(("data:image/jpeg;base64,", "#query-")) for target in targets if target)
    assert {tag for tag, _ in page.elements}.isdisjoint({"script", "link", "iframe", "object", "form"})
    policy = next(m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy and policy.startswith("default-src 'none'; img-src data:;") and "script-src" not in policy


def test_links_lead_to_sections(section: QuerySection) -> None:
    page = Page(render_report(Report("Search", sections=[section, section])))
    ids = [a["id"] for _, a in page.elements if a.get("id")]
    assert len(ids) == len(set(ids))
    assert {(a["href"] or "")[1:] for a in page.all("a")} == {"query-1", "query-2"} <= set(ids)


def test_a_slide_that_is_gone_has_a_place_without_picture(section: QuerySection) -> None:
    gone = replace(section, hits=[HitPanel(1, 3.0, True, Panel("lost", {"patient": "P-9"}))])
    page = Page(render_report(Report("Search", sections=[gone])))
    assert len(page.all("img")) == 4  # those of the query alone
    assert len(page.all("div", "slide missing")) == 1
    assert "No picture" in page.text and "lost" in page.text and "P-9" in page.text


def test_a_query_without_hits_says_so(section: QuerySection) -> None:
    empty = replace(section, hits=[], votes={}, notes=[])
    page = Page(render_report(Report("Search", sections=[empty])))
    assert "No hits." in page.text
    assert not page.all("ol") and not page.all("dl", "verdict")


def test_modes_are_explained(section: QuerySection) -> None:
    assert "within the site of the query" in render_report(Report("S", sections=[section]))
    assert "the whole archive" in render_report(Report("S", sections=[replace(section, mode="horizontal")]))


def test_tables_align_numbers() -> None:
    rows = [["select", "24", "12.1 s", "0.5 [0.4, 0.6]"], ["v2", "1,024", "50 ms", "–"]]
    table = TextTable("Stage times", ["Stage", "Slides", "Time", "F1"], rows)
    assert table.numeric == (False, True, True, True)
    page = Page(render_report(Report("Search", tables=[table])))
    assert len(page.all("td", "number")) == 6 and len(page.all("th", "number")) == 3
    assert "Stage times" in page.text
    assert TextTable("empty", ["a", "b"], []).numeric == (False, False)


def test_a_ragged_table_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells per row, not 1"):
        TextTable("t", ["a", "b"], [["1"]])


def test_an_empty_report_is_still_a_page() -> None:
    page = Page(render_report(Report("Nothing")))
    assert "Nothing" in page.text and not page.all("section")
