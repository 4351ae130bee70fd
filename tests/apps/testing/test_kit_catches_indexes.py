"""Each check of an index passes correct toys and catches one made wrong on purpose."""

import itertools
import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np
import pytest

from slideseek.errors import DamagedError, SlideseekError
from slideseek.interfaces import BatchIndex, FiltersRows, Fingerprinted, KeptElsewhere, MeasuresSets, StatesExactness
from slideseek.types import Code, CodeSpec, Filter, Float64, Hit, Mask, SlideRecord
from slideseek_apps.testing import CheckFailed, index_checks


def apart(query: np.ndarray, target: np.ndarray) -> Float64:
    """Differing bits, or the sum of absolute differences, of every query row to every target row."""
    if query.dtype == np.uint8:
        return np.asarray(np.unpackbits(query[:, None] ^ target[None], axis=2).sum(axis=2), np.float64)
    return np.asarray(np.abs(query[:, None].astype(np.float64) - target[None]).sum(axis=2))


@dataclass
class Nearest:
    """Median of minimum distances by brute force, for whatever kind of code it is.

    kinds: those it accepts.
    """

    kinds: tuple[str, ...] = ("bits", "float", "sparse")
    codes_: list[Code] = field(default_factory=list, init=False, repr=False, compare=False)

    def refuses(self, spec: CodeSpec) -> str:
        return "" if spec.kind in self.kinds else f"it holds {', '.join(self.kinds)} codes, not {spec}"

    @property
    def ids(self) -> list[str]:
        return [code.slide_id for code in self.codes_]

    @property
    def nbytes(self) -> int:
        return sum(code.nbytes for code in self.codes_)

    def add(self, codes: Sequence[Code]) -> None:
        ids = self.ids + [code.slide_id for code in codes]
        if len(set(ids)) < len(ids):
            raise SlideseekError("a slide id twice")
        self.codes_ = [*self.codes_, *codes]

    def remove(self, slide_ids: Sequence[str]) -> None:
        if unknown := set(slide_ids) - set(self.ids):
            raise SlideseekError(f"not in the index: {unknown}")
        self.codes_ = [code for code in self.codes_ if code.slide_id not in slide_ids]

    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        if k < 1:
            raise ValueError(f"k: at least 1, not {k}")
        if among is not None and among.shape != (len(self.codes_),):
            raise ValueError("among: one entry a slide")
        hits = [
            Hit(other.slide_id, self.distance(code, other))
            for position, other in enumerate(self.codes_)
            if (among is None or among[position]) and other.space == code.space
        ]
        return self.ranked(hits, k)

    def ranked(self, hits: list[Hit], k: int) -> list[Hit]:
        return sorted(hits, key=lambda hit: (hit.distance, hit.slide_id))[:k]

    def distance(self, a: Code, b: Code) -> float:
        return float(np.median(apart(a.rows, b.rows).min(axis=1)))

    def save(self, folder: Path) -> None:
        np.savez(folder / "rows.npz", *(code.rows for code in self.codes_))
        names = [(code.slide_id, code.space) for code in self.codes_]
        (folder / "names.json").write_text(json.dumps(names))

    def load(self, folder: Path) -> None:
        names = json.loads((folder / "names.json").read_text())
        with np.load(folder / "rows.npz") as rows:
            self.codes_ = [Code(name, rows[f"arr_{i}"], space) for i, (name, space) in enumerate(names)]


@dataclass
class OnlyBits(Nearest):
    kinds: tuple[str, ...] = ("bits",)


@dataclass
class NearestSets(Nearest, MeasuresSets, BatchIndex, StatesExactness):
    """The same with every capability an index may have."""

    @property
    def distance_name(self) -> str:
        return "differing bits"

    @property
    def exact(self) -> bool:
        return True

    def row_distances(self, query: np.ndarray, target: np.ndarray) -> Float64:
        return apart(query, target)

    def search_many(self, codes: Sequence[Code], k: int, among: Mask | None = None) -> list[list[Hit]]:
        return [self.search(code, k, among) for code in codes]

    def set_distance(self, between: Float64) -> float:
        return float(np.median(between.min(axis=1)))


