"""Archives of imported features, and pictures that fail or lag, in a real browser."""

import importlib.util
import re
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SPEC = importlib.util.spec_from_file_location("browser_steps", Path(__file__).with_name("browser_steps.py"))
assert SPEC is not None and SPEC.loader is not None
steps = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(steps)
until, open_query, painted = steps.until, steps.open_query, steps.painted

SETTLED = "!document.querySelector('.hit.skeleton') && document.querySelectorAll('.hit').length > 0"


class TestImportedFeatures:
    @pytest.fixture
    def served(self, imported_viewer):
        return imported_viewer

    def test_slides_without_pictures_are_a_table_a_map_and_a_plot(self, page):
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        assert page.locator(".card-row").count() == 24 and page.locator(".card").count() == 0
        page.get_by_label("Age, at least").fill("50")
        page.get_by_label("Age, at least").blur()
        until(page, "document.querySelectorAll('.card-row').length === 14")
        page.get_by_role("link", name="S012").click()
        until(page, SETTLED)
        assert page.locator("tr.hit").count() == 10, "hits are rows of a table"
        page.wait_for_selector("section[aria-label=Query] .scale:not([hidden])")
        assert painted(page, "Query") > 1000, "the patches are drawn by their places"
        page.locator(".hit .open").first.click()
        page.wait_for_selector("#sum strong")
        page.wait_for_selector(".plot")
        assert page.locator(".plot rect").count() > 5
        page.get_by_label("Engine").select_option("means")
        until(page, "location.search.includes('engine=means') && " + SETTLED)
        page.locator(".hit .open").first.click()
        until(page, "document.querySelector('.plot')?.getAttribute('aria-label').startsWith('Contributions')")
        assert page.locator(".problem").count() == 0
        assert not [url for url in asked if "/tiles/" in url or "/thumbnail" in url or "/field" in url]

    def test_a_region_of_a_map_is_searched(self, page):
        page.get_by_role("link", name="S003").click()
        page.wait_for_selector("section[aria-label=Query] .scale:not([hidden])")
        page.keyboard.press("r")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        until(page, "location.search.includes('region=') && " + SETTLED)
        assert "imported patches have their centre in the region" in page.locator("#results").inner_text()


@pytest.mark.parametrize("expected", ["ailed to load"])
def test_a_tile_that_fails_is_hatched_and_asked_for_again(page, expected):
    broken = True

    def answer(route):
        if broken and re.search(r"/tiles/(9|10)/", route.request.url):
            route.fulfill(status=500, body="no")
        else:
            route.continue_()

    page.route("**/tiles/**", answer)
    open_query(page, "colon-nor-01")
    page.keyboard.press("+")
    badge = page.locator("section[aria-label=Query] .badge")
    badge.get_by_text("did not load").wait_for()

    assert painted(page, "Query") > 5000, "hatched, not blurred"
    broken = False
    page.get_by_role("button", name="Try again").click()
    until(page, "document.querySelector('section[aria-label=Query] .badge').textContent === ''")
    assert painted(page, "Query") == 0


def test_tiles_that_lag_are_said_to(page):
    def late(route):
        time.sleep(0.35)
        route.continue_()

    page.route("**/tiles/**", late)
    page.locator(".card", has_text="colon-nor-02").click()
    page.locator("section[aria-label=Query] .badge").get_by_text("not sharp yet").wait_for()
    until(page, "document.querySelector('section[aria-label=Query] .badge').textContent === ''")


def test_the_magnification_ends_at_the_scan(page):
    open_query(page, "breast-duc-01")
    for _ in range(8):
        page.keyboard.press("+")
        page.wait_for_timeout(120)
    page.wait_for_timeout(600)
    assert page.locator("section[aria-label=Query] .scale").inner_text().strip().endswith("20×")
    page.locator(".hit .open").first.click()
    page.wait_for_selector("#sum strong")
    page.locator(".pair").first.click()
    page.wait_for_timeout(500)
    powers = [float(text.rstrip("×")) for text in steps.scales(page)]
    assert max(powers) <= 20
