"""After the look, in a real browser: marks, files to save, collections, filters of the search, places, tools."""

import csv
import importlib.util
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.slow

SPEC = importlib.util.spec_from_file_location("browser_steps", Path(__file__).with_name("browser_steps.py"))
assert SPEC is not None and SPEC.loader is not None
steps = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(steps)
until, open_query = steps.until, steps.open_query

SETTLED = "!document.querySelector('.hit.skeleton') && document.querySelectorAll('.hit').length > 0"


def ids_of_hits(page, slides):
    by_key = {slide["key"]: name for name, slide in slides.items()}
    return [by_key[key] for key in page.eval_on_selector_all(".hit", "(all) => all.map((one) => one.dataset.key)")]


def saved(page, name):
    page.locator("#save summary").click()
    with page.expect_download() as waiting:
        page.locator("#save").get_by_role("button", name=name).click()
    return Path(waiting.value.path()).read_bytes()


def with_real_ids(page):
    page.locator("#save summary").click()
    page.locator("#identified").check()
    page.locator("#save summary").click()


def choose_engine(page, name):
    page.get_by_label("Engine").select_option(name)
    until(page, f"location.search.includes('engine={name}')")
    until(page, SETTLED)


def test_more_like_these_gives_the_hits_of_a_session(page, slides, painted_archive, tmp_path, slideseek):
    open_query(page, "colon-nor-01")
    choose_engine(page, "parts")
    first = ids_of_hits(page, slides)
    page.get_by_role("button", name="Hit 1 is relevant", exact=True).click()
    page.get_by_role("button", name="Hit 3 is not relevant", exact=True).click()
    assert "1 relevant, 1 not" in page.locator("#marked").inner_text()
    page.locator("#more-like").click()
    until(page, "document.querySelector('#marked')?.textContent.startsWith('More like') && " + SETTLED)
    found, address = ids_of_hits(page, slides), page.url
    assert set(found).isdisjoint({first[0], first[2]})
    script = tmp_path / "script.txt"
    script.write_text(
        "engine parts\nk 10\nsearch colon-nor-01\nmark 1 relevant\nmark 3 not\nmore like these\n"
        f"export {tmp_path}/hits.json --identified\n"
    )
    done = slideseek("session", painted_archive, "--script", script)
    assert done.code == 0, done.err
    assert [hit["slide"]["id"] for hit in json.loads((tmp_path / "hits.json").read_text())["hits"]] == found
    page.goto(address)
    until(page, "document.querySelector('#marked')?.textContent.startsWith('More like') && " + SETTLED)
    assert ids_of_hits(page, slides) == found, "the marks are in the permalink"
    with_real_ids(page)
    report = saved(page, "Report (HTML)").decode()
    assert f"marked relevant: {first[0]}; marked not relevant: {first[2]}" in report
    rows = list(csv.DictReader(io.StringIO(saved(page, "Hits (CSV)").decode())))
    assert [row["slide_id"] for row in rows] == found
    page.locator("#first-hits").click()
    until(page, f"document.querySelectorAll('.hit').length === {len(first)}")
    assert ids_of_hits(page, slides) == first


def test_files_have_pseudonyms_unless_real_ids_are_asked_for(page):
    open_query(page, "colon-nor-01")
    page.locator(".hit .open").first.click()
    page.wait_for_selector("#sum strong")
    page.wait_for_selector("section[aria-label=Hit] .scale:not([hidden])")
    items = "[...document.querySelectorAll('#save button')].map((one) => one.textContent)"
    until(page, f"{items}.some((text) => text.startsWith('Picture of the hit'))")
    for name in ("Report (HTML)", "Hits (CSV)"):
        text = saved(page, name).decode()
        assert "colon-nor" not in text and "S-" in text
    picture = np.asarray(Image.open(io.BytesIO(saved(page, "Picture of the query"))).convert("RGB")).astype(int)
    bar = picture[-18, 22:60]
    assert picture.shape[0] > 300 and np.abs(bar - [20, 24, 29]).max() < 30, "a scale bar at the lower left"
    for side in ("query", "hit"):
        shapes = json.loads(saved(page, f"Evidence on the {side}"))["features"]
        assert shapes and shapes[0]["properties"]["objectType"] == "tile"


