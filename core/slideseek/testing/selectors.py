"""The checks for selectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slideseek.interfaces import PatchSized, Selector, Slide, TissueFinder, implements
from slideseek.testing.checks import Check, Make, prepared, require
from slideseek.testing.components import COMPONENT_CHECKS, require_protocol
from slideseek.testing.toys import toy_slide
from slideseek.types import Float64, Mask, Patches, UInt8

SMALL_SLIDE = (152, 133)
"""(width, height) in level-0 pixels, smaller than any usual patch: a real slide of this size exists."""

THUMBNAIL_SIDE = 512
"""Side in pixels of the thumbnail a selector finds tissue on: 4 µm per pixel for the toy slide."""

MOSTLY = 0.5
"""Least share of the selected patches that must show the tissue the selector finds."""


def selector_checks() -> tuple[Check, ...]:
    """Return all checks for a selector."""
    return prepared(
        selects_as_the_interface_says,
        *COMPONENT_CHECKS,
        patches_are_well_formed,
        patches_lie_inside_the_slide,
        patches_are_distinct,
        tissue_is_selected,
        white_slide_gives_no_patches,
        blank_glass_gives_no_patches,
        small_slide_is_no_error,
        same_slide_same_patches,
        fresh_selector_same_patches,
        slide_is_left_open_and_alone,
        tissue_has_the_shape_of_the_thumbnail,
        same_slide_same_tissue,
        patches_lie_on_the_tissue_found,
        patches_have_the_stated_size,
    )


def selects_as_the_interface_says(make: Make) -> None:
    """The component has every member of the Selector interface."""
    require_protocol(make, Selector)


def patches_are_well_formed(make: Make) -> None:
    """`select` returns Patches with the slide's id and a positive resolution."""
    patches = _select(make(), toy_slide(slide_id="a-slide"))
    require(
        patches.slide_id == "a-slide",
        "Patches.slide_id to be the id of the slide, 'a-slide'",
        repr(patches.slide_id),
        "use slide.id in the patches",
    )
    require(
        bool((patches.mpp > 0).all() and np.isfinite(patches.mpp).all()),
        "a positive resolution for every patch",
        f"mpp {sorted(set(patches.mpp.tolist()))}",
        "set the µm per pixel at which each patch is read",
    )


def patches_lie_inside_the_slide(make: Make) -> None:
    """Every patch lies inside a slide that is larger than a patch."""
    slide = toy_slide()
    patches = _select(make(), slide)
    side = np.floor(patches.size * patches.mpp / slide.mpp)[
        :, None
    ]  # level-0 pixels; a fraction of one may lie outside
    bounds = np.array(slide.dimensions)
    outside = np.any((bounds >= side) & ((patches.xy < 0) | (patches.xy + side > bounds)), axis=1)
    wrong = [f"{corner} of side {length:.0f}" for corner, length in zip(patches.xy[outside].tolist(), side[outside, 0])]
    require(
        not wrong,
        f"patches inside the slide, {bounds.tolist()} level-0 pixels",
        f"{len(wrong)} of {len(patches)} outside, one at {wrong[0] if wrong else ''}",
        "xy is the top-left corner in level-0 pixels, and a patch covers size * mpp / slide.mpp of them",
    )


def patches_are_distinct(make: Make) -> None:
    """No patch is selected twice."""
    patches = _select(make(), toy_slide())
    rows = np.column_stack([patches.xy, patches.mpp])
    distinct = len(np.unique(rows, axis=0))
    require(
        distinct == len(patches),
        "every patch once",
        f"{len(patches)} patches, {distinct} of them distinct",
        "draw without replacement, or drop duplicate patches",
    )


def tissue_is_selected(make: Make) -> None:
    """A slide mostly covered by tissue gives at least one patch."""
    slide = toy_slide()
    patches = _select(make(), slide)
    require(
        len(patches) > 0,
        f"at least one patch of a stained slide of {slide.dimensions} pixels at {slide.mpp} µm/px",
        "none",
        "look at the tissue mask: a pink and purple ellipse on white must be found",
    )


