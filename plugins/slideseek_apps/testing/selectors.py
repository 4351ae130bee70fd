"""The checks for selectors."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from slideseek.errors import SlideseekError
from slideseek.interfaces import ImportedPatches, PatchSized, Selector, Slide, TissueFinder
from slideseek.types import Float64, Mask, Patches, UInt8
from slideseek_apps.testing.checks import Check, Make, demand, having, lacking, prepared, require, require_error
from slideseek_apps.testing.components import component_checks
from slideseek_apps.testing.toys import toy_slide

SMALL_SLIDE = (152, 133)
"""(width, height) in level-0 pixels, smaller than any usual patch: a real slide of this size exists."""

THUMBNAIL_SIDE = 512
"""Side in pixels of the thumbnail a selector finds tissue on: 4 µm per pixel for the toy slide."""

MOSTLY = 0.5
"""Least share of the selected patches that must show the tissue the selector finds."""

SCANS = (0.25, 0.5, 1.0)
"""µm per level-0 pixel of three scans of the same glass."""

SIMILAR = 0.25
"""How far the covered area and the centre of the patches may differ between scans, as a share."""

RASTER_UM = 16
"""Side in µm of the squares in which the tissue that patches cover is counted."""


def selector_checks() -> tuple[Check, ...]:
    """Return all checks for a selector."""
    return component_checks("selector") + prepared(
        *lacking(
            ImportedPatches,
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
            resolution_of_the_scan_does_not_matter,
            tissue_at_the_border_is_selected,
        ),
        *having(
            TissueFinder,
            tissue_has_the_shape_of_the_thumbnail,
            same_slide_same_tissue,
            patches_lie_on_the_tissue_found,
            outline_of_the_tissue_is_used,
        ),
        *having(PatchSized, patches_have_the_stated_size),
        *having(ImportedPatches, imported_set_is_named, imported_patches_are_not_selected),
    )


def patches_are_well_formed(make: Make) -> None:
    """`select` returns Patches with the slide's id and a positive resolution."""
    patches = _select(make(), toy_slide(slide_id="a-slide"))
    fix = "use slide.id in the patches"
    demand(patches.slide_id == "a-slide", repr(patches.slide_id), fix)
    fix = "set the µm per pixel at which each patch is read"
    passed = bool((patches.mpp > 0).all() and np.isfinite(patches.mpp).all())
    demand(passed, f"mpp {sorted(set(patches.mpp.tolist()))}", fix)


def patches_lie_inside_the_slide(make: Make) -> None:
    """Every patch lies inside a slide that is larger than a patch."""
    slide = toy_slide()
    _require_inside(slide, _select(make(), slide))


def patches_are_distinct(make: Make) -> None:
    """No patch is selected twice."""
    patches = _select(make(), toy_slide())
    rows = np.column_stack([patches.xy, patches.mpp])
    distinct = len(np.unique(rows, axis=0))
    fix = "draw without replacement, or drop duplicate patches"
    require(distinct == len(patches), "every patch once", f"{len(patches)} patches, {distinct} of them distinct", fix)


def tissue_is_selected(make: Make) -> None:
    """A slide mostly covered by tissue gives at least one patch."""
    slide = toy_slide()
    patches = _select(make(), slide)
    fix = "look at the tissue mask: a pink and purple ellipse on white must be found"
    want = f"at least one patch of a stained slide of {slide.dimensions} pixels at {slide.mpp} µm/px"
    require(len(patches) > 0, want, "none", fix)


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
    fix = "do not use the slide as a context manager inside select()"
    require(not slide.closed, "the slide to stay open: the caller closes it", "a closed slide", fix)
    fix = "copy what slide.read() and slide.thumbnail() return before writing into it"
    demand(np.array_equal(before, slide.thumbnail(256)), "changed pixels after select()", fix)


def resolution_of_the_scan_does_not_matter(make: Make) -> None:
    """The same tissue scanned at 0.25, 0.5 and 1.0 µm per pixel gives patches of one size that cover as much of it."""
    fix = "xy is in level-0 pixels, a patch covers size * mpp / slide.mpp of them: use slide.mpp, never a fixed step"
    first: tuple[list[float], float, Float64] | None = None
    for mpp in SCANS:
        slide = toy_slide(width=3584, height=2560, mpp=0.5, scan_mpp=mpp)
        patches = _select(make(), slide)
        _require_inside(slide, patches)
        found = (_sides_um(patches), *_covered(slide, patches))
        first = first or found
        (sides, covered, centre), text = found, "patches of {} µm that cover {:.2f} mm² around {}"
        require(
            bool(np.allclose(sides, first[0]) if len(sides) == len(first[0]) else False)
            and abs(covered - first[1]) <= SIMILAR * first[1] + 1e-9
            and bool((np.abs(centre - first[2]) <= SIMILAR * np.array(slide.dimensions) * mpp).all()),
            f"{text.format(first[0], first[1], first[2].round())}, as at {SCANS[0]} µm/px",
            f"{text.format(sides, covered, centre.round())} at {mpp} µm/px",
            fix,
        )