def test_a_slide_is_kept_in_a_collection_with_a_note(page, client):
    open_query(page, "breast-duc-01")
    page.get_by_role("button", name="Keep …").click()
    page.get_by_label("Name of the new collection").fill("teaching")
    page.get_by_label("Note").fill("=stroma, much of it")
    page.locator("#keep-save").click()
    until(page, "document.getElementById('toast').textContent === 'Kept'")
    page.keyboard.press("b")
    page.get_by_label("teaching").check()
    until(page, "document.querySelectorAll('.card').length === 1")
    assert "=stroma, much of it" in page.locator(".card").inner_text()
    with_real_ids(page)
    rows = list(csv.DictReader(io.StringIO(saved(page, "Table of these slides").decode())))
    assert [(row["slide_id"], row["note"]) for row in rows] == [("breast-duc-01", "'=stroma, much of it")]
    page.once("dialog", lambda asked: asked.accept())
    page.locator("#delete").click()
    until(page, "document.querySelectorAll('.card').length === 8")
    assert client.get("/api/collections").json() == []


def test_a_past_search_and_a_case_are_searched_again(page, slides):
    open_query(page, "breast-lob-01")
    choose_engine(page, "two")
    page.get_by_role("button", name="Search with the case").click()
    until(page, "document.querySelector('.role').textContent === 'Query case' && " + SETTLED)
    found = ids_of_hits(page, slides)
    assert "breast-lob-01" not in found
    page.locator(".hit .open").first.click()
    page.wait_for_selector("#sum strong")
    page.keyboard.press("b")
    page.wait_for_selector(".card")
    page.locator("#recent").click()
    page.locator("dialog[open] .link", has_text="(case)").first.click()
    until(page, "document.querySelector('.role')?.textContent === 'Query case' && " + SETTLED)
    assert ids_of_hits(page, slides) == found and "engine=two" in page.url


def test_confidence_is_explained_and_measured(page):
    open_query(page, "breast-duc-01")
    choose_engine(page, "parts")
    page.get_by_role("button", name="How sure?").nth(1).click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_text("Over all 8 slides tried").wait_for()
    assert "not how likely the diagnosis is" in dialog.inner_text()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "How sure?"


def test_the_search_is_among_what_was_filtered(page, slides):
    page.get_by_label("colon", exact=False).first.check()
    until(page, "document.querySelectorAll('.card').length === 4")
    open_query(page, "colon-nor-01")
    assert {name.split("-")[0] for name in ids_of_hits(page, slides)} == {"colon"}
    page.locator("#filter summary").click()
    page.locator("#filter").get_by_label("adenocarcinoma").check()
    until(page, "document.querySelectorAll('.hit:not(.skeleton)').length === 2")
    assert page.locator("#filter").get_attribute("open") is not None, "the panel stays open"
    page.get_by_role("button", name="Clear all").click()
    until(page, "document.querySelectorAll('.hit:not(.skeleton)').length === 7")


def test_words_are_completed_to_values_of_fields(page):
    page.get_by_label("Find slides by text").type("lobu")
    until(
        page,
        "[...document.querySelectorAll('#text-values option')].some((one) => one.value === 'label=lobular carcinoma')",
    )
    page.get_by_label("Find slides by text").fill("label=lobular carcinoma")
    until(page, "document.querySelectorAll('.card').length === 2 && location.search.includes('facet=label')")
    page.locator(".card").first.click()
    until(page, "document.querySelectorAll('.hit:not(.skeleton)').length === 1")


