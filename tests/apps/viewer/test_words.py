"""Search with words over HTTP and in the page: the box is there only if an engine reads text."""

import os
import shutil

import httpx
import pytest

from bench.text_search import PATIENTS, QUERIES
from slideseek_apps.viewer.server import serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served(described):
    with serving(described) as running:
        yield running


@pytest.fixture(scope="module")
def http(served):
    access = {"authorization": f"Bearer {served.token}"}
    with httpx.Client(base_url=served.origin, headers=access, timeout=60, trust_env=False) as made:
        yield made


@pytest.fixture
def page(served):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no chromium on this machine")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=flags)
        made = browser.new_page(viewport={"width": 1280, "height": 800})
        made.set_default_timeout(30_000)
        complaints = []
        made.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        made.on("pageerror", lambda error: complaints.append(str(error)))
        yield made
        browser.close()
    assert complaints == []


def test_the_api_says_which_engines_read_text_and_finds_the_class(http):
    engines = {one["name"]: one["text"] for one in http.get("/api/archive").json()["engines"]}
    assert engines == {"text": True, "images-only": False}
    for label, text in QUERIES.items():
        query = {"kind": "text", "text": text}
        answer = http.post("/api/search", json={"engine": "text", "query": query, "k": PATIENTS})
        assert answer.status_code == 200, answer.text
        found = [hit["slide"]["label"] for hit in answer.json()["hits"]]
        assert found.count(label) >= PATIENTS - 1 and answer.json()["query"]["key"] == ""
    hit = answer.json()["hits"][0]["slide"]["key"]
    evidence = http.post("/api/explain", json={"engine": "text", "query": query, "hit": hit}).json()
    assert evidence["kind"] == "contributions" and len(evidence["hit"]["parts"]) > 4
    assert evidence["query"] == {"boxes": [], "parts": [], "slides": []}, "text has no patches"
    assert sum(evidence["hit"]["parts"]) == pytest.approx(evidence["value"], abs=1e-6)


@pytest.mark.parametrize(
    ("query", "status"),
    [({"text": "fat"}, 400), ({"text": ""}, 422), ({"text": "  "}, 422), ({"text": "x" * 2001}, 422), ({}, 422)],
)
def test_what_cannot_be_searched_with_is_an_error(http, query, status):
    body = {"engine": "images-only", "query": {"kind": "text", **query}}
    answer = http.post("/api/search", json=body)
    assert answer.status_code == status
    if status == 400:
        assert "cannot be queried with text" in answer.json()["error"]


def test_words_in_the_page(page, served):
    page.goto(served.url)
    page.wait_for_selector(".card")
    page.get_by_label("Search with words").fill(QUERIES["muscle"])
    page.keyboard.press("Enter")
    page.wait_for_selector(".hit:not(.skeleton)")
    labels = page.locator(".hit .label").all_inner_texts()[:PATIENTS]
    assert sum("muscle" in one for one in labels) >= PATIENTS - 1
    assert QUERIES["muscle"] in page.locator(".words-query").inner_text()
    assert "words=" in page.url and "engine=text" in page.url
    page.locator(".hit").first.click()
    page.wait_for_selector("#sum strong")
    assert "patches" in page.locator("#sum").inner_text()
    page.wait_for_selector("section[aria-label=Hit] .scale:not([hidden])")
    page.keyboard.press("h")
    page.reload()
    page.wait_for_selector(".hit:not(.skeleton)")
    page.locator("#use-hit").click()
    page.wait_for_selector(".pane .scale:not([hidden])")
    assert "words=" not in page.url and page.locator(".words-query").count() == 0


def test_no_box_where_no_engine_reads_text(page, viewer):
    page.goto(viewer.url)
    page.wait_for_selector(".card")
    assert page.locator("#words").count() == 0
