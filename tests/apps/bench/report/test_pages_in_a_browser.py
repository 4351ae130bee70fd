"""Benchmark pages as people see them: a trial says so wherever one looks, training is shown, ranks are shared."""

import pytest

from slideseek_apps.bench.report.assemble import make_report
from slideseek_apps.bench.report.formats import render
from slideseek_apps.bench.results import read_results

from .test_report import FAST

pytestmark = pytest.mark.slow


@pytest.fixture
def shown(chromium, simulation, tmp_path):
    """Return a function that opens the page of a run; nothing in it may complain."""
    complaints: list[str] = []

    def show(trial, width, dark):
        made = simulation()
        options = {"encoder": {"use": "deep-fv", "epochs": 7}, "index": {"use": "cosine"}}
        protocol = {"name": "vertical", "mode": "vertical", "k": 5, "fit": "folds", "folds": 3}
        made.retrieval("deep", 0.6, options=options, protocol=protocol, trial=trial)
        still = protocol | {"fit": "none"}
        made.retrieval("mean", 0.6, options={"encoder": {"use": "mean"}}, protocol=still, trial=trial)
        file = tmp_path / "page.html"
        file.write_text(render(make_report("Table 1", read_results(made.folder).cells, FAST), "html"), encoding="utf-8")
        page = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light")
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(file.as_uri())
        return page

    yield show
    assert complaints == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_trial_says_so_wherever_one_looks(shown, width, dark):
    page = shown(True, width, dark)
    assert page.title().startswith("Trial run, not a result")
    for part in (0, 0.5, 1):
        page.evaluate("part => window.scrollTo(0, part * document.body.scrollHeight)", part)
        band = page.locator(".band").bounding_box()
        assert band is not None and 0 <= band["y"] < 800 - band["height"], "the band is on the screen"
        assert band["width"] > 0.9 * width
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing makes the page scroll sideways"
    page.emulate_media(media="print")
    assert page.locator(".band").is_visible()


def test_a_result_has_no_band_and_says_how_engines_were_trained(shown):
    page = shown(False, 1280, False)
    assert page.locator(".band").count() == 0
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    text = page.locator("body").inner_text()
    assert "nothing is learnt" in text and "folds" in text and "encoder.epochs" in text