@dataclass
class FewCompared(Nearest):
    """The nearest of some codes.

    effort: how many of them are compared.
    """

    effort: int = field(default=1000, metadata={"at_query": True})

    def ranked(self, hits: list[Hit], k: int) -> list[Hit]:
        return Nearest.ranked(self, hits[: self.effort], k)


@dataclass
class StoresTheQueryOption(FewCompared):
    """Saves only the codes that are compared."""

    effort: int = field(default=6, metadata={"at_query": True})

    def save(self, folder: Path) -> None:
        kept, self.codes_ = self.codes_, self.codes_[: self.effort]
        Nearest.save(self, folder)
        self.codes_ = kept


@dataclass
class RemembersTheQueryOption(FewCompared):
    """Shares a list with its tuned copies, and keeps there how it was searched first."""

    effort: int = field(default=6, metadata={"at_query": True})
    first_: list[int] = field(default_factory=list, init=False, repr=False, compare=False)

    def ranked(self, hits: list[Hit], k: int) -> list[Hit]:
        self.first_.append(self.effort)
        return Nearest.ranked(self, hits[: self.first_[0]], k)


@dataclass
class NamelessDistance(NearestSets):
    @property
    def distance_name(self) -> str:
        return ""


@dataclass
class SquaredRowDistances(NearestSets):
    def row_distances(self, query: np.ndarray, target: np.ndarray) -> Float64:
        return apart(query, target) ** 2


@dataclass
class RowsTheOtherWay(NearestSets):
    def row_distances(self, query: np.ndarray, target: np.ndarray) -> Float64:
        return apart(target, query)


@dataclass
class BatchIgnoresTheMask(NearestSets):
    def search_many(self, codes: Sequence[Code], k: int, among: Mask | None = None) -> list[list[Hit]]:
        return [self.search(code, k) for code in codes]


@dataclass
class BatchOfTheFirst(NearestSets):
    def search_many(self, codes: Sequence[Code], k: int, among: Mask | None = None) -> list[list[Hit]]:
        return [self.search(codes[0], k, among) for _ in codes]


@dataclass
class BatchOfNoneFails(NearestSets):
    def search_many(self, codes: Sequence[Code], k: int, among: Mask | None = None) -> list[list[Hit]]:
        return NearestSets.search_many(self, codes, k, among) or [[]]


@dataclass
class ExactInWords(NearestSets):
    @property
    def exact(self) -> Any:
        return "yes"


@dataclass
class LyingExactness(NearestSets):
    """Looks at every other candidate."""

    def ranked(self, hits: list[Hit], k: int) -> list[Hit]:
        return Nearest.ranked(self, hits[::2], k)


@dataclass
class MetadataInWords(Nearest):
    """The nearest codes. effort: how many to look at."""

    effort: int = field(default=8, metadata={"at_query": "yes"})


@dataclass
class Undescribed(Nearest):
    """The nearest codes."""

    lists: int = 4


class NoSearch:
    def refuses(self, spec: CodeSpec) -> str:
        return ""


class NotADataclass:
    def __init__(self) -> None:
        self.codes_: list[Code] = []
        self.kinds = ("bits",)

    refuses, add, remove, search = Nearest.refuses, Nearest.add, Nearest.remove, Nearest.search
    ids, nbytes, ranked, distance = Nearest.ids, Nearest.nbytes, Nearest.ranked, Nearest.distance
    save, load = Nearest.save, Nearest.load


@dataclass
class CodesInTheOptions(Nearest):
    codes_: list[Code] = field(default_factory=list, init=False, repr=True, compare=True)


@dataclass(eq=False)
class NeverEqual(Nearest):
    __eq__ = object.__eq__


@dataclass
class RefusesInSilence(OnlyBits):
    def refuses(self, spec: CodeSpec) -> Any:
        return "" if spec.kind == "bits" else None


@dataclass
class RefusesEverything(Nearest):
    kinds: tuple[str, ...] = ()


