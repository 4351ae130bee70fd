"""The checks for an index that keeps its codes elsewhere, and for one that takes filters instead of a mask."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from slideseek.errors import DamagedError
from slideseek.types import Code, CodeSpec, Filter, SlideRecord
from slideseek_apps.testing.checks import Make, demand, require, require_error
from slideseek_apps.testing.hit_lists import Codes, accepted_specs, require_same_hits, search
from slideseek_apps.testing.toys import toy_codes

VERSION = 7

FILTERS: tuple[tuple[Filter, ...], ...] = (
    (),
    (Filter("site", False, "=", ("lung",)),),
    (Filter("patient", False, "not in", ("p1", "p3")), Filter("id", False, "not in", ("slide-04",))),
    (Filter("center", False, "!=", ("Köln's",)), Filter("label", False, "in", ('a "b"', ""))),
    (Filter("Tumor Stage", True, "!=", ("IV, b",)),),
    (Filter("Tumor Stage", True, "in", ("", "IV, b")),),
    (Filter("age", True, ">=", ("60",)), Filter("site", False, "in", ("lung", "skin"))),
    (Filter("age", True, "<", ("1e2",)),),
    (Filter("mpp", False, "<=", ("0.25",)),),
    (Filter("mpp", False, "=", ("",)),),
    (Filter("unknown", True, ">", ("1",)),),
    (Filter("unknown", True, "=", ("",)),),
    (Filter("id", False, "=", ("slide-07",)),),
    (Filter("site", False, "=", ("nowhere",)),),
)


def toy_records(codes: Codes) -> dict[str, SlideRecord]:
    """Make a record for each code: quotes, letters beyond ASCII, missing fields, and ages that are not numbers."""
    ages = ("59.5", "60", "1_0", "old", " 61 ", "nan", "inf", "")
    records = {}
    for number, code in enumerate(codes):
        free = {"age": ages[number % len(ages)], **({"Tumor Stage": "IV, b"} if number % 3 == 0 else {})}
        records[code.slide_id] = SlideRecord(
            code.slide_id,
            "",
            patient=f"p{number // 3}",
            site=("lung", "skin", "")[number % 3],
            label=('a "b"', "c", "")[number % 3],
            center=("Köln's", "", "B")[number // 2 % 3],
            mpp=(None, 0.25, 0.5)[number % 3],
            fields=free,
        )
    return records


def filters_equal_the_mask(make: Make) -> None:
    """`search_where` and `count_where` give the hits and the number of slides of the mask of the same filters."""
    for spec in _specs(make):
        codes, queries = toy_codes(spec), toy_codes(spec, seed=1, n=2, prefix="query")
        records = toy_records(codes)
        with _kept(make, codes, records) as index:
            fix = "save the version that was given to describe(), and return it after load()"
            require(index.described == VERSION, f"described {VERSION} after load()", repr(index.described), fix)
            for where in FILTERS:
                among = np.array([all(one(records[slide_id]) for one in where) for slide_id in index.ids], np.bool_)
                expected = search(index, queries[0], 25, among) + search(index, queries[1], 3, among)
                got = index.search_where(queries[0], 25, where) + index.search_where(queries[1], 3, where)
                fix = "compare as Filter itself does: a missing field is empty, other text than a number never passes"
                require_same_hits(expected, got, f"the hits of the mask for {where} ({spec})", fix)
                counted = index.count_where(where)
                require(counted == among.sum(), f"{among.sum()} slides to pass {where}", f"{counted}", fix)
            index.remove([codes[0].slide_id])
            fix = "return -1 once slides were added or removed: their records are not those of the catalogue"
            require(index.described == -1, "described -1 after a change", repr(index.described), fix)


def changed_records_are_saved(make: Make) -> None:
    """A second `describe` and `save` of the same codes changes what filters find."""
    spec = _specs(make)[0]
    codes = toy_codes(spec)
    where = [Filter("site", False, "=", ("moved",))]
    with _kept(make, codes, toy_records(codes)) as index, tempfile.TemporaryDirectory() as folder:
        moved = {**toy_records(codes), codes[5].slide_id: SlideRecord(codes[5].slide_id, "", site="moved")}
        index.describe(moved, VERSION + 1)
        index.save(Path(folder))
        again = make()
        again.load(Path(folder))
        hits = again.search_where(codes[0], 5, where)
        passed = [hit.slide_id for hit in hits] == [codes[5].slide_id] and again.described == VERSION + 1
        demand(passed, f"{hits}, described {again.described}", "compare the records with those saved, not codes alone")


def earlier_save_stays_readable(make: Make) -> None:
    """What was saved first can be searched, unchanged, after a second `save` to the same place."""
    spec = _specs(make)[0]
    codes = toy_codes(spec)
    with _kept(make, codes[:12]) as index, tempfile.TemporaryDirectory() as folder:
        before = search(index, codes[0], 25)
        changed = _loaded(make, index.folder)
        changed.remove([codes[0].slide_id, codes[7].slide_id])
        changed.add([Code(codes[7].slide_id, codes[1].rows), *codes[12:]])
        expected = search(changed, codes[0], 25)
        changed.save(Path(folder))
        fix = "keep replaced rows until the next save, and let a loaded index see only its own"
        require_same_hits(before, search(index, codes[0], 25), "the hits of the first save", fix)
        require_same_hits(before, search(_loaded(make, index.folder), codes[0], 25), "the first save, loaded", fix)
        again = _loaded(make, Path(folder))
        require_same_hits(expected, search(again, codes[0], 25), "the hits of the second save", fix)


def discarded_save_is_gone(make: Make) -> None:
    """`discard` deletes an older place of the same archive and engine, and nothing else."""
    spec = _specs(make)[0]
    codes = toy_codes(spec)
    with _kept(make, codes) as index, tempfile.TemporaryDirectory() as folder:
        other = make()
        other.add(codes[:3])
        place = f"slideseek_{uuid4().hex[:12]}_kit"  # of another archive
        other.settle(f"{place}_1")
        other.save(Path(folder))
        other.discard(index.folder)
        fix = "delete only what has the same name up to the last underscore"
        require(len(_loaded(make, index.folder).ids) == len(codes), "the other archive's codes", "none", fix)
        other.settle(f"{index.place.rpartition('_')[0]}_2")
        other.discard(index.folder)
        require_error(partial(_loaded, make, index.folder), (DamagedError,), "when a discarded save is loaded", fix)
        other.settle(f"{place}_0")
        other.discard(Path(folder))


class _Kept:
    """An index that was saved and loaded; it is used like the index itself."""

    def __init__(self, index: Any, folder: Path, place: str) -> None:
        self.index, self.folder, self.place = index, folder, place

    def __getattr__(self, name: str) -> Any:
        return getattr(self.index, name)


@contextmanager
def _kept(make: Make, codes: Sequence[Code], records: dict[str, SlideRecord] | None = None) -> Iterator[Any]:
    """Save codes under a new name, and yield the loaded index; what was saved is deleted in the end."""
    place = f"slideseek_{uuid4().hex[:12]}_kit_1"
    with tempfile.TemporaryDirectory() as folder:
        index = make()
        index.add(codes)
        index.settle(place)
        if records is not None:
            index.describe(records, VERSION)
        index.save(Path(folder))
        yield _Kept(_loaded(make, Path(folder)), Path(folder), place)
        index.settle(f"{place.rpartition('_')[0]}_0")
        index.discard(Path(folder))


def _loaded(make: Make, folder: Path) -> Any:
    index = make()
    index.load(folder)
    return index


def _specs(make: Make) -> list[CodeSpec]:
    """Return one accepted format of each kind: every check saves, which may take seconds on a server."""
    accepted = accepted_specs(make)
    return [spec for spec in accepted if spec.width == accepted[0].width]