def tissue_at_the_border_is_selected(make: Make) -> None:
    """Tissue that touches two borders of the slide is selected, in patches that lie inside the slide."""
    slide = toy_slide(width=4500, height=3300, centre=0.8)
    patches = _select(make(), slide)
    demand(len(patches) > 0, "none", "shift or drop only the patches that stick out")
    _require_inside(slide, patches)


def tissue_has_the_shape_of_the_thumbnail(make: Make) -> None:
    """`find_tissue` returns bool (h, w) for a thumbnail (h, w, 3), and does not write into it."""
    selector, slide = make(), toy_slide()
    thumbnail = slide.thumbnail(THUMBNAIL_SIDE).copy()
    _find_tissue(selector, slide, thumbnail)
    fix = "copy the thumbnail before writing into it"
    demand(np.array_equal(thumbnail, slide.thumbnail(THUMBNAIL_SIDE)), "changed pixels after find_tissue()", fix)


def same_slide_same_tissue(make: Make) -> None:
    """`find_tissue` returns the same tissue again, also from a fresh selector and after another slide."""
    selector, slide = make(), toy_slide()
    thumbnail = slide.thumbnail(THUMBNAIL_SIDE)
    first = _find_tissue(selector, slide, thumbnail)
    other = toy_slide(seed=1)
    _find_tissue(selector, other, other.thumbnail(THUMBNAIL_SIDE))
    for who, again in (("the same selector", selector), ("a fresh selector with equal options", make())):
        differ = int((first != _find_tissue(again, slide, thumbnail)).sum())
        fix = "use only the slide, the thumbnail and the options, and no random numbers"
        want = f"the same tissue for the same slide from {who}"
        require(differ == 0, want, f"{differ} of {first.size} pixels that differ", fix)


def patches_lie_on_the_tissue_found(make: Make) -> None:
    """A selector with `find_tissue` selects patches that lie mostly on that tissue."""
    selector, slide = make(), toy_slide()
    mask = _find_tissue(selector, slide, slide.thumbnail(THUMBNAIL_SIDE))
    patches = _select(selector, slide)
    share = float(_tissue_shares(mask, slide, patches).mean()) if len(patches) else 1.0
    fix = "use one rule for both: select() should choose from the tissue that find_tissue() returns"
    want = f"at least {MOSTLY:.0%} of the area of the selected patches on the tissue that find_tissue() returns"
    require(share >= MOSTLY, want, f"{share:.0%} of it", fix)


def patches_have_the_stated_size(make: Make) -> None:
    """A selector with one patch size selects patches whose size * mpp is `patch_um`."""
    selector = make()
    if selector.patch_um is None:
        return
    sides = _sides_um(_select(selector, toy_slide()))
    fix = "return size * mpp, or None if patches have several sizes"
    passed = bool(np.allclose(sides, selector.patch_um, rtol=1e-6))
    want = f"every patch to be patch_um = {selector.patch_um!r} µm wide"
    require(passed, want, f"patches of {', '.join(f'{side:g}' for side in sides)} µm", fix)


class WatchedSlide:
    """A slide with only the members of the interface, which records being closed."""

    closed = False

    def __init__(self, inner: Slide) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        if name not in ("id", "dimensions", "mpp", "read", "thumbnail"):
            raise AttributeError(f"the interface of a slide has no {name!r}")
        return getattr(self._inner, name)

    def __enter__(self) -> WatchedSlide:
        return self

    def __exit__(self, *error: object) -> None:
        self.closed = True