def white_slide_gives_no_patches(make: Make) -> None:
    """A white slide gives zero patches and no error."""
    _require_none(_select(make(), toy_slide(tissue=False)), "a white slide")


def blank_glass_gives_no_patches(make: Make) -> None:
    """A scan of blank, grainy, light grey glass gives zero patches and no error."""
    _require_none(_select(make(), toy_slide(tissue=False, glass=240)), "blank glass")


def small_slide_is_no_error(make: Make) -> None:
    """A slide smaller than a patch gives Patches, possibly empty, and no error."""
    width, height = SMALL_SLIDE
    for tissue in (True, False):
        _select(make(), toy_slide(width=width, height=height, tissue=tissue))


def same_slide_same_patches(make: Make) -> None:
    """The same slide gives the same patches again, even after another slide."""
    selector = make()
    first = _select(selector, toy_slide())
    _select(selector, toy_slide(seed=1))
    _require_same(first, _select(selector, toy_slide()), "the same selector on the same slide")


def fresh_selector_same_patches(make: Make) -> None:
    """A fresh selector with the same options gives the same patches."""
    _require_same(_select(make(), toy_slide()), _select(make(), toy_slide()), "a fresh selector with equal options")


def slide_is_left_open_and_alone(make: Make) -> None:
    """`select` does not close the slide or write into its pixels, and uses only the Slide interface."""
    slide = WatchedSlide(toy_slide())
    before = slide.thumbnail(256).copy()
    _select(make(), slide)
    require(
        not slide.closed,
        "the slide to stay open: the caller closes it",
        "a closed slide",
        "do not use the slide as a context manager inside select()",
    )
    require(
        np.array_equal(before, slide.thumbnail(256)),
        "the slide's pixels unchanged",
        "changed pixels after select()",
        "copy what slide.read() and slide.thumbnail() return before writing into it",
    )


def tissue_has_the_shape_of_the_thumbnail(make: Make) -> None:
    """`find_tissue` returns bool (h, w) for a thumbnail (h, w, 3), and does not write into it."""
    selector, slide = make(), toy_slide()
    if not implements(selector, TissueFinder):
        return
    thumbnail = slide.thumbnail(THUMBNAIL_SIDE).copy()
    _find_tissue(selector, slide, thumbnail)
    require(
        np.array_equal(thumbnail, slide.thumbnail(THUMBNAIL_SIDE)),
        "the thumbnail unchanged",
        "changed pixels after find_tissue()",
        "copy the thumbnail before writing into it",
    )


def same_slide_same_tissue(make: Make) -> None:
    """`find_tissue` returns the same tissue again, also from a fresh selector and after another slide."""
    selector, slide = make(), toy_slide()
    if not implements(selector, TissueFinder):
        return
    thumbnail = slide.thumbnail(THUMBNAIL_SIDE)
    first = _find_tissue(selector, slide, thumbnail)
    other = toy_slide(seed=1)
    _find_tissue(selector, other, other.thumbnail(THUMBNAIL_SIDE))
    for who, again in (("the same selector", selector), ("a fresh selector with equal options", make())):
        differ = int((first != _find_tissue(again, slide, thumbnail)).sum())
        require(
            differ == 0,
            f"the same tissue for the same slide from {who}",
            f"{differ} of {first.size} pixels that differ",
            "use only the slide, the thumbnail and the options, and no random numbers",
        )


def patches_lie_on_the_tissue_found(make: Make) -> None:
    """A selector with `find_tissue` selects patches that lie mostly on that tissue."""
    selector, slide = make(), toy_slide()
    if not implements(selector, TissueFinder):
        return
    mask = _find_tissue(selector, slide, slide.thumbnail(THUMBNAIL_SIDE))
    patches = _select(selector, slide)
    share = float(_tissue_shares(mask, slide, patches).mean()) if len(patches) else 1.0
    require(
        share >= MOSTLY,
        f"at least {MOSTLY:.0%} of the area of the selected patches on the tissue that find_tissue() returns",
        f"{share:.0%} of it",
        "use one rule for both: select() should choose from the tissue that find_tissue() returns",
    )