@dataclass
class Similarity(Nearest):
    def distance(self, a: Code, b: Code) -> float:
        return 1 / (1 + Nearest.distance(self, a, b))


@dataclass
class FarthestFirst(Nearest):
    def ranked(self, hits: list[Hit], k: int) -> list[Hit]:
        nearest = Nearest.ranked(self, hits, k)
        return nearest[:1] + nearest[:0:-1]


@dataclass
class NegativeDistances(Nearest):
    def ranked(self, hits: list[Hit], k: int) -> list[Hit]:
        return [replace(hit, distance=hit.distance - 100) for hit in Nearest.ranked(self, hits, k)]


@dataclass
class TuplesForHits(Nearest):
    def search(self, code: Code, k: int, among: Mask | None = None) -> Any:
        return [(hit.slide_id, hit.distance) for hit in Nearest.search(self, code, k, among)]


@dataclass
class LosesTheLast(Nearest):
    """Builds its structure when searched first and forgets the last code."""

    def ranked(self, hits: list[Hit], k: int) -> list[Hit]:
        return Nearest.ranked(self, hits[:-1] if len(hits) > 15 else hits, k)


@dataclass
class CrashesBeyondItsSize(Nearest):
    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        hits = Nearest.search(self, code, k, among)
        return [hits[i] for i in range(k)]


@dataclass
class FillsUpToK(Nearest):
    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        hits = Nearest.search(self, code, k, among)
        return hits + [Hit(f"-{n}", float("inf")) for n in range(k - len(hits))]


@dataclass
class ApproximateWhenSmall(Nearest):
    """Looks at every other candidate when few hits are wanted."""

    def ranked(self, hits: list[Hit], k: int) -> list[Hit]:
        return Nearest.ranked(self, hits if k > 8 else hits[::2], k)


@dataclass
class AcceptsZero(Nearest):
    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        return Nearest.search(self, code, max(k, 1), among)[: max(k, 0)]


@dataclass
class TiesByPosition(Nearest):
    def ranked(self, hits: list[Hit], k: int) -> list[Hit]:
        return sorted(hits, key=lambda hit: hit.distance)[:k]


@dataclass
class TiesCutByPosition(Nearest):
    """Orders ties by id, but only among the k it took by position."""

    def ranked(self, hits: list[Hit], k: int) -> list[Hit]:
        return Nearest.ranked(self, sorted(hits, key=lambda hit: hit.distance)[:k], k)


@dataclass
class IgnoresTheMask(Nearest):
    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        return Nearest.search(self, code, k, None)


@dataclass
class MasksAfterTheCut(Nearest):
    """Takes the 10 nearest first and then drops those the mask leaves out."""

    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        hits = Nearest.search(self, code, k, None)
        if among is None:
            return hits
        kept = {slide_id for slide_id, chosen in zip(self.ids, among) if chosen}
        return [hit for hit in hits[:10] if hit.slide_id in kept]


@dataclass
class EmptyMaskIsNoMask(Nearest):
    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        return Nearest.search(self, code, k, among if among is not None and among.any() else None)


@dataclass
class StretchesTheMask(Nearest):
    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        return Nearest.search(self, code, k, None if among is None else np.resize(among, len(self.codes_)))


@dataclass
class MixesSpaces(Nearest):
    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        if k < 1 or (among is not None and len(among) != len(self.codes_)):
            raise ValueError("k or among")
        chosen = self.codes_ if among is None else list(itertools.compress(self.codes_, among))
        return self.ranked([Hit(other.slide_id, self.distance(code, other)) for other in chosen], k)


@dataclass
class MeanOfMinima(NearestSets):
    """Says another rule than the one it searches by."""

    def set_distance(self, between: Float64) -> float:
        return float(between.min(axis=1).mean())


@dataclass
class QueryAndTargetSwapped(NearestSets):
    def set_distance(self, between: Float64) -> float:
        return NearestSets.set_distance(self, between.T)


@dataclass
class ArrayForADistance(NearestSets):
    def set_distance(self, between: Float64) -> Any:
        return np.median(between.min(axis=1), keepdims=True)


