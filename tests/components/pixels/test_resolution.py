"""The rules of the physical resolution, on properties alone."""

from __future__ import annotations

import math

import pytest

from slideseek.errors import SlideError
from slideseek.slides.magnification import describe_magnification, finer_than_scanned, nominal_mpp
from slideseek_components.pixels.resolution import objective_power, resolve

OPENSLIDE = {"openslide.mpp-x": "0.25", "openslide.mpp-y": "0.25"}
SPACING = "dicom.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence[0].PixelSpacing"


@pytest.mark.parametrize(("magnification", "mpp"), [(5, 2.0), (10, 1.0), (20, 0.5), (40, 0.25)])
def test_nominal_mpp(magnification: float, mpp: float) -> None:
    assert nominal_mpp(magnification) == mpp


@pytest.mark.parametrize("magnification", [0, -20, math.nan, math.inf])
def test_nominal_mpp_refuses(magnification: float) -> None:
    with pytest.raises(ValueError, match="magnification"):
        nominal_mpp(magnification)


def test_magnification_is_echoed_in_micrometres() -> None:
    assert describe_magnification(20) == "20x = 0.50 µm/px (nominal)"
    assert describe_magnification(2.5) == "2.5x = 4.00 µm/px (nominal)"


def test_finer_than_scanned() -> None:
    assert finer_than_scanned(1.0, 0.5) == "patches of 0.50 µm/px are upsampled: the slide has only 1.00"
    assert finer_than_scanned(0.5, 1.0) == ""
    assert finer_than_scanned(0.5, 0.5) == ""
    assert finer_than_scanned(0.2527, 0.25) == ""


def test_openslide_comes_before_the_vendor_and_the_tags() -> None:
    tags = {"tiff.XResolution": "10000", "tiff.YResolution": "10000", "tiff.ResolutionUnit": "centimeter"}
    assert resolve({**tags, "aperio.MPP": "0.5", **OPENSLIDE}).source == "openslide.mpp-x"
    assert resolve({**tags, "aperio.MPP": "0.5"}).source == "aperio.MPP"
    assert resolve(tags).mpp == 1.0


@pytest.mark.parametrize(
    ("properties", "mpp"),
    [
        ({"aperio.MPP": "0.2508"}, (0.2508, 0.2508)),
        (
            {
                "mirax.LAYER_0_LEVEL_0_SECTION.MICROMETER_PER_PIXEL_X": "0.23",
                "mirax.LAYER_0_LEVEL_0_SECTION.MICROMETER_PER_PIXEL_Y": "0.231",
            },
            (0.23, 0.231),
        ),
        ({"ventana.ScanRes": "0.465"}, (0.465, 0.465)),
        ({f"{SPACING}[0]": "0.000500", f"{SPACING}[1]": "0.000499"}, (0.499, 0.5)),
        ({"mpp-x": "0.5", "mpp-y": "0.5"}, (0.5, 0.5)),
        ({"MPP": "0.5"}, (0.5, 0.5)),
        (
            {
                "hamamatsu.XResolution": "43000",
                "hamamatsu.YResolution": "43000",
                "hamamatsu.ResolutionUnit": "centimeter",
            },
            (0.23256, 0.23256),
        ),
    ],
)
def test_vendor_keys(properties: dict[str, str], mpp: tuple[float, float]) -> None:
    found = resolve(properties)
    assert (found.mpp_x, found.mpp_y) == pytest.approx(mpp, rel=1e-4)
    assert found.notes == ()


def test_one_axis_is_taken_for_both_and_said() -> None:
    found = resolve({"openslide.mpp-y": "0.5"})
    assert (found.mpp_x, found.mpp_y) == (0.5, 0.5)
    assert found.notes == ("only openslide.mpp-y is known: used for both axes",)


def test_the_single_number_keeps_areas() -> None:
    found = resolve({"openslide.mpp-x": "0.5", "openslide.mpp-y": "0.55"})
    assert found.mpp**2 == pytest.approx(0.5 * 0.55)


def test_every_disagreement_is_said() -> None:
    found = resolve({**OPENSLIDE, "aperio.MPP": "0.5", "mpp": "1.0", "openslide.objective-power": "4"})
    assert len(found.notes) == 3
    assert found.mpp == 0.25


def test_name_and_way_out_are_in_the_error() -> None:
    with pytest.raises(SlideError) as caught:
        resolve({}, name="case-7.svs")
    assert caught.value.cause.startswith("case-7.svs ")
    assert "--mpp" in caught.value.fix


@pytest.mark.parametrize("stated", [math.nan, math.inf, -0.5, 0.0, 0.04, 5.1])
def test_a_statement_must_be_plausible_too(stated: float) -> None:
    with pytest.raises(SlideError, match="stated by the user"):
        resolve(OPENSLIDE, stated)


@pytest.mark.parametrize(
    ("properties", "power"),
    [
        ({}, None),
        ({"openslide.objective-power": "40"}, 40.0),
        ({"aperio.AppMag": "20"}, 20.0),
        ({"openslide.objective-power": "0", "aperio.AppMag": "20"}, 20.0),
        ({"openslide.objective-power": "unknown"}, None),
    ],
)
def test_objective_power(properties: dict[str, str], power: float | None) -> None:
    assert objective_power(properties) == power