def test_the_table_is_sorted_and_ranges_narrow_it(page, client):
    page.locator("#view-table").click()
    page.wait_for_selector(".slide-table")
    ids = "[...document.querySelectorAll('.card-row th')].map((one) => one.textContent)"
    page.get_by_role("button", name="Patient").click()
    until(page, "document.querySelector('th[aria-sort=ascending]')?.textContent.startsWith('Patient')")
    rising = page.evaluate(ids)
    page.get_by_role("button", name="Patient").click()
    until(page, "document.querySelector('th[aria-sort=descending]')?.textContent.startsWith('Patient')")
    assert page.evaluate(ids) == rising[::-1] and page.evaluate("document.activeElement.tagName") == "BUTTON"
    ranges = {one["name"]: one for one in client.get("/api/facets").json() if one["low"] is not None}
    middle = (ranges["blur_um"]["low"] + ranges["blur_um"]["high"]) / 2
    page.get_by_label("Blur (µm), at least").fill(str(middle))
    page.get_by_label("Blur (µm), at least").blur()
    until(page, "location.search.includes('range=blur_um') && document.querySelectorAll('.card-row').length < 8")
    kept = page.locator(".card-row").count()
    assert 0 < kept < 8
    page.locator(".card-row a").first.click()
    until(page, SETTLED)
    assert page.locator(".hit").count() in (kept - 1, kept)


def test_a_hit_of_a_region_shows_and_opens_the_matching_place(page):
    open_query(page, "breast-lob-01")
    whole = steps.scales(page)[0]
    page.keyboard.press("r")
    for key in ("ArrowRight", "ArrowRight", "Shift+ArrowDown", "Enter"):  # a rectangle from the keyboard
        page.keyboard.press(key)
    until(page, "location.search.includes('region=') && " + SETTLED)
    until(page, "document.querySelectorAll('.hit .place').length === document.querySelectorAll('.hit').length")
    assert "/field?" in page.locator(".hit img").first.get_attribute("src")
    page.locator(".hit .open").first.click()
    page.wait_for_selector("section[aria-label=Hit] .scale:not([hidden])")
    scale = "document.querySelector('section[aria-label=Hit] .scale').textContent"
    until(page, f"{scale}.includes('×') && !{scale}.endsWith('{whole}')")


def test_a_slide_is_measured_annotated_turned_and_moved(page, client, slides):
    open_query(page, "colon-ade-01")
    glass = page.locator("section[aria-label=Query] .glass").bounding_box()
    middle = glass["x"] + glass["width"] / 2, glass["y"] + glass["height"] / 2

    def drag(across, down):
        page.mouse.move(middle[0] - across, middle[1] - down)
        page.mouse.down()
        page.mouse.move(middle[0] + across, middle[1] + down, steps=3)
        page.mouse.up()

    page.keyboard.press("m")
    drag(50, 0)
    assert "µm" in page.locator(".banner").inner_text()
    page.keyboard.press("Escape")
    page.get_by_label("Annotate a rectangle").first.click()
    drag(60, 40)
    page.get_by_role("button", name="1 annotation", exact=True).wait_for()
    page.get_by_label("Annotate a polygon").first.click()
    for x, y in ((-80, -60), (80, -60), (0, 90)):
        page.mouse.click(middle[0] + x, middle[1] + y)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="2 annotations", exact=True).click()
    page.get_by_label("Name of annotation 1").fill("tumour")
    page.get_by_label("Name of annotation 1").blur()
    page.get_by_role("button", name="Close").click()
    key = slides["colon-ade-01"]["key"]
    page.wait_for_timeout(300)
    kept = client.get(f"/api/slides/{key}/annotations").json()["features"]
    assert [len(one["geometry"]["coordinates"][0]) for one in kept] == [5, 4]
    assert kept[0]["properties"]["name"] == "tumour"
    assert json.loads(saved(page, "Annotations of the query"))["features"] == kept
    assert page.locator(".navigator").count() == 1
    before = steps.painted(page, "Query")
    page.keyboard.press("o")
    until(page, "location.search.includes('at=') && location.search.endsWith('2C90')")
    assert steps.painted(page, "Query") == pytest.approx(before, rel=0.2), "annotations turn with the slide"
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(600)
    moved = page.url
    page.reload()
    page.wait_for_selector(".pane .scale:not([hidden])")
    page.wait_for_timeout(600)
    assert page.url == moved
    page.keyboard.press("0")
    page.keyboard.press("f")
    until(page, "document.fullscreenElement?.getAttribute('aria-label') === 'Query'")
    page.evaluate("document.exitFullscreen()")
    for _ in range(2):
        page.locator("section[aria-label=Query] .pane-head button", has_text="annotation").click()
        page.get_by_role("button", name="Delete").first.click()
        page.wait_for_timeout(300)
    assert client.get(f"/api/slides/{key}/annotations").json()["features"] == []