@dataclass
class EmptyIsAnError(Nearest):
    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        if not self.codes_:
            raise SlideseekError("nothing to search")
        return Nearest.search(self, code, k, among)


@dataclass
class ClearsTheMask(Nearest):
    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        hits = Nearest.search(self, code, k, among)
        if among is not None:
            among[:] = False
        return hits


@dataclass
class RemembersQueries(Nearest):
    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        hits = Nearest.search(self, code, k, among)
        if code.slide_id not in self.ids:
            self.codes_ = [*self.codes_, code]
        return hits


@dataclass
class OneIdARow(Nearest):
    @property
    def ids(self) -> list[str]:
        return [code.slide_id for code in self.codes_ for _ in code.rows]


@dataclass
class FrozenAfterSearch(Nearest):
    """Builds its structure at the first search and never looks at codes added later."""

    built_: list[Code] | None = field(default=None, init=False, repr=False, compare=False)

    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        if self.built_ is None and self.codes_:
            self.built_ = self.codes_
        held, self.codes_ = self.codes_, self.built_ or []
        hits = Nearest.search(self, code, k, None if among is None else among[: len(self.codes_)])
        self.codes_ = held
        return hits


@dataclass
class DuplicatesWelcome(Nearest):
    def add(self, codes: Sequence[Code]) -> None:
        self.codes_ = [*self.codes_, *codes]


@dataclass
class DuplicatesInOneCall(Nearest):
    def add(self, codes: Sequence[Code]) -> None:
        if {code.slide_id for code in codes} & set(self.ids):
            raise SlideseekError("a slide id twice")
        self.codes_ = [*self.codes_, *codes]


@dataclass
class RemovesTheIdOnly(Nearest):
    gone_: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def remove(self, slide_ids: Sequence[str]) -> None:
        if set(slide_ids) - set(self.ids):
            raise SlideseekError("unknown")
        self.gone_ |= set(slide_ids)

    def ranked(self, hits: list[Hit], k: int) -> list[Hit]:
        return Nearest.ranked(self, hits, k + len(self.gone_))[:k]


@dataclass
class RemovesWhatItCan(Nearest):
    def remove(self, slide_ids: Sequence[str]) -> None:
        for slide_id in slide_ids:
            Nearest.remove(self, [slide_id])


@dataclass
class UnknownIsFine(Nearest):
    def remove(self, slide_ids: Sequence[str]) -> None:
        Nearest.remove(self, [slide_id for slide_id in slide_ids if slide_id in self.ids])


@dataclass
class ConstantBytes(Nearest):
    @property
    def nbytes(self) -> int:
        return 4096


@dataclass
class ForgetsSpaces(Nearest):
    def load(self, folder: Path) -> None:
        Nearest.load(self, folder)
        self.codes_ = [replace(code, space="") for code in self.codes_]


@dataclass
class LoadsInAnotherOrder(Nearest):
    def load(self, folder: Path) -> None:
        Nearest.load(self, folder)
        self.codes_ = self.codes_[::-1]


@dataclass
class FrozenAfterLoad(Nearest):
    loaded_: bool = field(default=False, init=False, repr=False, compare=False)

    def load(self, folder: Path) -> None:
        Nearest.load(self, folder)
        self.loaded_ = bool(self.codes_)

    def add(self, codes: Sequence[Code]) -> None:
        if self.loaded_:
            raise SlideseekError("a loaded index is read-only")
        Nearest.add(self, codes)


@dataclass
class EmptyCannotBeSaved(Nearest):
    def save(self, folder: Path) -> None:
        np.concatenate([code.rows for code in self.codes_])
        Nearest.save(self, folder)


@dataclass
class Pickles(Nearest):
    def save(self, folder: Path) -> None:
        (folder / "codes.bin").write_bytes(pickle.dumps([(c.slide_id, c.rows, c.space) for c in self.codes_]))

    def load(self, folder: Path) -> None:
        self.codes_ = [Code(*parts) for parts in pickle.loads((folder / "codes.bin").read_bytes())]


