"""Everybody can use the page: no violations that axe finds on any view, focus that stays, titles that say where."""

import gzip
import importlib.util
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SPEC = importlib.util.spec_from_file_location("browser_steps", Path(__file__).with_name("browser_steps.py"))
assert SPEC is not None and SPEC.loader is not None
steps = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(steps)
until, open_query = steps.until, steps.open_query

AXE = "axe-core@4.10.3"
RUN = """async () => (await axe.run(document, { resultTypes: ['violations'] })).violations
  .flatMap((one) => one.nodes.map((node) => `${one.id}: ${node.target.join(' ')} ${node.failureSummary}`))"""


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    """The source of axe-core. It is fetched, not kept here: its licence is MPL-2.0. AXE_CORE may name a local copy."""
    if known := os.environ.get("AXE_CORE"):
        return Path(known).read_text()
    if shutil.which("npm") is None:
        pytest.skip("there is no npm to fetch axe-core with")
    folder = tmp_path_factory.mktemp("axe")
    done = subprocess.run(["npm", "pack", AXE, "--silent"], cwd=folder, capture_output=True, timeout=120, check=False)
    if done.returncode:
        pytest.skip("axe-core could not be fetched")
    with tarfile.open(next(folder.glob("*.tgz"))) as packed:
        script = packed.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def violations(page, axe):
    page.wait_for_timeout(400)
    page.evaluate(axe)
    return page.evaluate(RUN)


@pytest.mark.parametrize("page", [(1440, 900), (390, 844)], indirect=True)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_any_view(page, axe, scheme):
    page.emulate_media(color_scheme=scheme)
    found = {"slides": violations(page, axe)}
    page.locator("#view-table").click()
    page.wait_for_selector(".slide-table")
    found["table"] = violations(page, axe)
    page.locator("#view-grid").click()
    open_query(page, "colon-nor-01")
    page.get_by_role("button", name="Hit 1 is relevant", exact=True).click()
    page.get_by_role("button", name="Hit 2 is not relevant", exact=True).click()
    found["search"] = violations(page, axe)
    page.locator(".hit .open").first.click()
    page.wait_for_selector("#sum strong")
    page.wait_for_selector("section[aria-label=Hit] .scale:not([hidden])")
    found["hit"] = violations(page, axe)
    for menu in ("save", "more", "filter", "versus"):
        page.locator(f"#{menu} summary").click()
        found[menu] = violations(page, axe)
        page.keyboard.press("Escape")
    page.keyboard.press("p")
    found["plot"] = violations(page, axe)
    page.locator("#recent").click()
    page.wait_for_selector("dialog[open]")
    found["recent"] = violations(page, axe)
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    found["help"] = violations(page, axe)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="How sure?").first.click()
    page.locator("dialog[open]").get_by_text("slides tried").wait_for()
    found["confidence"] = violations(page, axe)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Keep …").first.click()
    page.wait_for_selector("#keep-save")
    found["keep"] = violations(page, axe)
    assert {view: one for view, one in found.items() if one} == {}


class TestImportedFeatures:
    @pytest.fixture
    def served(self, imported_viewer):
        return imported_viewer

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_axe_finds_nothing_on_tables_maps_and_plots(self, page, axe, scheme):
        page.emulate_media(color_scheme=scheme)
        found = {"table": violations(page, axe)}
        page.get_by_role("link", name="S012").click()
        page.wait_for_selector("section[aria-label=Query] .scale:not([hidden])")
        page.wait_for_selector(".hit:not(.skeleton)")
        page.locator(".hit .open").first.click()
        page.wait_for_selector(".plot")
        found["map"] = violations(page, axe)
        assert {view: one for view, one in found.items() if one} == {}


def test_the_focus_is_never_lost(page):
    def focused():
        return page.evaluate("document.activeElement === document.body ? '' : document.activeElement.outerHTML")

    page.get_by_label("colon", exact=False).first.focus()
    page.keyboard.press("Space")
    until(page, "document.querySelectorAll('.card').length === 4")
    assert 'data-focus="site=colon"' in focused()
    page.locator(".card").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".hit:not(.skeleton)")
    assert focused()
    page.get_by_role("button", name="Hit 1 is relevant", exact=True).focus()
    page.keyboard.press("Enter")
    assert "Hit 1 is relevant" in focused()
    page.locator(".hit .open").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#sum strong")
    assert "Hit 1:" in focused()
    page.locator("#close-hit").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("section[aria-label=Hit]", state="detached")
    assert "Hit 1:" in focused(), "the focus goes back to the hit"
    page.locator("#engine").focus()
    page.locator("#engine").select_option("parts")
    page.wait_for_timeout(500)
    assert 'id="engine"' in focused()


def test_there_is_one_heading_and_the_title_names_the_slide(page):
    assert page.locator("h1").count() == 1
    open_query(page, "colon-nor-01")
    until(page, "document.title.startsWith('colon-nor-01')")
    assert page.locator("h1").count() == 1
    page.keyboard.press("b")
    page.wait_for_selector(".card")
    assert page.title() == "archive of slides · slideseek"


def test_files_of_the_page_are_compressed(client):
    for path in ("/", "/static/js/work.js", "/static/vendor/openseadragon.min.js"):
        packed = client.get(path, headers={"accept-encoding": "gzip"})
        plain = client.get(path, headers={"accept-encoding": "identity"})
        assert packed.headers["content-encoding"] == "gzip" and packed.content == plain.content
        assert int(packed.headers["content-length"]) == len(gzip.compress(plain.content, 9, mtime=0))
        assert int(packed.headers["content-length"]) < 0.6 * len(plain.content)


def test_engines_are_loaded_in_the_background_and_the_page_can_say_so(client):
    told = client.get("/api/readiness").json()
    assert told["engines"] == 3 and 0 <= told["ready"] <= 3
