"""The checks of a selector."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

import numpy as np

from slideseek.interfaces import Selector, Slide
from slideseek.testing.checks import (
    Check,
    Make,
    prepared,
    require,
)
from slideseek.testing.components import COMPONENT_CHECKS, require_protocol
from slideseek.testing.toys import toy_slide
from slideseek.types import Patches, UInt8

SMALL_SLIDE = (152, 133)
"""(width, height) in level-0 pixels: a real slide of this size exists, smaller than any usual patch."""


def selector_checks() -> tuple[Check, ...]:
    """Return every check of a selector."""
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
    )


def selects_as_the_interface_says(make: Make) -> None:
    """The component has every member of the Selector interface."""
    require_protocol(make, Selector)


def patches_are_well_formed(make: Make) -> None:
    """`select` returns Patches that carry the slide's id and a positive resolution."""
    patches = _select(make(), toy_slide(slide_id="a-slide"))
    require(
        patches.slide_id == "a-slide",
        "Patches.slide_id to be the id of the slide, 'a-slide'",
        repr(patches.slide_id),
        "pass slide.id on",
    )
    require(
        bool((patches.mpp > 0).all() and np.isfinite(patches.mpp).all()),
        "a positive resolution for every patch",
        f"mpp {sorted(set(patches.mpp.tolist()))}",
        "give the µm per pixel each patch is to be read at",
    )


def patches_lie_inside_the_slide(make: Make) -> None:
    """Every patch lies inside a slide that is larger than a patch."""
    slide = toy_slide()
    patches = _select(make(), slide)
    side = np.floor(patches.size * patches.mpp / slide.mpp)[:, None]  # level-0 pixels; a part of one may stick out
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
        "draw without replacement, or drop patches that were taken already",
    )


def tissue_is_selected(make: Make) -> None:
    """A slide with tissue over most of it gives at least one patch."""
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
    """A slide smaller than a patch gives Patches, perhaps none, and no error."""
    width, height = SMALL_SLIDE
    for tissue in (True, False):
        _select(make(), toy_slide(width=width, height=height, tissue=tissue))


def same_slide_same_patches(make: Make) -> None:
    """The same slide gives the same patches again, whatever was selected in between."""
    selector = make()
    first = _select(selector, toy_slide())
    _select(selector, toy_slide(seed=1))
    _require_same(first, _select(selector, toy_slide()), "the same selector on the same slide")


def fresh_selector_same_patches(make: Make) -> None:
    """A fresh selector with the same options gives the same patches."""
    _require_same(_select(make(), toy_slide()), _select(make(), toy_slide()), "a fresh selector with equal options")


def slide_is_left_open_and_alone(make: Make) -> None:
    """`select` neither closes the slide nor writes into its pixels, and uses the Slide interface alone."""
    slide = WatchedSlide(toy_slide())
    before = slide.thumbnail(256).copy()
    _select(make(), slide)
    require(
        not slide.closed,
        "the slide to stay open: whoever opened it closes it",
        "a closed slide",
        "do not use the slide as a context manager inside select()",
    )
    require(
        np.array_equal(before, slide.thumbnail(256)),
        "the slide's pixels unchanged",
        "other pixels after select()",
        "copy what slide.read() and slide.thumbnail() return before writing into it",
    )


@dataclass
class WatchedSlide:
    """A slide with the members of the interface and nothing else, which notices being closed."""

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
        """Pass on to the inner slide."""
        return self.inner.read(xy, size, mpp)

    def thumbnail(self, side: int) -> UInt8:
        """Pass on to the inner slide."""
        return self.inner.thumbnail(side)

    def __enter__(self) -> WatchedSlide:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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


def _require_none(patches: Patches, what: str) -> None:
    require(
        len(patches) == 0,
        f"no patches of {what}",
        f"{len(patches)} patches",
        "return empty Patches when the slide shows no tissue; a threshold found by contrast alone finds grain",
    )


def _require_same(first: Patches, second: Patches, who: str) -> None:
    same = first.size == second.size and np.array_equal(first.xy, second.xy) and np.array_equal(first.mpp, second.mpp)
    require(
        same,
        f"the same patches in the same order from {who}",
        f"{len(first)} patches from {first.xy[:3].tolist()}, then {len(second)} from {second.xy[:3].tolist()}",
        "seed a generator of its own from the options in every call, np.random.default_rng(self.seed)",
    )