def test_three_engines_are_compared_side_by_side(page):
    open_query(page, "colon-ade-02")
    page.locator("#versus summary").click()
    page.get_by_role("checkbox", name="parts").check()
    until(page, "document.querySelectorAll('.list').length === 2")
    page.get_by_role("checkbox", name="two").check()
    until(page, "document.querySelectorAll('.list').length === 3 && !!document.querySelector('#common')")
    until(page, "document.querySelector('#common').textContent.includes('all 3 engines')")
    agreed = page.locator(".list").first.locator(".hit.agreed").count()
    assert agreed == int(page.locator("#common").inner_text().split()[0]) > 0
    assert "parts:" in page.locator(".hit .elsewhere").first.inner_text()
    page.reload()
    until(page, "document.querySelectorAll('.list').length === 3")


COVERED = """() => [...document.querySelectorAll('.hit')].flatMap((hit) => {
    const marks = hit.querySelector('.judges').getBoundingClientRect();
    return [...hit.querySelectorAll('.words > *')].filter((line) => {
        const range = document.createRange(); range.selectNodeContents(line);
        const text = range.getBoundingClientRect(), box = line.getBoundingClientRect();
        const right = Math.min(text.right, box.right);
        return marks.left < right && marks.right > text.left && marks.top < text.bottom && marks.bottom > text.top;
    }).map((line) => line.textContent); })"""


@pytest.mark.parametrize("page", [(1440, 900), (1280, 800), (390, 844)], indirect=True)
def test_marks_cover_no_words_of_a_hit(page):
    open_query(page, "colon-ade-02")
    covered = {"search": page.evaluate(COVERED)}
    page.locator(".hit .open").first.click()
    page.wait_for_selector("#sum strong")
    covered["hit"] = page.evaluate(COVERED)
    page.locator("#versus summary").click()
    page.get_by_role("checkbox", name="parts").check()
    until(page, "document.querySelectorAll('.list').length === 2 && !!document.querySelector('#common')")
    until(page, SETTLED)
    covered["engines"] = page.evaluate(COVERED)
    page.keyboard.press("Escape")
    page.locator(".hit .open").first.click()
    page.wait_for_selector("#sum strong")
    covered["engines and a hit"] = page.evaluate(COVERED)
    assert {view: lines for view, lines in covered.items() if lines} == {}


def test_a_chip_of_a_slide_is_shown_as_a_whole_or_not(page):
    open_query(page, "colon-ade-02")
    cut = """() => { const all = document.querySelector('section[aria-label=Query] .chips');
        const box = all.getBoundingClientRect();
        const shown = [...all.children].map((one) => one.getBoundingClientRect()).filter((one) => one.top < box.bottom);
        return shown.filter((one) => one.right > box.right + 0.5 || one.bottom > box.bottom + 0.5).length; }"""
    assert page.evaluate(cut) == 0
    page.locator(".hit .open").first.click()
    page.wait_for_selector("#sum strong")
    assert page.evaluate(cut) == 0
