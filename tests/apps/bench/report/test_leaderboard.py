"""The leaderboard: several results in one page."""

import base64
import hashlib
import os
import re
import shutil

import numpy as np
import pytest

from slideseek_apps.bench.report.assemble import make_report
from slideseek_apps.bench.report.leaderboard import ALL_SITES, make_standings
from slideseek_apps.bench.report.settings import ReportSettings
from slideseek_apps.bench.results import merge_results, read_results

FAST = ReportSettings(resamples=100, permutations=99)


def two(simulation):
    first, second = simulation("first"), simulation("second")
    first.retrieval("weak", 0.3)
    first.retrieval("strong", 0.9)
    second.retrieval("middle", 0.6)
    second.retrieval("sites", 0.7, mode="horizontal")
    second.retrieval("weak", 0.3, control=True)
    return first.folder, second.folder


def test_results_are_merged_and_ranked(simulation):
    standings = make_standings([read_results(folder) for folder in two(simulation)], FAST)
    overall = [s for s in standings if s.protocol == "vertical" and s.site == ALL_SITES]
    assert [(s.engine, s.source) for s in overall] == [("strong", "first"), ("middle", "second"), ("weak", "first")]
    assert {s.site for s in standings} == {ALL_SITES, "colon", "lung", "skin"}
    for engine in ("strong", "sites"):
        mine = {s.site: s for s in standings if s.engine == engine}
        assert sum(mine[site].slides for site in ("colon", "lung", "skin")) == mine[ALL_SITES].slides


def test_a_site_has_the_macro_f1_of_its_own_classes(simulation):
    made = simulation()
    made.retrieval("mean", 0.6)
    by_site = {s.site: s.macro_f1.value for s in make_standings([read_results(made.folder)], FAST)}
    weights = {"colon": 3, "lung": 3, "skin": 2}
    values = np.array([by_site[site] for site in weights], np.float64)
    expected = np.average(values, weights=list(weights.values()))
    assert by_site[ALL_SITES] == pytest.approx(expected, rel=0, abs=1e-9)


def test_the_page_allows_its_own_script_alone(simulation, tmp_path, slideseek):
    page = tmp_path / "page.html"
    done = slideseek("bench", "leaderboard", *two(simulation), "-o", page, "--title", "A <b>board</b>")
    assert done.code == 0, done.err
    text = page.read_text()
    assert "A &lt;b&gt;board&lt;/b&gt;" in text
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#39;sha256-{digest}&#39;" in text or f"script-src 'sha256-{digest}'" in text
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#)""", text)
    assert text.count("<tr data-dataset=") == 16


def test_nothing_to_rank_is_an_error(simulation, tmp_path, slideseek):
    made = simulation()
    made.classification("mean", 0.5)
    done = slideseek("bench", "leaderboard", made.folder, "-o", tmp_path / "page.html")
    assert done.code == 1
    assert "no retrieval cells" in done.err


def test_other_candidates_are_another_protocol(simulation):
    """A search among the test slides alone is easier or harder: it may not stand in one ranking, or one table."""
    made, other = simulation("all"), simulation("test")
    made.retrieval("mean", 0.6)
    protocol = {"name": "vertical", "mode": "vertical", "k": 5, "candidates": "test"}
    other.retrieval("mean", 0.9, protocol=protocol, created="2026-02-01T00:00:00+00:00")
    results = [read_results(one.folder) for one in (made, other)]
    standings = make_standings(results, FAST)
    assert {s.protocol for s in standings} == {"vertical", "vertical among test slides"}
    merged = merge_results(results)
    assert len(merged.cells) == 2
    report = make_report("", merged.cells, FAST)
    assert [p.heading for p in report.parts] == ["simulated, vertical", "simulated, vertical among test slides"]


@pytest.fixture
def board(simulation, tmp_path, slideseek):
    """The page in a browser; the test fails when anything in it complains."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no chromium on this machine")
    assert slideseek("bench", "leaderboard", *two(simulation), "-o", tmp_path / "page.html").code == 0
    flags = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=flags)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        complaints = []
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((tmp_path / "page.html").as_uri())
        yield page
        browser.close()
    assert complaints == []


def test_the_page_sorts_and_filters(board):
    def engines():
        return [row.locator("td.engine").inner_text() for row in board.locator("tbody tr:visible").all()]

    assert engines() == ["strong", "middle", "weak"], "it begins with one dataset and protocol, best first"
    assert board.locator("#count").inner_text() == "3 of 16 rows"
    board.get_by_role("button", name="macro F1").click()
    assert engines() == ["weak", "middle", "strong"]
    assert board.locator("tbody tr:visible td:first-child").all_inner_texts() == ["3", "2", "1"], "ranks, not rows"
    board.get_by_role("button", name="engine", exact=True).click()
    assert engines() == ["middle", "strong", "weak"]
    board.locator("#text").fill("SECOND")
    assert engines() == ["middle"]
    board.locator("#text").fill("")
    board.locator("#protocol").select_option("horizontal")
    assert engines() == ["sites"]
    board.locator("#protocol").select_option("vertical")
    board.locator("#site").select_option("lung")
    assert engines() == ["middle", "strong", "weak"]
