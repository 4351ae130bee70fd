"""The checks for the content of an index: adding, removing, saving, loading."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from slideseek.errors import SlideseekError
from slideseek.interfaces import Index
from slideseek.types import Code, CodeSpec
from slideseek_apps.testing.checks import Check, Make, demand, require, require_error
from slideseek_apps.testing.hit_lists import Codes, filled, on_every_spec, require_same_hits, search
from slideseek_apps.testing.stored_files import require_no_pickle
from slideseek_apps.testing.toys import toy_codes

REFUSALS = (SlideseekError, ValueError, KeyError)
HALF = 9


def storage_checks() -> tuple[Check, ...]:
    """Return the checks for adding, removing, saving and loading."""
    return on_every_spec(
        ids_name_every_slide,
        order_of_adding_does_not_matter,
        duplicate_id_is_refused,
        removed_slides_are_gone,
        unknown_removal_is_refused,
        nbytes_grows,
        saved_index_searches_alike,
        loaded_index_can_be_changed,
        empty_index_can_be_saved,
        index_files_hold_no_pickle,
    )


def ids_name_every_slide(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """`ids` lists every slide once, and is empty at first."""
    index = make()
    require(len(index.ids) == 0, "a fresh index without ids", f"{len(index.ids)} ids", "start without codes")
    index.add(codes)
    fix = "keep one id per slide, regardless of its number of rows"
    passed = sorted(index.ids) == [code.slide_id for code in codes]
    require(passed, f"the ids of the {len(codes)} slides added", f"{len(index.ids)} ids, {list(index.ids)[:4]}...", fix)


def order_of_adding_does_not_matter(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """Codes added in one call, in parts with searches in between, or in another order give the same hits."""
    at_once = filled(make, codes)
    in_parts = make()
    for part in (codes[:1], codes[1:HALF], (), codes[HALF:]):
        in_parts.add(part)
        search(in_parts, codes[0], 3)
    fix = "make add() take effect immediately, even after a search; order ties by slide id, not by position"
    _require_alike(at_once, in_parts, spec, "the same hits after adding in parts", fix)
    _require_alike(at_once, filled(make, codes[::-1]), spec, "the same hits after adding in another order", fix)


def duplicate_id_is_refused(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """Adding a slide id twice raises, also within one call, and no id is ever stored twice."""
    again = replace(codes[4], slide_id=codes[2].slide_id)
    fix = "check for known ids before storing anything, and raise SlideseekError with the id"
    for index, more in ((filled(make, codes), [again]), (make(), [*codes, again])):
        require_error(partial(index.add, more), REFUSALS, "for a slide id twice", fix)
        ids = list(index.ids)
        require(len(set(ids)) == len(ids), "every id once after the error", f"{ids}", fix)


def removed_slides_are_gone(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """Removed slides are no longer found, other hits do not change, and removed slides can be added again."""
    gone = {codes[0].slide_id, codes[7].slide_id, codes[-1].slide_id}
    index = filled(make, codes)
    index.remove(sorted(gone))
    fix = "drop every row of the slide, and its entry in ids"
    rest = filled(make, [code for code in codes if code.slide_id not in gone])
    _require_alike(rest, index, spec, "the hits of an index that never had the removed slides", fix)
    index.add([code for code in codes if code.slide_id in gone])
    _require_alike(filled(make, codes), index, spec, "the original hits after adding them again", fix)


def unknown_removal_is_refused(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """Removing an unknown id raises, and nothing is removed."""
    index = filled(make, codes)
    fix = "look up every id before removing the first one, and raise SlideseekError with the unknown id"
    what = "for an id that is not in the index"
    require_error(partial(index.remove, [codes[1].slide_id, "nobody"]), REFUSALS, what, fix)
    _require_alike(filled(make, codes), index, spec, "nothing removed after the error", fix)


def nbytes_grows(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """`nbytes` counts at least the bytes of the codes and grows when codes are added."""
    index = make()
    sizes = [index.nbytes]
    for part in (codes[:HALF], codes[HALF:]):
        index.add(part)
        sizes.append(index.nbytes)
    fix = "sum the nbytes of the stored arrays"
    passed = all(isinstance(size, int) for size in sizes) and 0 <= sizes[0] < sizes[1] < sizes[2]
    demand(passed, f"{sizes} for 0, {HALF} and {len(codes)} codes", fix)


def saved_index_searches_alike(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """An index restored by `load` has the ids of the saved one, in order, and gives the same hits."""
    codes = toy_codes(spec, space="kidney")
    index = filled(make, codes)
    index.remove([codes[3].slide_id])
    fix = "write codes, ids and spaces, and restore them in the same order"
    with tempfile.TemporaryDirectory() as folder:
        restored = _restored(make, index, Path(folder))
        passed = list(restored.ids) == list(index.ids)
        want = f"the ids of the saved index, {list(index.ids)[:4]}..."
        require(passed, want, f"{list(restored.ids)[:4]}... ({len(restored.ids)} ids)", fix)
        _require_alike(index, restored, spec, "the hits of the saved index", fix, space="kidney")
        hits = search(restored, replace(codes[0], space="liver"), 3)
        require(hits == [], "no hits in another space after load()", f"{hits}", fix)


def loaded_index_can_be_changed(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """Codes can be added to and removed from a loaded index."""
    with tempfile.TemporaryDirectory() as folder:
        index = _restored(make, filled(make, codes[:HALF]), Path(folder))
        index.remove([codes[0].slide_id])
        index.add(codes[HALF:])
        fix = "copy memory-mapped arrays before changing them"
        _require_alike(filled(make, codes[1:]), index, spec, "the hits of an index built from the same codes", fix)


def empty_index_can_be_saved(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """An index without codes can be saved, loaded and then used."""
    with tempfile.TemporaryDirectory() as folder:
        index = _restored(make, make(), Path(folder))
        require(len(index.ids) == 0, "no ids", f"{len(index.ids)} ids", "save and restore the empty state")
        index.add(codes)
        _require_alike(filled(make, codes), index, spec, "the hits of a fresh index", "load() must allow add()")


def index_files_hold_no_pickle(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """`save` writes no pickle."""
    with tempfile.TemporaryDirectory() as folder:
        filled(make, codes).save(Path(folder))
        require_no_pickle(Path(folder))


def _restored(make: Make, index: Index, folder: Path) -> Index:
    index.save(folder)
    restored: Index = make()
    restored.load(folder)
    return restored


def _require_alike(expected: Index, got: Index, spec: CodeSpec, what: str, fix: str, space: str = "") -> None:
    """Require the same hits from both indexes for a few queries, including a code they may contain."""
    queries: Sequence[Code] = (
        *toy_codes(spec, n=20, space=space)[:1],
        *toy_codes(spec, seed=1, n=3, space=space, prefix="query"),
    )
    for query in queries:
        require_same_hits(search(expected, query, 25), search(got, query, 25), f"{what} ({spec})", fix)
