"""Coords become patches of the stated side and resolution, or of values derived from their spacing."""

import numpy as np
import pytest

from slideseek_apps.interchange.feature_file import FeatureFile
from slideseek_apps.interchange.patch_places import above_the_slide, place, spacing

XY = np.array([[0, 0], [512, 0], [0, 512], [3000, 77], [3000, 589]], np.int32)


def file(**stated):
    return FeatureFile(np.zeros((len(XY), 3), np.float32), XY, **stated)


def extent(placed):
    return placed.patches.size * placed.patches.mpp[0] / placed.slide_mpp


def test_trident_states_all():
    placed = place("s", file(side=256, extent=512, magnification=40), XY, None, None)
    assert (placed.patches.size, placed.patches.mpp[0], placed.slide_mpp) == (256, 0.5, 0.25)
    assert extent(placed) == 512 and not placed.guessed


def test_the_slides_own_resolution_counts_for_more_than_a_magnification():
    placed = place("s", file(side=256, extent=512, magnification=40), XY, 0.2528, None)
    assert (placed.slide_mpp, placed.patches.mpp[0]) == (0.2528, pytest.approx(0.5056))
    assert extent(placed) == pytest.approx(512)


def test_resolutions_of_our_own_files_are_kept_exactly():
    mpp = np.array([0.5, 0.5, 0.5, 1.1, 1.1])
    placed = place("s", file(side=224, slide_mpp=0.2528, mpp=mpp), XY, None, None)
    assert placed.patches.size == 224 and np.array_equal(placed.patches.mpp, mpp) and placed.slide_mpp == 0.2528


def test_a_size_nobody_states_is_the_spacing():
    placed = place("s", file(), XY, None, None)
    assert extent(placed) == 512 and placed.guessed == {"spacing", "mpp"}
    assert extent(place("s", file(), XY, None, 300)) == 300
    assert place("s", file(magnification=20), XY, None, 300).guessed == frozenset()


def test_one_patch_has_no_spacing():
    placed = place("s", FeatureFile(np.zeros((1, 3), np.float32), XY[:1]), XY[:1], None, None)
    assert placed.patches.size == 1 and placed.guessed == {"extent", "mpp"}


def test_spacing_is_that_of_neighbours():
    other_piece = XY + np.array([13, 5], np.int32)
    assert spacing(np.concatenate([XY, other_piece])) == 512
    assert spacing(XY[:1]) == 0
    assert spacing(np.repeat(XY[:1], 4, axis=0)) == 0


def test_made_up_places_are_outside_every_slide_and_distinct():
    xy = above_the_slide(5)
    assert (xy[:, 1] < 0).all() and len(np.unique(xy, axis=0)) == 5 and xy.dtype == np.int32
