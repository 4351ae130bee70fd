"""Masks of a thumbnail that are found once, and used for tissue and for artefacts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slideseek.types import UInt8
from slideseek_components.pixels.array_slide import ArraySlide
from slideseek_components.selectors import image_masks
from slideseek_components.selectors.artefacts import appraise
from slideseek_components.selectors.grid import Grid
from slideseek_components.selectors.image_masks import ImageMasks
from slideseek_components.selectors.tissue import tissue_mask


def marked(side: int) -> UInt8:
    """Return tissue on glass with a green stroke and a black bubble."""
    rng = np.random.default_rng(0)
    image = np.full((side, side, 3), 243, np.uint8)
    part = slice(side // 4, 3 * side // 4)
    image[part, part] = rng.normal((200, 130, 180), 12, (side // 2, side // 2, 3)).clip(0, 255)
    image[: side // 8, : side // 2] = (20, 160, 60)
    image[-side // 8 :, -side // 8 :] = 40
    return image


@pytest.mark.parametrize("side", [400, 1200])
def test_known_masks_change_nothing(side: int) -> None:
    """At 1200 pixels artefacts are looked for on a smaller image, so the masks of this one cannot be used there."""
    image = marked(side)
    masks = ImageMasks(image)
    kept = masks.ink.copy(), masks.debris.copy(), masks.stained.copy()
    assert np.array_equal(tissue_mask(image, mpp=8.0, masks=masks), tissue_mask(image, mpp=8.0))
    known, fresh = appraise(image, 8.0, masks), appraise(image, 8.0)
    assert known.stain == fresh.stain
    assert known.measured() == fresh.measured()
    assert np.array_equal(known.tissue, fresh.tissue)
    for before, now in zip(kept, (masks.ink, masks.debris, masks.stained)):
        assert np.array_equal(before, now), "nobody changes a mask that others use"


def test_a_selection_finds_each_mask_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def noted(name: str, real: Any) -> Any:
        def call(*args: Any) -> Any:
            asked.append(name)
            return real(*args)

        return call

    for name in ("pen_ink", "black_debris", "stained", "hsv"):
        monkeypatch.setattr(image_masks, name, noted(name, getattr(image_masks, name)))
    Grid(size=64, mpp=2.0, min_tissue=0.5).select(ArraySlide(marked(400), mpp=2.0, slide_id="s"))
    assert sorted(asked) == ["black_debris", "hsv", "pen_ink", "stained"]
