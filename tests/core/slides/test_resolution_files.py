"""A truth table over slide files: what each says about its resolution, and what must come of it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from slideseek.errors import SlideError
from slideseek.slides.reader import open_slide
from slideseek_components.pixels.pyramid import as_pyramid


class Case(NamedTuple):
    """A file and its outcome: `mpp` (x, y) with words its notes must hold, or words of the error."""

    name: str
    file: dict[str, Any]
    mpp: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()
    error: tuple[str, ...] = ()
    stated: float | None = None


def per(unit: int, mpp: float) -> tuple[int, int]:
    """Return pixels per unit of so many µm as the exact fraction that TIFF stores; tifffile may round a float."""
    return (unit / Fraction(str(mpp))).as_integer_ratio()


def cm(mpp_x: float, mpp_y: float | None = None) -> dict[str, Any]:
    """Return TIFF tags in pixels per centimetre."""
    return {"resolution": (per(10_000, mpp_x), per(10_000, mpp_y or mpp_x)), "unit": "CENTIMETER"}


def inch(mpp_x: float, mpp_y: float | None = None) -> dict[str, Any]:
    """Return TIFF tags in pixels per inch."""
    return {"resolution": (per(25_400, mpp_x), per(25_400, mpp_y or mpp_x)), "unit": "INCH"}


def dpi(value: float) -> dict[str, Any]:
    """Return TIFF tags of a print density."""
    return {"resolution": (value, value), "unit": "INCH"}


def aperio(text: str, **tags: Any) -> dict[str, Any]:
    """Return an Aperio description, optionally with TIFF tags."""
    return {"aperio": text, **tags}


HOW = ("--mpp", "manifest")

CASES = [
    # nothing said
    Case("nothing", {}, error=("does not state its resolution", *HOW)),
    Case("aperio-nothing", aperio(""), error=("does not state its resolution", *HOW)),
    Case("aperio-only-power-20", aperio("AppMag = 20"), error=("objective 20x suggests --mpp 0.5", *HOW)),
    Case("aperio-only-power-40", aperio("AppMag = 40"), error=("objective 40x suggests --mpp 0.25", *HOW)),
    Case("tags-without-unit", {"resolution": (20_000, 20_000), "unit": "NONE"}, error=("does not state", *HOW)),
    Case("tags-of-zero", {"resolution": ((0, 1), (0, 1)), "unit": "CENTIMETER"}, error=HOW),
    # plain statements
    Case("aperio-0.25", aperio("MPP = 0.25"), mpp=(0.25, 0.25)),
    Case("aperio-0.5-power-20", aperio("AppMag = 20|MPP = 0.5"), mpp=(0.5, 0.5)),
    Case("aperio-0.499-power-20", aperio("AppMag = 20|MPP = 0.4990"), mpp=(0.499, 0.499)),
    Case("aperio-0.2485-power-40", aperio("AppMag = 40|MPP = 0.2485"), mpp=(0.2485, 0.2485)),
    Case("aperio-1.26", aperio("MPP = 1.26"), mpp=(1.26, 1.26)),
    Case("cm-0.25", cm(0.25), mpp=(0.25, 0.25)),
    Case("cm-1.0", cm(1.0), mpp=(1.0, 1.0)),
    Case("inch-0.25", inch(0.25), mpp=(0.25, 0.25)),
    Case("inch-0.5", inch(0.5), mpp=(0.5, 0.5)),
    Case("cm-smallest-allowed", cm(0.0501), mpp=(0.0501, 0.0501)),
    Case("cm-largest-allowed", cm(4.99), mpp=(4.99, 4.99)),
    # wrong by a factor or a unit
    Case("ten-times-too-large", aperio("MPP = 5.2"), error=("5.2 µm/px", "openslide.mpp-x", "implausible")),
    Case("ten-times-too-small", aperio("MPP = 0.025"), error=("0.025 µm/px", "implausible", *HOW)),
    Case("hundred-times-too-small", cm(0.005), error=("0.005 µm/px", "implausible", *HOW)),
    Case("nanometres", aperio("MPP = 250"), error=("250 µm/px", "implausible")),
    Case("millimetres", aperio("MPP = 0.00025"), error=("0.00025 µm/px", "implausible")),
    Case("896", inch(896.0556), error=("896.1 µm/px", "implausible")),
    Case("1000", cm(1000.0), error=("1000 µm/px", "implausible")),
    Case("zero", aperio("MPP = 0"), error=("0 µm/px", "implausible")),
    Case("negative", aperio("MPP = -0.25"), error=("-0.25 µm/px", "implausible")),
    Case("infinite", aperio("MPP = inf"), error=("implausible",)),
    Case("not-a-number", aperio("MPP = nan"), error=("implausible",)),
    Case("words", aperio("MPP = unknown"), error=("'unknown' is not a number", *HOW)),
    Case("wrong-with-power", aperio("AppMag = 20|MPP = 50"), error=("50 µm/px", "suggests --mpp 0.5")),
    # densities that image software writes
    Case("72-dpi", dpi(72), error=("352.8 µm/px", "screen or print density", *HOW)),
    Case("96-dpi", dpi(96), error=("264.6 µm/px", "screen or print density", *HOW)),
    Case("300-dpi", dpi(300), error=("84.67 µm/px", "screen or print density", *HOW)),
    Case("aperio-and-72-dpi", aperio("MPP = 0.25", **dpi(72)), mpp=(0.25, 0.25)),
    # axes
    Case("anisotropic-0.5-percent", cm(0.25, 0.25125), mpp=(0.25, 0.25125)),
    Case("anisotropic-5-percent", cm(0.50, 0.525), mpp=(0.50, 0.525), notes=("not square",)),
    Case("anisotropic-5-percent-swapped", cm(0.525, 0.50), mpp=(0.525, 0.50), notes=("not square",)),
    Case("anisotropic-100-percent", cm(0.25, 0.50), error=("0.25 x 0.5 µm", "from square", *HOW)),
    Case("anisotropic-100-percent-swapped", cm(0.50, 0.25), error=("0.5 x 0.25 µm", "from square")),
    Case("one-axis-implausible", cm(0.25, 250.0), error=("250 µm/px", "implausible")),
    # decimal comma
    Case("comma", aperio("MPP = 0,25"), mpp=(0.25, 0.25), notes=("'0,25' read with a decimal comma",)),
    Case("comma-0,5032", aperio("AppMag = 20|MPP = 0,5032"), mpp=(0.5032, 0.5032), notes=("decimal comma",)),
    Case("comma-implausible", aperio("MPP = 25,4"), error=("25.4 µm/px", "implausible")),
    # conflicts within the file
    Case("tags-agree", aperio("MPP = 0.25", **cm(0.252)), mpp=(0.25, 0.25)),
    Case("tags-disagree", aperio("MPP = 0.25", **cm(0.5)), mpp=(0.25, 0.25), notes=("0.25", "also states 0.5 µm/px")),
    Case("tags-ten-times", aperio("MPP = 0.25", **inch(2.5)), mpp=(0.25, 0.25), notes=("also states 2.5 µm/px",)),
    Case("words-then-tags", aperio("MPP = none", **cm(0.5)), mpp=(0.5, 0.5), notes=("'none' is not a number",)),
    Case("power-2x-off", aperio("AppMag = 20|MPP = 0.25"), mpp=(0.25, 0.25)),
    Case("power-4x-off", aperio("AppMag = 10|MPP = 0.25"), mpp=(0.25, 0.25), notes=("objective", "10x = 1.00 µm/px")),
    Case("power-8x-off", aperio("AppMag = 40|MPP = 2.0"), mpp=(2.0, 2.0), notes=("objective", "40x = 0.25 µm/px")),
    # the user's word
    Case("override-nothing", {}, stated=0.5, mpp=(0.5, 0.5)),
    Case("override-same", aperio("MPP = 0.25"), stated=0.25, mpp=(0.25, 0.25)),
    Case("override-other", aperio("MPP = 0.25"), stated=0.5, mpp=(0.5, 0.5), notes=("overrides 0.25 µm/px",)),
    Case("override-absurd", inch(896.0), stated=0.5, mpp=(0.5, 0.5)),
    Case("override-wrong-unit", cm(0.005), stated=0.5, mpp=(0.5, 0.5), notes=("overrides 0.005 µm/px",)),
    Case("override-anisotropic", cm(0.25, 0.5), stated=0.5, mpp=(0.5, 0.5), notes=("overrides 0.25 x 0.5 µm/px",)),
    Case("override-absurdly", cm(0.25), stated=500.0, error=("500 µm/px", "stated by the user", "check the --mpp")),
    Case("override-zero", cm(0.25), stated=0.0, error=("0 µm/px", "stated by the user")),
]


def test_the_table_is_large_and_its_names_are_unique() -> None:
    assert len(CASES) >= 40
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_file(case: Case, write_tiff: Callable[..., Path]) -> None:
    path = write_tiff(f"{case.name}.svs" if "aperio" in case.file else f"{case.name}.tif", **case.file)
    if case.error:
        with pytest.raises(SlideError) as caught:
            open_slide(path, mpp=case.stated)
        message = str(caught.value)
        assert "\n" not in message
        assert path.name in message
        for words in case.error:
            assert words in message
        return
    with as_pyramid(open_slide(path, mpp=case.stated)) as slide:
        assert slide.format == ("aperio" if "aperio" in case.file else "generic-tiff")
        assert (slide.resolution.mpp_x, slide.resolution.mpp_y) == pytest.approx(case.mpp, rel=1e-6)
        assert slide.notes == slide.resolution.notes
        if not case.notes:
            assert slide.notes == ()
        for words in case.notes:
            assert any(words in note for note in slide.notes), slide.notes