@dataclass
class ObjectsInAnArchive(Nearest):
    def save(self, folder: Path) -> None:
        rows = np.empty(len(self.codes_), dtype=object)
        rows[:] = [code.rows for code in self.codes_]
        np.savez(folder / "codes.npz", rows=rows, allow_pickle=True)
        Nearest.save(self, folder)


@dataclass
class NewFingerprint(Nearest, Fingerprinted):
    def fingerprint(self) -> str:
        return f"made at {id(self)}"


@dataclass
class Elsewhere(OnlyBits, KeptElsewhere, FiltersRows):
    """Keeps its codes and records in a dictionary, as on a server; a save is kept until it is discarded."""

    server: ClassVar[dict[str, dict[str, Any]]] = {}
    place_: str = field(default="", init=False, repr=False, compare=False)
    records_: dict[str, SlideRecord] = field(default_factory=dict, init=False, repr=False, compare=False)
    described_: int = field(default=-1, init=False, repr=False, compare=False)

    def settle(self, name: str) -> None:
        self.place_ = name

    @property
    def damaged(self) -> Sequence[str]:
        return []

    def new_name(self) -> str:
        return uuid4().hex

    def save(self, folder: Path) -> None:
        name, place = self.new_name(), self.place_ or "slideseek_toy_1"
        self.server.setdefault(place, {})[name] = list(self.codes_), dict(self.records_), self.described_
        (folder / "where.json").write_text(json.dumps([place, name]))

    def load(self, folder: Path) -> None:
        place, name = json.loads((folder / "where.json").read_text())
        if name not in self.server.get(place, {}):
            raise DamagedError("the save is gone")
        codes, records, version = self.server[place][name]
        self.codes_, self.records_, self.described_, self.place_ = list(codes), dict(records), version, place

    def add(self, codes: Sequence[Code]) -> None:
        super().add(codes)
        self.described_ = -1

    def remove(self, slide_ids: Sequence[str]) -> None:
        super().remove(slide_ids)
        self.described_ = -1

    def discard(self, folder: Path) -> None:
        place, _ = json.loads((folder / "where.json").read_text())
        if place != self.place_ and place.rpartition("_")[0] == self.place_.rpartition("_")[0]:
            self.server.pop(place, None)

    def describe(self, records: Mapping[str, SlideRecord], version: int) -> None:
        self.records_, self.described_ = dict(records), version

    @property
    def described(self) -> int:
        return self.described_

    def passing(self, where: Sequence[Filter]) -> Mask:
        return np.array([all(one(self.records_[name]) for one in where) for name in self.ids], np.bool_)

    def search_where(self, code: Code, k: int, where: Sequence[Filter]) -> list[Hit]:
        return self.search(code, k, self.passing(where))

    def count_where(self, where: Sequence[Filter]) -> int:
        return int(self.passing(where).sum())


class FiltersNothing(Elsewhere):
    def passing(self, where: Sequence[Filter]) -> Mask:
        return np.ones(len(self.ids), np.bool_)


class KeepsTheFirstRecords(Elsewhere):
    def describe(self, records: Mapping[str, SlideRecord], version: int) -> None:
        if not self.records_:
            super().describe(records, version)


class WritesOverTheFirstSave(Elsewhere):
    def new_name(self) -> str:
        return "the only one"


class DiscardsEverything(Elsewhere):
    def discard(self, folder: Path) -> None:
        self.server.clear()


class DiscardsNothing(Elsewhere):
    def discard(self, folder: Path) -> None:
        pass


CORRECT = (Nearest, OnlyBits, NearestSets, FewCompared, Elsewhere)

