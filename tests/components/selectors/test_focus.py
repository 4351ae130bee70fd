"""Blur in µm: measured on real tiles that were blurred, and what a limit leaves out."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from bench.restained import out_of_focus
from slideseek.errors import SlideError
from slideseek.slides.reader import open_slide
from slideseek.types import UInt8
from slideseek_components.selectors.focus import patch_blur, sharp_patches


def tile(shared_data: Path, name: str = "colon-adenocarcinoma__HE", side: int = 448) -> UInt8:
    with open_slide(shared_data / "slides-atlas" / f"{name}.tif") as slide:
        return slide.read((1500, 1500), side, slide.mpp)


def blur(image: UInt8, mpp: float = 1.0, native: float = 1.0) -> float:
    return float(patch_blur(image[None], np.array([mpp]), native)[0])


@pytest.mark.shared
def test_blur_of_a_real_tile_grows_with_the_gaussian(shared_data: Path) -> None:
    image = tile(shared_data)
    found = [blur(out_of_focus(image, sigma)) for sigma in (0, 1, 2, 3)]
    assert found == sorted(found)
    assert found[0] < 0.9
    assert [round(value) for value in found[1:]] == [1, 2, 2]


@pytest.mark.shared
def test_pixels_finer_than_the_scan_are_not_blur(shared_data: Path) -> None:
    image = tile(shared_data)
    fine = image[:100, :100].repeat(4, axis=0).repeat(4, axis=1)
    assert blur(fine, mpp=0.25, native=1.0) == pytest.approx(blur(image[:100, :100]), rel=0.05)


def test_a_patch_without_edges_is_blurred_beyond_measure() -> None:
    assert blur(np.full((64, 64, 3), 200, np.uint8)) == np.inf
    assert blur(np.full((4, 4, 3), 200, np.uint8)) == np.inf


def test_a_limit_leaves_out_patches_with_a_note_and_fails_if_none_is_sharp() -> None:
    values, mpp = np.array([0.6, 0.8, 2.0, np.inf], np.float32), np.full(4, 0.25)
    sharp, notes = sharp_patches(values, mpp, 0.25, 1.5)
    assert sharp.tolist() == [True, True, False, False]
    assert notes == ["2 of 4 patches are out of focus and left out"]
    sharp, notes = sharp_patches(values, mpp, 0.25, 0.7)
    assert notes == ["3 of 4 patches are out of focus and left out: most of the slide is blurred (by 1.4 µm)"]
    with pytest.raises(SlideError, match=r"all 2 patches are out of focus \(beyond measure\)"):
        sharp_patches(values[2:], mpp[2:], 0.25, 1.5)


@pytest.mark.parametrize(("mpp", "native"), [(0.25, 2.0), (2.0, 0.25)])
def test_coarse_pixels_are_not_called_blurred(mpp: float, native: float) -> None:
    sharp, notes = sharp_patches(np.array([2.0, 2.5, 3.0], np.float32), np.full(3, mpp), native, 1.5)
    assert sharp.tolist() == [True, True, False]
    assert len(notes) == 1


def test_without_a_limit_all_patches_are_used() -> None:
    sharp, notes = sharp_patches(np.array([9.0, np.inf], np.float32), np.full(2, 0.5), 0.5, 0.0)
    assert sharp.all() and notes == []
