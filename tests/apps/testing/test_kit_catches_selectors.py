"""Each check of a selector passes a correct toy and catches one made wrong on purpose."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from slideseek.errors import SlideError
from slideseek.interfaces import Fingerprinted, ImportedPatches, Outlined, PatchSized, Slide, TissueFinder
from slideseek.slides.geojson import mask_from_geojson
from slideseek.types import Mask, Patches, UInt8
from slideseek_apps.testing import CheckFailed, selector_checks
from slideseek_components.selectors.imported import Imported


@dataclass
class Stained:
    """Squares of a grid in which most thumbnail pixels are stained.

    size: side in pixels at mpp, in µm per pixel.
    """

    size: int = 512
    mpp: float = 0.5
    seed: int = 0

    def select(self, slide: Slide) -> Patches:
        side = round(self.size * self.mpp / slide.mpp)
        thumbnail = slide.thumbnail(256).astype(np.int16)
        stained = np.ptp(thumbnail, axis=2) > 20
        scale = slide.dimensions[0] / thumbnail.shape[1]
        corners = [
            (x, y)
            for y in range(0, slide.dimensions[1] - side + 1, side)
            for x in range(0, slide.dimensions[0] - side + 1, side)
            if stained[
                round(y / scale) : round((y + side) / scale), round(x / scale) : round((x + side) / scale)
            ].mean()
            > 0.5
        ]
        return self.patches(slide, np.array(corners).reshape(-1, 2))

    def patches(self, slide: Slide, xy: np.ndarray) -> Patches:
        return Patches.at(slide.id, xy, self.size, self.mpp)


@dataclass
class ShowsTissue(Stained, TissueFinder, PatchSized):
    """The same with every capability a selector may have."""

    @property
    def patch_um(self) -> float | None:
        return self.size * self.mpp

    def find_tissue(self, slide: Slide, thumbnail: UInt8) -> Mask:
        if isinstance(slide, Outlined) and slide.contours is not None:
            return mask_from_geojson(slide.contours, slide.dimensions, thumbnail.shape[:2])
        return np.asarray(np.ptp(thumbnail.astype(np.int16), axis=2) > 20)

    def select(self, slide: Slide) -> Patches:
        found = Stained.select(self, slide)
        mask = self.find_tissue(slide, slide.thumbnail(256))
        scale = mask.shape[1] / slide.dimensions[0]
        side = round(self.size * self.mpp / slide.mpp)
        centres = ((found.xy + side / 2) * scale).astype(int)
        return self.patches(slide, found.xy[mask[centres[:, 1], centres[:, 0]]])


@dataclass
class NoSelect:
    size: int = 512


class NotADataclass:
    size, mpp = 512, 0.5
    select = Stained.select
    patches = Stained.patches


@dataclass
class ForgetsMpp(Stained):
    """Takes its size as level-0 pixels, as if every slide had one resolution."""

    def select(self, slide: Slide) -> Patches:
        found = Stained(self.size, slide.mpp).select(slide)
        return self.patches(slide, found.xy)


@dataclass
class ReadsAtTheScan(Stained):
    """Takes patches of the same number of pixels from every scan."""

    def select(self, slide: Slide) -> Patches:
        return Stained(self.size, slide.mpp).select(slide)


@dataclass
class PixelsOfHalfAMicron(Stained):
    """Gives its corners in pixels of 0.5 µm, which are those of level 0 for some slides only."""

    def patches(self, slide: Slide, xy: np.ndarray) -> Patches:
        return Stained.patches(self, slide, np.round(xy * slide.mpp / 0.5))


@dataclass
class BeyondTheBorder(Stained):
    """Covers the whole slide, so that the last row and column stick out."""

    def select(self, slide: Slide) -> Patches:
        side = round(self.size * self.mpp / slide.mpp)
        thumbnail = slide.thumbnail(256).astype(np.int16)
        scale = slide.dimensions[0] / thumbnail.shape[1]
        stained = np.ptp(thumbnail, axis=2) > 20
        places = [(x, y) for y in range(0, slide.dimensions[1], side) for x in range(0, slide.dimensions[0], side)]
        kept = [
            (x, y)
            for x, y in places
            if stained[round(y / scale) :, round(x / scale) :][: round(side / scale), : round(side / scale)].mean()
            > 0.5
        ]
        return self.patches(slide, np.array(kept).reshape(-1, 2))


@dataclass
class DropsTissueAtTheBorder(Stained):
    """Takes a slide with stain at its border for a bad scan."""

    def select(self, slide: Slide) -> Patches:
        found = Stained.select(self, slide)
        cut = np.ptp(slide.thumbnail(256)[-1].astype(np.int16), axis=1).max() > 60
        return self.patches(slide, found.xy[:0] if cut else found.xy)


@dataclass
class Undescribed(Stained):
    """Squares of a grid."""

    least_cover: float = 0.5


@dataclass
class RevisionInWords(Stained):
    code_revision = "2nd"


@dataclass
class HiddenOption(Stained):
    cover: float = field(default=0.5, compare=False)


@dataclass
class OptionsOfItsOwn(Stained):
    seed: int = field(default_factory=itertools.count().__next__)


@dataclass
class PlainTuples(Stained):
    def patches(self, slide: Slide, xy: np.ndarray) -> Any:
        return [tuple(corner) for corner in xy]


@dataclass
class ForgetsTheSlideId(Stained):
    def patches(self, slide: Slide, xy: np.ndarray) -> Patches:
        return Patches.at("slide", xy, self.size, self.mpp)


@dataclass
class NoResolution(Stained):
    def patches(self, slide: Slide, xy: np.ndarray) -> Patches:
        return Patches.at(slide.id, xy, self.size, 0.0)


@dataclass
class OutsideTheSlide(Stained):
    def patches(self, slide: Slide, xy: np.ndarray) -> Patches:
        return Patches.at(slide.id, np.concatenate([xy, np.array(slide.dimensions)[None] - 100]), self.size, self.mpp)


@dataclass
class WrongFrame(Stained):
    """Gives coordinates in pixels at half the resolution of level 0, two patches too far to the left and top."""

    def patches(self, slide: Slide, xy: np.ndarray) -> Patches:
        return Patches.at(slide.id, xy // 2 - 400, self.size, self.mpp)


@dataclass
class TakesTwice(Stained):
    def patches(self, slide: Slide, xy: np.ndarray) -> Patches:
        return Patches.at(slide.id, np.concatenate([xy, xy[:1]]), self.size, self.mpp)


@dataclass
class FindsNothing(Stained):
    def patches(self, slide: Slide, xy: np.ndarray) -> Patches:
        return Patches.at(slide.id, xy[:0], self.size, self.mpp)


@dataclass
class WhiteIsAnError(Stained):
    def patches(self, slide: Slide, xy: np.ndarray) -> Patches:
        if len(xy) == 0:
            raise IndexError("no tissue")
        return Stained.patches(self, slide, xy)


@dataclass
class Everything(Stained):
    def patches(self, slide: Slide, xy: np.ndarray) -> Patches:
        return Patches.at(slide.id, np.array([[0, 0]]), self.size, self.mpp)


@dataclass
class StretchesContrast(Stained):
    """Calls the darker half of any thumbnail that is not flat tissue."""

    def select(self, slide: Slide) -> Patches:
        grey = slide.thumbnail(256).mean(axis=2)
        found = np.ptp(grey) > 1
        return self.patches(slide, np.array([[1024, 1024]] if found else []).reshape(-1, 2))


@dataclass
class FirstOfSmall(Stained):
    def select(self, slide: Slide) -> Patches:
        if min(slide.dimensions) < self.size:
            raise ValueError("the slide is too small")
        return Stained.select(self, slide)


@dataclass
class GlobalRandom(Stained):
    def patches(self, slide: Slide, xy: np.ndarray) -> Patches:
        chosen = np.random.choice(len(xy), size=len(xy) // 2, replace=False)
        return Patches.at(slide.id, xy[chosen], self.size, self.mpp)


@dataclass
class GeneratorKept(Stained):
    """Seeds once, when it is made: the second slide gets other numbers than the first."""

    random_: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.random_ = np.random.default_rng(self.seed)

    def patches(self, slide: Slide, xy: np.ndarray) -> Patches:
        return Patches.at(slide.id, self.random_.permutation(xy), self.size, self.mpp)


@dataclass
class ClosesTheSlide(Stained):
    def select(self, slide: Slide) -> Patches:
        with slide:
            return Stained.select(self, slide)


@dataclass
class LooksBehindTheInterface(Stained):
    def select(self, slide: Slide) -> Patches:
        assert slide.format == "array"  # type: ignore[attr-defined]
        return Stained.select(self, slide)


@dataclass
class NewFingerprint(Stained, Fingerprinted):
    def fingerprint(self) -> str:
        return f"made at {id(self)}"


@dataclass
class GreyTissue(ShowsTissue):
    def find_tissue(self, slide: Slide, thumbnail: UInt8) -> Any:
        return ShowsTissue.find_tissue(self, slide, thumbnail).astype(np.uint8) * np.uint8(255)


@dataclass
class TissueOfItsOwnSize(ShowsTissue):
    def find_tissue(self, slide: Slide, thumbnail: UInt8) -> Mask:
        return ShowsTissue.find_tissue(self, slide, slide.thumbnail(100))


@dataclass
class DrawsOnTheThumbnail(ShowsTissue):
    def find_tissue(self, slide: Slide, thumbnail: UInt8) -> Mask:
        mask = ShowsTissue.find_tissue(self, slide, thumbnail)
        thumbnail[mask] = 0
        return mask


@dataclass
class TissueOfTheLastSlide(ShowsTissue):
    """Keeps the threshold of the slide it saw last for the next one."""

    threshold_: float = field(default=20.0, init=False, repr=False, compare=False)

    def find_tissue(self, slide: Slide, thumbnail: UInt8) -> Mask:
        spread = np.ptp(thumbnail.astype(np.int16), axis=2)
        mask = np.asarray(spread > self.threshold_)
        self.threshold_ = float(np.median(spread))
        return mask


@dataclass
class RandomTissue(ShowsTissue):
    def find_tissue(self, slide: Slide, thumbnail: UInt8) -> Mask:
        return ShowsTissue.find_tissue(self, slide, thumbnail) & (np.random.random(thumbnail.shape[:2]) < 0.9)


@dataclass
class ShowsGlass(ShowsTissue):
    """Shows what it does not choose from."""

    def select(self, slide: Slide) -> Patches:
        return Stained.select(self, slide)

    def find_tissue(self, slide: Slide, thumbnail: UInt8) -> Mask:
        return ~ShowsTissue.find_tissue(self, slide, thumbnail)


@dataclass
class SizeInPixels(ShowsTissue):
    @property
    def patch_um(self) -> float:
        return float(self.size)


@dataclass
class OneOfTwoSizes(ShowsTissue):
    """States one size and selects every place at two resolutions."""

    def patches(self, slide: Slide, xy: np.ndarray) -> Patches:
        both = np.repeat([self.mpp, self.mpp / 2], len(xy))
        return Patches(slide.id, np.tile(xy, (2, 1)).astype(np.int32), self.size, both)


@dataclass
class IgnoresTheOutline(ShowsTissue):
    def find_tissue(self, slide: Slide, thumbnail: UInt8) -> Mask:
        return np.asarray(np.ptp(thumbnail.astype(np.int16), axis=2) > 20)


@dataclass
class SelectsOutsideTheOutline(ShowsTissue):
    def select(self, slide: Slide) -> Patches:
        return Stained.select(self, slide)


@dataclass
class FromElsewhere(ImportedPatches):
    """Patches of another tool. set: their name."""

    set: str = "clam"

    @property
    def imported_set(self) -> str:
        return self.set

    def select(self, slide: Slide) -> Patches:
        raise SlideError("selected elsewhere", "import them")


@dataclass
class FromNowhere(FromElsewhere):
    """Patches of another tool. set: their name."""

    set: str = " "


@dataclass
class SelectsNothingInstead(FromElsewhere):
    def select(self, slide: Slide) -> Patches:
        return Patches.at(slide.id, np.zeros((0, 2), np.int32), 256, 0.5)


BROKEN = (
    (IgnoresTheOutline, "outline_of_the_tissue_is_used"),
    (SelectsOutsideTheOutline, "outline_of_the_tissue_is_used"),
    (FromNowhere, "imported_set_is_named"),
    (SelectsNothingInstead, "imported_patches_are_not_selected"),
    (NewFingerprint, "fingerprint_is_stable"),
    (NoSelect, "interface_is_complete"),
    (Undescribed, "options_are_described"),
    (RevisionInWords, "declarations_are_well_formed"),
    (ForgetsMpp, "resolution_of_the_scan_does_not_matter"),
    (ReadsAtTheScan, "resolution_of_the_scan_does_not_matter"),
    (PixelsOfHalfAMicron, "resolution_of_the_scan_does_not_matter"),
    (BeyondTheBorder, "tissue_at_the_border_is_selected"),
    (DropsTissueAtTheBorder, "tissue_at_the_border_is_selected"),
    (NotADataclass, "options_are_fields"),
    (HiddenOption, "options_are_fields"),
    (OptionsOfItsOwn, "options_round_trip"),
    (PlainTuples, "patches_are_well_formed"),
    (ForgetsTheSlideId, "patches_are_well_formed"),
    (NoResolution, "patches_are_well_formed"),
    (OutsideTheSlide, "patches_lie_inside_the_slide"),
    (WrongFrame, "patches_lie_inside_the_slide"),
    (TakesTwice, "patches_are_distinct"),
    (FindsNothing, "tissue_is_selected"),
    (WhiteIsAnError, "white_slide_gives_no_patches"),
    (Everything, "white_slide_gives_no_patches"),
    (StretchesContrast, "blank_glass_gives_no_patches"),
    (FirstOfSmall, "small_slide_is_no_error"),
    (GlobalRandom, "fresh_selector_same_patches"),
    (GeneratorKept, "same_slide_same_patches"),
    (ClosesTheSlide, "slide_is_left_open_and_alone"),
    (LooksBehindTheInterface, "slide_is_left_open_and_alone"),
    (GreyTissue, "tissue_has_the_shape_of_the_thumbnail"),
    (TissueOfItsOwnSize, "tissue_has_the_shape_of_the_thumbnail"),
    (DrawsOnTheThumbnail, "tissue_has_the_shape_of_the_thumbnail"),
    (TissueOfTheLastSlide, "same_slide_same_tissue"),
    (RandomTissue, "same_slide_same_tissue"),
    (ShowsGlass, "patches_lie_on_the_tissue_found"),
    (SizeInPixels, "patches_have_the_stated_size"),
    (OneOfTwoSizes, "patches_have_the_stated_size"),
)


@pytest.mark.parametrize("check", selector_checks(), ids=lambda check: check.__name__)
def test_correct_selector_passes(check: Any) -> None:
    check(Stained)


@pytest.mark.parametrize("check", selector_checks(), ids=lambda check: check.__name__)
def test_correct_selector_with_every_capability_passes(check: Any) -> None:
    assert isinstance(ShowsTissue(), TissueFinder) and isinstance(ShowsTissue(), PatchSized)
    check(ShowsTissue)


@pytest.mark.parametrize(("selector", "check"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_broken_selector_is_caught(selector: type, check: str) -> None:
    named = next(c for c in selector_checks() if c.__name__ == check)
    with pytest.raises(CheckFailed):
        named(selector)


@pytest.mark.parametrize("check", selector_checks(), ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", [FromElsewhere, lambda: Imported("clam")], ids=["plugin", "bundled"])
def test_selector_of_imported_patches_passes(make: Any, check: Any) -> None:
    check(make)


def test_every_check_is_proven_to_catch_something() -> None:
    assert {name for _, name in BROKEN} == {check.__name__ for check in selector_checks()}