BROKEN = (
    (NewFingerprint, "fingerprint_is_stable"),
    (NoSearch, "interface_is_complete"),
    (Undescribed, "options_are_described"),
    (MetadataInWords, "declarations_are_well_formed"),
    (StoresTheQueryOption, "query_options_store_nothing"),
    (RemembersTheQueryOption, "query_options_store_nothing"),
    (NamelessDistance, "row_distances_are_those_of_search"),
    (SquaredRowDistances, "row_distances_are_those_of_search"),
    (RowsTheOtherWay, "row_distances_are_those_of_search"),
    (BatchIgnoresTheMask, "batch_equals_one_by_one"),
    (BatchOfTheFirst, "batch_equals_one_by_one"),
    (BatchOfNoneFails, "batch_equals_one_by_one"),
    (ExactInWords, "exact_hits_are_the_nearest"),
    (LyingExactness, "exact_hits_are_the_nearest"),
    (NotADataclass, "options_are_fields"),
    (CodesInTheOptions, "options_are_fields"),
    (NeverEqual, "options_round_trip"),
    (RefusesInSilence, "refusals_give_a_reason"),
    (RefusesEverything, "refusals_give_a_reason"),
    (Similarity, "slides_find_themselves"),
    (TuplesForHits, "slides_find_themselves"),
    (FarthestFirst, "distances_ascend"),
    (NegativeDistances, "distances_ascend"),
    (LosesTheLast, "large_k_gives_every_slide"),
    (LosesTheLast, "slides_find_themselves"),
    (CrashesBeyondItsSize, "large_k_gives_every_slide"),
    (FillsUpToK, "large_k_gives_every_slide"),
    (ApproximateWhenSmall, "small_k_gives_the_first_hits"),
    (AcceptsZero, "k_below_one_is_refused"),
    (TiesByPosition, "ties_are_ordered_by_id"),
    (TiesCutByPosition, "ties_are_ordered_by_id"),
    (IgnoresTheMask, "mask_is_obeyed"),
    (MasksAfterTheCut, "mask_is_obeyed"),
    (EmptyMaskIsNoMask, "empty_mask_gives_no_hits"),
    (StretchesTheMask, "mask_of_wrong_length_is_refused"),
    (MixesSpaces, "spaces_are_kept_apart"),
    (MeanOfMinima, "set_distance_is_that_of_search"),
    (QueryAndTargetSwapped, "set_distance_is_that_of_search"),
    (ArrayForADistance, "set_distance_is_that_of_search"),
    (EmptyIsAnError, "empty_index_gives_no_hits"),
    (ClearsTheMask, "searching_changes_nothing"),
    (RemembersQueries, "searching_changes_nothing"),
    (OneIdARow, "ids_name_every_slide"),
    (FrozenAfterSearch, "order_of_adding_does_not_matter"),
    (DuplicatesWelcome, "duplicate_id_is_refused"),
    (DuplicatesInOneCall, "duplicate_id_is_refused"),
    (RemovesTheIdOnly, "removed_slides_are_gone"),
    (RemovesWhatItCan, "unknown_removal_is_refused"),
    (UnknownIsFine, "unknown_removal_is_refused"),
    (ConstantBytes, "nbytes_grows"),
    (ForgetsSpaces, "saved_index_searches_alike"),
    (LoadsInAnotherOrder, "saved_index_searches_alike"),
    (FrozenAfterLoad, "loaded_index_can_be_changed"),
    (EmptyCannotBeSaved, "empty_index_can_be_saved"),
    (Pickles, "index_files_hold_no_pickle"),
    (ObjectsInAnArchive, "index_files_hold_no_pickle"),
    (FiltersNothing, "filters_equal_the_mask"),
    (KeepsTheFirstRecords, "changed_records_are_saved"),
    (WritesOverTheFirstSave, "earlier_save_stays_readable"),
    (DiscardsEverything, "discarded_save_is_gone"),
    (DiscardsNothing, "discarded_save_is_gone"),
)


@pytest.mark.parametrize(
    ("index", "check"), list(itertools.product(CORRECT, index_checks())), ids=lambda value: value.__name__
)
def test_correct_index_passes(index: type, check: Callable[..., None]) -> None:
    check(index)


@pytest.mark.parametrize(("index", "check"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_broken_index_is_caught(index: type, check: str) -> None:
    named = next(c for c in index_checks() if c.__name__ == check)
    with pytest.raises(CheckFailed):
        named(index)


def test_every_check_is_proven_to_catch_something() -> None:
    assert {name for _, name in BROKEN} == {check.__name__ for check in index_checks()}
