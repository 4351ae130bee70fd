"""Stain and artefacts of real slides, remixed to other stains or drawn upon."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from bench.restained import MIXTURES, restain
from bench.stains import kept
from slideseek.slides.reader import open_slide
from slideseek.types import Patches, UInt8
from slideseek_components.pixels.array_slide import ArraySlide
from slideseek_components.selectors.artefacts import appraise
from slideseek_components.selectors.grid import Grid
from slideseek_components.selectors.tissue import tissue_mask

MPP = 8.0
NAMES = ["ischemic-colitis__HE", "carcinogenesis__HE"]


@pytest.fixture(params=NAMES)
def thumbnail(request: pytest.FixtureRequest, shared_data: Path) -> UInt8:
    with open_slide(shared_data / "slides-atlas" / f"{request.param}.tif") as slide:
        return slide.thumbnail(450)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["dab", "dab-negative", "aec", "fast-red", "alcian-blue", "giemsa"])
def test_remixed_stains_are_named(thumbnail: UInt8, name: str) -> None:
    assert appraise(thumbnail, MPP).stain == "he"
    assert appraise(restain(thumbnail, name), MPP).stain == MIXTURES[name][0]


@pytest.mark.shared
@pytest.mark.parametrize("strength", [1.4, 3.0])
def test_dark_chromogen_is_tissue(thumbnail: UInt8, strength: float) -> None:
    assert kept(thumbnail, "dab", strength) > 0.97
    assert "folds" not in appraise(restain(thumbnail, "dab", strength), MPP).masks, "positive cells are as dense"


@pytest.mark.shared
def test_debris_counts_as_tissue_if_it_is_not_excluded(thumbnail: UInt8) -> None:
    drawn = thumbnail.copy()
    drawn[380:420, 30:70] = (110, 110, 112)
    slide = ArraySlide(drawn, 4.0, "s")
    assert not Grid().find_tissue(slide, drawn)[385:415, 35:65].any()
    assert Grid(exclude_debris=False).find_tissue(slide, drawn)[385:415, 35:65].all()


@pytest.mark.shared
def test_pen_debris_and_folds_are_measured_where_they_are(thumbnail: UInt8) -> None:
    clean = appraise(thumbnail, MPP).measured()
    drawn = thumbnail.copy()
    drawn[20:60, 20:300] = (20, 150, 90)  # a stroke of green ink
    drawn[380:420, 30:70] = (110, 110, 112)  # dirt
    tissue = np.argwhere(tissue_mask(thumbnail, mpp=MPP))
    y, x = tissue[len(tissue) // 2]
    drawn[y - 12 : y + 12, x - 12 : x + 12] = (80, 20, 70)
    found = appraise(drawn, MPP)
    shares = found.measured()
    assert float(shares["pen"]) > float(clean["pen"]) + 0.8 * 40 * 280 / thumbnail[..., 0].size
    assert float(shares["debris"]) > float(clean["debris"]) and found.masks["debris"][390:410, 40:60].all()
    assert found.masks["folds"][y - 6 : y + 6, x - 6 : x + 6].all()
    boxes = Patches.at("s", np.array([[20, 20], [200, 20], [0, 430]]) * 8, 40, MPP)
    pen = found.scores(boxes, 1.0, (thumbnail.shape[1] * 8, thumbnail.shape[0] * 8))["pen"]
    assert pen[:2].min() > 0.95 and pen[2] == 0


def test_fluorescence_is_named_and_has_no_artefacts() -> None:
    rng = np.random.default_rng(0)
    dark = rng.integers(0, 20, (200, 200, 3), dtype=np.uint8)
    dark[60:140, 60:140, 2] = 220
    found = appraise(dark, MPP)
    assert found.stain == "fluorescence" and not any(mask.any() for mask in found.masks.values())


def test_an_empty_slide_has_no_stain() -> None:
    assert "stain" not in appraise(np.full((300, 300, 3), 244, np.uint8), MPP).measured()


@pytest.mark.shared
def test_a_selector_passes_on_what_it_measured(thumbnail: UInt8) -> None:
    patches = Grid(size=64, mpp=4.0).select(ArraySlide(thumbnail, 4.0, "s"))
    assert patches.measured["stain"] == "he" and set(patches.scores) == {"pen", "debris", "folds"}
    assert all(0 <= float(value) <= 1 for name, value in patches.measured.items() if name != "stain")
