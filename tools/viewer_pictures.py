"""Draw the pictures of docs/how-to/browse.md: `python tools/viewer_pictures.py [FOLDER]`.

Slides are painted, built and served; features are imported as another tool writes them; Chromium takes the pictures.
FOLDER: where they are written, by default docs/how-to/browse.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from slideseek.cli import main as slideseek
from slideseek_apps.demo.histology import write_demo
from slideseek_apps.viewer.server import serving

PAGES = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "browse"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
MAX_BYTES = 200_000

GRID = '{ use = "grid", size = 128, mpp = 0.5, min_tissue = 0.5 }'
IMPORTED = '{ use = "imported", set = "uni_v1" }'
ENGINE = """
[[engine]]
name       = "{name}"
selector   = {selector}
featurizer = {featurizer}
encoder    = {{ use = "{encoder}" }}
index      = {{ use = "{index}" }}
"""
CODES = {"yottixel": ("yottixel", "hamming"), "mean": ("mean", "cosine")}


def run(*words: object) -> None:
    """Run a command; one that fails ends the program."""
    try:
        slideseek([str(word) for word in words])
    except SystemExit as done:
        if done.code:
            raise


def config(selector: str, featurizer: str) -> str:
    """Return the configuration of two engines."""
    return "".join(
        ENGINE.format(name=name, selector=selector, featurizer=featurizer, encoder=encoder, index=index)
        for name, (encoder, index) in CODES.items()
    )


def painted(folder: Path) -> Path:
    """Make an archive of painted slides."""
    root = folder / "pathology"
    (folder / "engines.toml").write_text(config(GRID, '{ use = "colour-texture" }'))
    manifest = write_demo(root / "slides", patients=3, side=2048)
    run("init", root, "--config", folder / "engines.toml")
    run("add", manifest.parent, "--manifest", manifest, "-a", root)
    run("build", "-a", root)
    return root


def imported(folder: Path) -> Path:
    """Make an archive of features that another tool has computed, without slide files."""
    root, job = folder / "features of a cohort", folder / "job" / "20x_256px_0px_overlap" / "features_uni_v1"
    job.mkdir(parents=True)
    rng = np.random.default_rng(0)
    kinds, rows = 2 * rng.normal(size=(4, 32)), ["slide_id,patient,site,diagnosis,center,age"]
    names = ("adenocarcinoma", "squamous carcinoma", "adenoma", "normal mucosa")
    stated = {"patch_size": 256, "patch_size_level0": 512, "level0_magnification": 40, "target_magnification": 20}
    for number in range(60):
        side, kind = 12 + number % 7, number % 4
        grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
        wave = side / 2.4 * (1 + 0.2 * np.sin(3 * np.arctan2(*(grid - side / 2).T) + number))
        xy = 2048 + 512 * grid[np.linalg.norm(grid - side / 2, axis=1) < wave]
        with h5py.File(job / f"case-{number:03d}.h5", "w") as file:
            mixed = kinds[kind] * (0.3 + xy[:, :1] / xy[:, 0].max()) + rng.normal(size=(len(xy), 32))
            file["features"] = mixed.astype(np.float32)
            file.create_dataset("coords", data=xy.astype(np.int64)).attrs.update(stated)
        site = "lung" if kind < 2 else "colon"
        rows.append(f"case-{number:03d},P-{number // 2:03d},{site},{names[kind]},centre-{number % 3},{35 + number}")
    (folder / "manifest.csv").write_text("\n".join(rows) + "\n")
    (folder / "imported.toml").write_text(config(IMPORTED, '{ use = "imported", set = "uni_v1", width = 32 }'))
    run("init", root, "--config", folder / "imported.toml")
    run("import", folder / "job", "-a", root, "--manifest", folder / "manifest.csv")
    run("build", "-a", root)
    return root


def open_hit(page: Page, row: str) -> None:
    """Search with the first slide and open the first hit."""
    page.locator(row).first.click()
    page.wait_for_selector(".hit:not(.skeleton)")
    page.locator(".hit .open").first.click()
    page.wait_for_selector("#sum strong")
    page.wait_for_selector("section[aria-label=Hit] .scale:not([hidden])")


def hit(page: Page) -> None:
    """Show a query and a hit with heat map."""
    open_hit(page, ".card")
    page.keyboard.press("h")


def marked(page: Page) -> None:
    """Show marked hits in the results of two engines."""
    page.locator(".card").nth(3).click()
    page.wait_for_selector(".hit:not(.skeleton)")
    page.locator("#versus summary").click()
    page.get_by_role("checkbox", name="mean").check()
    page.wait_for_selector("#common")
    page.keyboard.press("Escape")
    page.locator(".judge.good").nth(0).click()
    page.locator(".judge.bad").nth(2).click()


def region(page: Page) -> None:
    """Show the matching places of a region, searched from the keyboard."""
    page.locator(".card").nth(1).click()
    page.wait_for_selector(".pane .scale:not([hidden])")
    for key in ("r", "ArrowRight", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector(".hit .place")


def table(page: Page) -> None:
    """Show slides of imported features, a map and a plot."""
    open_hit(page, ".card-row a")


def take(
    browser: Browser, url: str, size: tuple[int, int], dark: bool, steps: Callable[[Page], None], to: Path
) -> None:
    """Take one picture."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector(".card, .card-row")
    steps(page)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(1500)
    shot = to.with_suffix(".png")
    page.screenshot(path=shot)
    context.close()
    for quality in (82, 70, 58, 45):
        Image.open(shot).convert("RGB").save(to, "JPEG", quality=quality, optimize=True)
        if to.stat().st_size <= MAX_BYTES:
            break
    shot.unlink()
    sys.stdout.write(f"{to.name}: {to.stat().st_size // 1000} kB\n")


def main() -> None:
    """Make the archives and take the pictures."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGES
    target.mkdir(parents=True, exist_ok=True)
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as made, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=FLAGS)
        with serving(painted(Path(made))) as server:
            take(browser, server.url, (1440, 900), False, hit, target / "hit.jpg")
            take(browser, server.url, (1280, 800), True, marked, target / "marks.jpg")
            take(browser, server.url, (1280, 800), False, region, target / "region.jpg")
            take(browser, server.url, (1440, 900), True, hit, target / "hit-dark.jpg")
            for dark, name in ((False, "narrow.jpg"), (True, "narrow-dark.jpg")):
                take(browser, server.url, (390, 844), dark, lambda page: open_hit(page, ".card"), target / name)
        with serving(imported(Path(made))) as server:
            take(browser, server.url, (1280, 800), False, table, target / "features.jpg")
        browser.close()


if __name__ == "__main__":
    main()
