"""The demonstration: what it promises is true."""

import os
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def demo(tmp_path_factory, slideseek):
    """The demo's folder and what it printed as JSON, made once; over a copy of what `make demo` left, if anything."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    if (made := os.environ.get("SLIDESEEK_MADE_DEMO")) and Path(made, "report.html").is_file():
        shutil.copytree(made, folder)
        (folder / "report.html").unlink()  # so that the tests see what this run writes
    done = slideseek("demo", "--dir", folder, "--json")
    assert done.code == 0, done.err
    return folder, done.json


def test_votes_beat_the_most_common_diagnosis_clearly(demo):
    _, result = demo
    yottixel = result["accuracies"]["yottixel"]
    assert yottixel["constant"] == pytest.approx(0.5)
    assert yottixel["majority3"] >= yottixel["constant"] + 0.2


def test_a_slide_finds_itself_first_at_distance_zero(demo):
    _, result = demo
    hit = result["itself"]["hits"][0]
    assert (hit["slide"]["id"], hit["distance"]) == (result["answer"]["query"]["id"], 0.0)


def test_it_leaves_an_archive_and_a_report(demo, slideseek):
    folder, result = demo
    page = (folder / "report.html").read_text()
    assert result["report"] == str(folder / "report.html")
    for hit in result["answer"]["hits"]:
        assert hit["slide"]["id"] in page
    assert "data:image/jpeg" in page and "http://" not in page and "https://" not in page
    status = slideseek("status", "-a", folder, "--json").json
    assert len(status["slides"]) >= 24 and not any(s["failure"] for s in status["slides"])
    assert len({(s["site"], s["label"]) for s in status["slides"]}) == 4


def test_running_it_again_goes_on_with_what_is_there(demo, slideseek):
    folder, _ = demo
    done = slideseek("demo", "--dir", folder)
    assert done.code == 0 and "painted" not in done.err
    assert "report:" in done.out and "leave one patient out" in done.out
