"""The page in a real browser, as a person uses it. Nothing may be written to the console as an error."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.slow

SPEC = importlib.util.spec_from_file_location("browser_steps", Path(__file__).with_name("browser_steps.py"))
assert SPEC is not None and SPEC.loader is not None
steps = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(steps)
until, open_query, open_first_hit, painted, scales = (
    steps.until,
    steps.open_query,
    steps.open_first_hit,
    steps.painted,
    steps.scales,
)


def test_browse_filter_and_find(page, viewer):
    assert "token" not in page.url and page.locator(".card").count() == 8
    page.get_by_label("colon", exact=False).first.check()
    until(page, "document.querySelectorAll('.card').length === 4")
    assert "facet=site%3Dcolon" in page.url
    page.get_by_label("Find slides by text").fill("normal")
    until(page, "document.querySelectorAll('.card').length === 2")
    page.get_by_label("Find slides by text").fill("zebra")
    page.get_by_role("button", name="Clear filters").click()
    until(page, "document.querySelectorAll('.card').length === 8")
    page.go_back()
    until(page, "document.querySelectorAll('.card').length < 8")
    until(page, "[...document.querySelectorAll('.card img')].every((one) => one.complete)")


def test_search_by_slide_open_a_hit_and_toggle_the_heat_map(page):
    open_query(page, "colon-nor-01")
    assert page.locator(".hit").count() == 7
    assert page.locator(".vote").count() == 2
    assert painted(page, "Query") == 0
    page.get_by_label("Engine").select_option("parts")
    until(page, "!document.querySelector('.hit.skeleton') && document.querySelectorAll('.hit').length === 7")
    open_first_hit(page)
    boxes = painted(page, "Hit")
    assert boxes > 0
    page.keyboard.press("h")
    until(page, "document.querySelector('[data-toggle=h]').getAttribute('aria-pressed') === 'true'")
    page.wait_for_timeout(100)
    heat = painted(page, "Hit")
    assert heat > 3 * boxes and painted(page, "Query") > 3 * boxes
    parts, shown = page.evaluate(
        "[document.getElementById('sum').dataset.sum, document.getElementById('sum').dataset.value]"
    )
    assert float(parts) == pytest.approx(float(shown), abs=1e-6)
    assert "similarity" in page.locator("#sum").inner_text()
    page.get_by_label("Opacity of the heat map").fill("20")
    assert "alpha=20" in page.url
    page.keyboard.press("h")
    page.wait_for_timeout(100)
    assert painted(page, "Hit") == boxes
    page.keyboard.press("Escape")
    page.wait_for_selector("section[aria-label=Hit]", state="detached")


def test_the_two_slides_move_together(page):
    open_query(page, "breast-duc-01")
    open_first_hit(page)
    assert len(set(scales(page))) == 1
    page.locator("section[aria-label=Query]").get_by_label("Zoom in").click()
    page.wait_for_timeout(700)
    both = scales(page)
    assert len(set(both)) == 1
    page.keyboard.press("s")
    page.locator("section[aria-label=Query]").get_by_label("Zoom in").click()
    page.wait_for_timeout(700)
    apart = scales(page)
    assert apart[0] != both[0] and apart[1] == both[1]


def test_a_pair_is_looked_at_on_both_sides(page):
    open_query(page, "breast-duc-01")
    open_first_hit(page)
    before = scales(page)
    page.locator(".pair").first.click()
    until(page, f"[...document.querySelectorAll('.scale')].every((one) => !one.textContent.endsWith('{before[0]}'))")
    assert len(set(scales(page))) == 1
    for pane in ("Query", "Hit"):  # the patch's box is drawn around the middle of its pane
        middle = page.evaluate(
            """(pane) => { const layer = document.querySelector(`section[aria-label=${pane}] canvas.layer`);
            const { width, height } = layer, data = layer.getContext('2d').getImageData(0, 0, width, height).data;
            const wanted = [230, 25, 75]; let left = width, right = 0;
            for (let x = 0; x < width; x += 1) { const at = 4 * (Math.round(height / 2) * width + x);
              if (wanted.every((value, part) => Math.abs(data[at + part] - value) < 40)) {
                left = Math.min(left, x); right = Math.max(right, x); } }
            return (left + right) / 2 / width; }""",
            pane,
        )
        assert middle == pytest.approx(0.5, abs=0.03)


def test_patches_of_one_row_codes_are_two_rankings_not_pairs(page):
    open_query(page, "breast-duc-01")
    page.get_by_label("Engine").select_option("parts")
    until(page, "!document.querySelector('.hit.skeleton') && document.querySelectorAll('.hit').length === 7")
    open_first_hit(page)
    for side in ("Query", "Hit"):
        ranking = page.get_by_role("region", name=f"{side} patches, ranked for this slide alone")
        assert ranking.locator(".number").all_inner_texts()[:2] == [f"{side[0]}1", f"{side[0]}2"]
        assert all(button.locator("img").count() == 1 for button in ranking.locator(".pair").all())
    colours = page.eval_on_selector_all(
        ".ranking", "(both) => both.map((one) => getComputedStyle(one.querySelector('.number')).borderLeftColor)"
    )
    assert colours[0] != colours[1]
    before = page.locator("section[aria-label=Hit] .scale").inner_text()
    page.keyboard.press("s")
    page.get_by_role("region", name="Query patches, ranked for this slide alone").locator(".pair").first.click()
    page.wait_for_timeout(300)
    assert page.locator("section[aria-label=Hit] .scale").inner_text() == before, "only the patch's own slide moves"


def test_draw_a_region_and_search_it(page):
    open_query(page, "breast-lob-01")
    page.keyboard.press("r")
    glass = page.locator("section[aria-label=Query] .glass").bounding_box()
    middle = glass["x"] + glass["width"] / 2, glass["y"] + glass["height"] / 2
    page.mouse.move(middle[0] - 120, middle[1] - 120)
    page.mouse.down()
    page.mouse.move(middle[0] + 60, middle[1] + 60, steps=4)
    page.mouse.move(middle[0] + 130, middle[1] + 130, steps=4)
    page.mouse.up()
    until(page, "location.search.includes('region=')")
    page.wait_for_selector(".hit:not(.skeleton)")
    assert page.locator(".role").first.inner_text() == "Query region" and painted(page, "Query") > 0
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Include the query’s own patient").check()
    until(page, "location.search.includes('same=1')")
    page.wait_for_selector(".hit:not(.skeleton)")
    until(page, "document.querySelectorAll('.hit:not(.skeleton)').length === 8")
    open_first_hit(page)
    assert page.locator("section[aria-label=Hit] .title").inner_text() == "breast-lob-01"


def test_compare_two_engines_for_one_query(page):
    open_query(page, "colon-ade-02")
    first = page.locator(".hit .label").all_inner_texts()
    page.locator("#versus summary").click()
    page.get_by_role("checkbox", name="parts").check()
    page.wait_for_selector("#common")
    assert page.locator(".list").count() == 2 and re.match(r"\d of 7 hits", page.locator("#common").inner_text())
    assert page.locator(".list").first.locator(".hit .label").all_inner_texts() == first
    page.locator(".list").nth(1).locator(".hit").first.click()
    page.wait_for_selector("#sum strong")
    assert "by=parts" in page.url and "similarity" in page.locator("#sum").inner_text()


def test_a_permalink_survives_a_reload(page):
    open_query(page, "colon-ade-01")
    page.get_by_label("Engine").select_option("parts")
    until(page, "!document.querySelector('.hit.skeleton') && document.querySelectorAll('.hit').length === 7")
    page.locator(".hit").nth(2).click()
    page.wait_for_selector("#sum strong")
    page.keyboard.press("h")
    until(page, "location.search.includes('heat=1')")
    before = page.url, page.locator("#sum").inner_text(), page.locator(".hit .label").all_inner_texts()
    title = page.locator("section[aria-label=Hit] .title").inner_text()
    page.reload()
    page.wait_for_selector("#sum strong")
    page.wait_for_selector("section[aria-label=Hit] .title")
    page.wait_for_selector(".hit:not(.skeleton)")
    after = page.url, page.locator("#sum").inner_text(), page.locator(".hit .label").all_inner_texts()
    assert before == after and page.locator("section[aria-label=Hit] .title").inner_text() == title
    assert page.locator("[data-toggle=h]").get_attribute("aria-pressed") == "true"


def test_a_permalink_keeps_where_one_looks(page):
    open_query(page, "breast-duc-01")
    open_first_hit(page)
    page.wait_for_timeout(500)
    assert "at=" not in page.url  # whole slides need no place
    page.locator("section[aria-label=Query]").get_by_label("Zoom in").dblclick()
    until(page, "location.search.includes('at=') && location.search.includes('beside=')")
    page.wait_for_timeout(700)
    before = page.url, scales(page)
    page.reload()
    page.wait_for_selector("#sum strong")
    until(page, "document.querySelectorAll('.scale:not([hidden])').length === 2")
    page.wait_for_timeout(700)
    assert (page.url, scales(page)) == before
    page.locator("section[aria-label=Hit]").get_by_label("Whole slide").click()
    page.wait_for_timeout(500)
    page.keyboard.press("b")
    page.wait_for_selector(".card")
    assert "at=" not in page.url


@pytest.mark.parametrize("expected", ["Failed to load resource"])
def test_old_and_damaged_addresses_say_so_and_lead_on(page, viewer, slides, expected):
    page.goto(f"{viewer.origin}/?page=999")
    until(page, "document.querySelectorAll('.card').length === 8")
    page.goto(f"{viewer.origin}/?facet=grade%3D3")
    page.get_by_role("button", name="Clear filters").click()
    until(page, "document.querySelectorAll('.card').length === 8")
    page.goto(f"{viewer.origin}/?slide={slides['colon-nor-01']['key']}&engine=gone")
    page.wait_for_selector(".problem")
    assert page.locator("#engine option:checked").inner_text() == "gone (not available)"
    page.get_by_label("Engine").select_option("parts")
    page.wait_for_selector(".hit:not(.skeleton)")
    page.goto(f"{viewer.origin}/?patch={'0' * 32}")
    until(page, "document.querySelectorAll('.problem').length === 2")
    assert "[object" not in page.locator("#content").inner_text()
    page.goto(f"{viewer.origin}/?slide={slides['colon-nor-01']['key']}&hit=cut")
    until(page, "document.querySelector('section[aria-label=Hit] .problem')?.textContent.includes('invalid')")
    page.goto(f"{viewer.origin}/?slide={slides['colon-nor-01']['key']}&at=1,NaN,0")
    page.wait_for_selector(".hit:not(.skeleton)")
    page.wait_for_selector(".pane .scale:not([hidden])")


def test_search_with_an_uploaded_patch(page, tmp_path):
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers([150, 60, 120], [230, 130, 190], (96, 96, 3)).astype(np.uint8)).save(
        tmp_path / "p.png"
    )
    page.locator("#upload").set_input_files(tmp_path / "p.png")
    page.wait_for_selector(".hit:not(.skeleton)")
    assert "patch=" in page.url and page.locator(".role").first.inner_text() == "Query patch"
    open_first_hit(page)
    until(page, "[...document.querySelectorAll('.pair img')].length === 2")  # the patch beside the hit's
    assert "the only pair" in page.locator("#sum").inner_text()


@pytest.mark.parametrize("page", [(390, 844)], indirect=True)
def test_a_narrow_screen_shows_everything_without_scrolling_sideways(page):
    def sideways():
        return page.evaluate("document.documentElement.scrollWidth > innerWidth + 1")

    assert not sideways()
    open_query(page, "colon-nor-02")
    open_first_hit(page)
    assert not sideways()
    for pane in ("Query", "Hit"):
        box = page.locator(f"section[aria-label={pane}]").bounding_box()
        assert box["width"] == pytest.approx(390, abs=2) and box["height"] > 250
    top = page.locator(".work").bounding_box()["y"]
    assert page.locator("section[aria-label=Hit]").bounding_box()["y"] == pytest.approx(top, abs=5)


@pytest.mark.parametrize("page", [(390, 844)], indirect=True)
def test_a_region_is_drawn_with_a_finger(page):
    open_query(page, "breast-lob-01")
    page.locator("#draw").click()
    glass = page.locator("section[aria-label=Query] .glass").bounding_box()
    finger = page.context.new_cdp_session(page)
    for kind, step in (("touchStart", 0), ("touchMove", 60), ("touchMove", 200), ("touchEnd", None)):
        spots = [] if step is None else [{"x": glass["x"] + 80 + step, "y": glass["y"] + 100 + step}]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": spots})
    until(page, "location.search.includes('region=')")
    page.wait_for_selector(".hit:not(.skeleton)")


def test_the_keyboard_is_explained_and_the_theme_kept(page):
    page.keyboard.press("?")
    assert page.locator("#help").is_visible() and "Heat map" in page.locator("#help").inner_text()
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    chosen = page.evaluate("document.documentElement.dataset.theme")
    page.reload()
    page.wait_for_selector(".card")
    assert page.evaluate("document.documentElement.dataset.theme") == chosen
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "text"