def outline_of_the_tissue_is_used(make: Make) -> None:
    """Of a slide with an outline of its tissue (`Outlined`), only the inside is tissue."""
    slide: Any = toy_slide()
    width, height = slide.dimensions
    ring = [[0, 0], [width // 2, 0], [width // 2, height], [0, height], [0, 0]]
    with tempfile.TemporaryDirectory() as folder:
        slide.contours = Path(folder) / "left-half.geojson"
        slide.contours.write_text(json.dumps({"type": "Polygon", "coordinates": [ring]}), encoding="utf-8")
        mask = _find_tissue(make(), slide, slide.thumbnail(THUMBNAIL_SIDE))
        patches = _select(make(), slide)
    half = mask.shape[1] // 2
    fix = "if slide.contours is set, return slideseek.slides.geojson.mask_from_geojson(slide.contours, ...)"
    found = f"{mask[:, :half].mean():.0%} of the inside and {mask[:, half + 1 :].mean():.0%} of the outside as tissue"
    demand(bool(mask[:, :half].any() and not mask[:, half + 1 :].any()), found, fix)
    centres = patches.xy[:, 0] + patches.size * patches.mpp / slide.mpp / 2
    outside = int((centres > width / 2 + 1).sum())
    demand(outside == 0 and len(patches) > 0, f"{outside} of {len(patches)} patches outside", "select on find_tissue()")


def imported_set_is_named(make: Make) -> None:
    """`imported_set` is the name of the set, the same from a fresh selector."""
    names = [make().imported_set, make().imported_set]
    passed = isinstance(names[0], str) and bool(names[0].strip()) and names[0] == names[1]
    demand(passed, " and ".join(map(repr, names)), "return the option that names the set")


def imported_patches_are_not_selected(make: Make) -> None:
    """A selector of imported patches raises SlideseekError if it is asked to select: they were selected elsewhere."""
    fix = "raise SlideError(cause, \"import them with 'slideseek import'\") from select()"
    require_error(lambda: make().select(toy_slide()), (SlideseekError,), "from select()", fix)


def _select(selector: Selector, slide: Any) -> Patches:
    patches = selector.select(slide)
    fix = "build it with Patches.at(slide.id, xy, size, mpp), which checks dtype and shape"
    require(isinstance(patches, Patches), "select() to return slideseek.types.Patches", type(patches).__name__, fix)
    return patches


def _find_tissue(selector: TissueFinder, slide: Slide, thumbnail: UInt8) -> Mask:
    mask = selector.find_tissue(slide, thumbnail)
    is_array = isinstance(mask, np.ndarray)
    fix = "return one value per pixel of the thumbnail, true on tissue"
    passed = is_array and mask.dtype == np.bool_ and mask.shape == thumbnail.shape[:2]
    want = f"find_tissue() to return a bool array of shape {thumbnail.shape[:2]}"
    require(passed, want, f"{mask.dtype} {mask.shape}" if is_array else type(mask).__name__, fix)
    return mask


def _tissue_shares(mask: Mask, slide: Slide, patches: Patches) -> Float64:
    """Return the share of tissue in each patch, float64 (n,); `mask` bool (h, w) shows the whole slide."""
    pixels = np.array(mask.shape[::-1]) / slide.dimensions  # mask pixels per level-0 pixel, across and down
    side = (patches.size * patches.mpp / slide.mpp)[:, None]
    begin = np.floor(np.maximum(patches.xy, 0) * pixels).astype(int)
    end = np.maximum(np.ceil((patches.xy + side) * pixels).astype(int), begin + 1)
    return np.array([mask[top:bottom, left:right].mean() for (left, top), (right, bottom) in zip(begin, end)])


def _sides_um(patches: Patches) -> list[float]:
    """Return the distinct sides of patches in µm, ascending."""
    return sorted({round(patches.size * float(mpp), 6) for mpp in patches.mpp})


def _covered(slide: Slide, patches: Patches) -> tuple[float, Float64]:
    """Return the area that patches cover, in mm², and the mean of their centres in µm, float64 (2,)."""
    raster = np.zeros(np.ceil(np.array(slide.dimensions) * slide.mpp / RASTER_UM).astype(int), dtype=np.bool_)
    corners, sides = patches.xy * slide.mpp, patches.size * patches.mpp
    for (x, y), side in zip(corners / RASTER_UM, sides / RASTER_UM):
        raster[max(round(x), 0) : round(x + side), max(round(y), 0) : round(y + side)] = True
    centre = (corners + sides[:, None] / 2).mean(axis=0) if len(patches) else np.zeros(2)
    return float(raster.sum()) * RASTER_UM**2 / 1e6, centre


def _require_inside(slide: Slide, patches: Patches) -> None:
    """Require that patches lie inside a slide, unless it is smaller than a patch."""
    side = np.floor(patches.size * patches.mpp / slide.mpp)[:, None]  # level-0 pixels; a fraction may lie outside
    bounds = np.array(slide.dimensions)
    outside = np.any((bounds >= side) & ((patches.xy < 0) | (patches.xy + side > bounds)), axis=1)
    wrong = [f"{corner} of side {length:.0f}" for corner, length in zip(patches.xy[outside].tolist(), side[outside, 0])]
    fix = "xy is the top-left corner in level-0 pixels, and a patch covers size * mpp / slide.mpp of them"
    want = f"patches inside the slide, {bounds.tolist()} level-0 pixels"
    require(not wrong, want, f"{len(wrong)} of {len(patches)} outside, one at {wrong[0] if wrong else ''}", fix)


def _require_none(patches: Patches, what: str) -> None:
    fix = "return empty Patches if the slide shows no tissue; a threshold based on contrast alone detects grain"
    require(len(patches) == 0, f"no patches for {what}", f"{len(patches)} patches", fix)


def _require_same(first: Patches, second: Patches, who: str) -> None:
    same = first.size == second.size and np.array_equal(first.xy, second.xy) and np.array_equal(first.mpp, second.mpp)
    fix = "seed a new generator from the options in every call, np.random.default_rng(self.seed)"
    found = f"{len(first)} patches from {first.xy[:3].tolist()}, then {len(second)} from {second.xy[:3].tolist()}"
    require(same, f"the same patches in the same order from {who}", found, fix)