def patches_have_the_stated_size(make: Make) -> None:
    """A selector with one patch size selects patches whose size * mpp is `patch_um`."""
    selector = make()
    if not implements(selector, PatchSized) or selector.patch_um is None:
        return
    patches = _select(selector, toy_slide())
    sides = sorted({round(patches.size * float(mpp), 6) for mpp in patches.mpp})
    require(
        bool(np.allclose(sides, selector.patch_um, rtol=1e-6)),
        f"every patch to be patch_um = {selector.patch_um!r} µm wide",
        f"patches of {', '.join(f'{side:g}' for side in sides)} µm",
        "return size * mpp, or None if patches have several sizes",
    )


@dataclass
class WatchedSlide:
    """A slide with only the members of the interface, which records being closed."""

    inner: Slide
    closed: bool = False

    @property
    def id(self) -> str:
        return self.inner.id

    @property
    def dimensions(self) -> tuple[int, int]:
        return self.inner.dimensions

    @property
    def mpp(self) -> float:
        return self.inner.mpp

    def read(self, xy: tuple[int, int], size: int, mpp: float) -> UInt8:
        """Call the inner slide."""
        return self.inner.read(xy, size, mpp)

    def thumbnail(self, side: int) -> UInt8:
        """Call the inner slide."""
        return self.inner.thumbnail(side)

    def __enter__(self) -> WatchedSlide:
        return self

    def __exit__(self, *error: object) -> None:
        self.closed = True


def _select(selector: Selector, slide: Slide) -> Patches:
    patches = selector.select(slide)
    require(
        isinstance(patches, Patches),
        "select() to return slideseek.types.Patches",
        type(patches).__name__,
        "build it with Patches.at(slide.id, xy, size, mpp), which checks dtype and shape",
    )
    return patches


def _find_tissue(selector: TissueFinder, slide: Slide, thumbnail: UInt8) -> Mask:
    mask = selector.find_tissue(slide, thumbnail)
    is_array = isinstance(mask, np.ndarray)
    require(
        is_array and mask.dtype == np.bool_ and mask.shape == thumbnail.shape[:2],
        f"find_tissue() to return a bool array of shape {thumbnail.shape[:2]}",
        f"{mask.dtype} {mask.shape}" if is_array else type(mask).__name__,
        "return one value per pixel of the thumbnail, true on tissue",
    )
    return mask


def _tissue_shares(mask: Mask, slide: Slide, patches: Patches) -> Float64:
    """Return the share of tissue in each patch, float64 (n,); `mask` bool (h, w) shows the whole slide."""
    pixels = np.array(mask.shape[::-1]) / slide.dimensions  # mask pixels per level-0 pixel, across and down
    side = (patches.size * patches.mpp / slide.mpp)[:, None]
    begin = np.floor(np.maximum(patches.xy, 0) * pixels).astype(int)
    end = np.maximum(np.ceil((patches.xy + side) * pixels).astype(int), begin + 1)
    return np.array([mask[top:bottom, left:right].mean() for (left, top), (right, bottom) in zip(begin, end)])


def _require_none(patches: Patches, what: str) -> None:
    require(
        len(patches) == 0,
        f"no patches for {what}",
        f"{len(patches)} patches",
        "return empty Patches if the slide shows no tissue; a threshold based on contrast alone detects grain",
    )


def _require_same(first: Patches, second: Patches, who: str) -> None:
    same = first.size == second.size and np.array_equal(first.xy, second.xy) and np.array_equal(first.mpp, second.mpp)
    require(
        same,
        f"the same patches in the same order from {who}",
        f"{len(first)} patches from {first.xy[:3].tolist()}, then {len(second)} from {second.xy[:3].tolist()}",
        "seed a new generator from the options in every call, np.random.default_rng(self.seed)",
    )
