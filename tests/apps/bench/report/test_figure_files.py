"""A figure is the same picture in every program that reads SVG: CairoSVG, librsvg and Chromium."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from slideseek_apps.bench.report.assemble import make_report
from slideseek_apps.bench.report.figure_files import write_figures
from slideseek_apps.bench.report.settings import ReportSettings
from slideseek_apps.bench.results import read_results

FAST = ReportSettings(resamples=200, permutations=199)
GRAIN = 8
"""Pixels of a block whose mean colours are compared: edges and glyphs are smoothed differently by every program."""


@pytest.fixture(scope="module")
def figures(full_results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    report = make_report("t", read_results(full_results).cells, FAST)
    drawn = [figure for part in report.parts for figure in part.figures]
    write_figures(drawn, folder, pytest.fail)
    return sorted(folder.glob("*.svg"))


def grey(path: Path) -> np.ndarray:
    """Return the mean grey of blocks, float64 (rows, columns), of a picture scaled to 620 pixels in width."""
    with Image.open(path) as opened:
        picture = opened.convert("L").resize((620, round(opened.height * 620 / opened.width)), Image.Resampling.BOX)
    pixels = np.asarray(picture, dtype=np.float64)
    rows, columns = (side // GRAIN * GRAIN for side in pixels.shape)
    grains = pixels[:rows, :columns].reshape(rows // GRAIN, GRAIN, columns // GRAIN, GRAIN)
    return np.asarray(grains.mean(axis=(1, 3)))


def assert_alike(one: Path, other: Path) -> None:
    difference = np.abs(grey(one) - grey(other))
    assert difference.mean() < 1.5 and np.percentile(difference, 99) < 40, f"{one.name}: {difference.mean():.2f}"


def test_there_are_figures_of_every_kind(figures):
    assert {path.stem.split("-", 2)[2] for path in figures} >= {"engines", "size", "sweep-bits", "values", "gradient"}


def test_librsvg_draws_what_cairosvg_draws(figures, tmp_path):
    if shutil.which("rsvg-convert") is None:
        pytest.skip("rsvg-convert (librsvg) is not installed")
    for svg in figures:
        other = tmp_path / f"{svg.stem}.png"
        subprocess.run(["rsvg-convert", "--zoom", "2", "-o", other, svg], check=True, timeout=60)
        assert_alike(svg.with_suffix(".png"), other)


@pytest.mark.slow
def test_chromium_draws_what_cairosvg_draws(figures, tmp_path, chromium):
    page = chromium.new_page(device_scale_factor=2)
    for svg in figures:
        page.goto(svg.as_uri())
        other = tmp_path / f"{svg.stem}.png"
        page.locator("svg").screenshot(path=other)
        assert_alike(svg.with_suffix(".png"), other)


def test_a_moved_mark_is_noticed(figures, tmp_path):
    """The comparison can fail: one point of one figure elsewhere is enough."""
    cairosvg = pytest.importorskip("cairosvg")
    svg = next(path for path in figures if "engines" in path.name)
    moved = svg.read_text().replace('class="row-name', 'transform="translate(60 0)" class="row-name')
    other = tmp_path / "moved.png"
    cairosvg.svg2png(bytestring=moved.encode(), write_to=str(other), scale=2)
    with pytest.raises(AssertionError):
        assert_alike(svg.with_suffix(".png"), other)
