"""The benches of fields and hubs, on few slides: default patches represent biopsies, and centring removes hubs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench import biopsies as drawn
from bench.fields import ENOUGH, PRESETS, coverage, coverage_table, selector_of
from bench.hubs import Slides, measured
from slideseek.slides.patch_images import selection_notes
from slideseek.types import Bag
from slideseek_components.pixels.array_slide import ArraySlide


@pytest.fixture(scope="module")
def shave() -> tuple[ArraySlide, np.ndarray]:
    return next(drawn.biopsies(1, {"shave": drawn.shave}, (6, 2)))


def test_default_patches_represent_a_biopsy_and_those_of_the_paper_do_not(shave) -> None:
    slide, outline = shave
    found = [coverage(slide, selector_of(preset), outline) for preset in PRESETS]
    paper, default = found
    assert paper.share < 0.7 and default.share >= 0.9 > ENOUGH
    assert default.pieces[0] >= 1 and default.pieces[1] == default.pieces[0]
    text = coverage_table([("drawn", slide.id, found)])
    assert f"{default.share:.1%}" in text and "slides below 80% | 1 | 0" in text


@pytest.mark.parametrize("preset", PRESETS)
def test_padding_is_never_silently_most_of_a_patch(preset: str) -> None:
    """A slide smaller than a patch: no patch, or a note."""
    selector = selector_of(preset)
    side = round(0.6 * selector.size * selector.mpp)  # 36 % of a patch
    image = np.full((side, side, 3), (190, 110, 165), np.uint8)
    image[: side // 4] = 244
    slide = ArraySlide(image, 1.0, "small")
    patches = selector.select(slide)
    notes = selection_notes(slide, patches)
    assert len(patches) == 0 or any("outside the slide and show padding" in note for note in notes)
    assert (preset == "default") == (len(patches) == 0)


def test_centring_removes_the_preference_for_large_slides() -> None:
    """Slides of one kind of tissue and of 2 to 60 patches: Yottixel's distance finds the large ones."""
    rng = np.random.default_rng(0)
    bags = []
    for number, size in enumerate(np.geomspace(2, 60, 40).astype(int)):
        features = rng.normal(size=(size, 64)) + 0.5 * rng.normal(size=64)
        bags.append(Bag(f"s{number:02d}", features.astype(np.float32), np.zeros((size, 2), np.int32)))
    sizes = {bag.slide_id: len(bag) for bag in bags}
    slides = Slides(bags, [bag.slide_id for bag in bags], [""] * len(bags), sizes)
    before, after = (measured(slides, o).hubs[5] for o in ({}, {"direction": "symmetric", "centring": 0.9}))
    assert before.size is not None and before.size > 0.6 and before.largest > 3
    assert after.size is not None and abs(after.size) < 0.4 and after.largest < before.largest
