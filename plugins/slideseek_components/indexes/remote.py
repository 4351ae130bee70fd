"""An index whose codes are kept by servers or an object store: a list of shards, asked together.

What is saved is on the shards; slides added or removed since are held in memory, by the local exact index of the same
distance. A search asks every shard at once, and merges by distance and slide id: the answer is that of one exact index.
Nothing is written before `save`, so a search needs no right to write.
"""

from __future__ import annotations

import copy
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from slideseek.errors import DamagedError, SlideseekError, UnavailableError
from slideseek.interfaces import FiltersRows, KeptElsewhere, MeasuresRows, StatesExactness
from slideseek.types import Code, CodeSpec, Filter, Float32, Float64, Hit, Mask, SlideRecord, UInt8

from .cosine import Cosine
from .folder import HEADER, read_header, write_header
from .hamming import Hamming
from .median_of_minima import Direction
from .remote_parts import SPARSE_SHARE, LazyIds, Saved, enough, home_of, listed, local_index, record_of
from .shards import FIX, Near, Row, Seals, Shape, Shard, nearest, seal_code, seal_record, total_of
from .sparse import Sparse

Result = TypeVar("Result")

LISTED = 2000
"""Slide ids that are sent as a list. Beyond, more hits are asked for until enough of them are let in."""


@dataclass
class RemoteIndex(KeptElsewhere, FiltersRows, StatesExactness, MeasuresRows, ABC):
    """Keep codes on shards; a subclass says how a shard is reached, and what it accepts."""

    code_revision: ClassVar[int] = 1
    name: ClassVar[str]
    saved_: Saved | None = field(default=None, init=False, repr=False, compare=False)
    place_: str = field(default="", init=False, repr=False, compare=False)
    added_: dict[str, Code] = field(default_factory=dict, init=False, repr=False, compare=False)
    gone_: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    damaged_: tuple[str, ...] = field(default=(), init=False, repr=False, compare=False)
    records_: tuple[Mapping[str, SlideRecord], int] = field(default=({}, -1), init=False, repr=False, compare=False)
    ids_: LazyIds | None = field(default=None, init=False, repr=False, compare=False)
    local_: Any = field(default=None, init=False, repr=False, compare=False)

    @abstractmethod
    def shards_of(self, place: str) -> Sequence[Shard]:
        """Return the shards that keep what is named `place`; nothing is reached yet."""

    @property
    @abstractmethod
    def patience(self) -> float:
        """Seconds after which a shard that has not answered counts as down."""

    @property
    def taken_over(self) -> Direction:
        """Which set the median of minima is taken over."""
        return "query"

    @property
    def exact(self) -> bool:
        """Whether every search compares all candidates."""
        return True

    @property
    def distance_name(self) -> str:
        """What a distance is."""
        return "differing bits" if self._shape().kind == "bits" else "1 - cosine"

    def row_distances(self, query: UInt8 | Float32, target: UInt8 | Float32) -> Float64:
        """Return the distance of rows as the local exact index measures it: float64 (n, m)."""
        measure: MeasuresRows = Hamming() if query.dtype == np.uint8 else Cosine()
        return measure.row_distances(query, target)

    # Content

    @property
    def ids(self) -> Sequence[str]:
        """Slide ids, sorted; those on the shards are listed only when they are needed."""
        if self.ids_ is None:
            remote = self.saved_.slides - len(self.gone_) if self.saved_ else 0
            self.ids_ = LazyIds(remote + len(self.added_), lambda: sorted([*self._remote_ids(), *self.added_]))
        return self.ids_

    def _remote_ids(self) -> list[str]:
        saved = self.saved_
        if saved is None or not saved.slides:
            return []
        held = self._ask(saved.shards, lambda number, shard: shard.held(saved.tokens[number]))
        return [slide_id for one in held for slide_id in one if slide_id not in self.gone_]

    @property
    def nbytes(self) -> int:
        """Bytes of the codes, on the shards and here."""
        remote = self.saved_.nbytes if self.saved_ else 0
        return remote + sum(code.rows.nbytes for code in self.added_.values())

    @property
    def damaged(self) -> Sequence[str]:
        """Slides whose stored codes do not match their checksums."""
        return self.damaged_

    def add(self, codes: Sequence[Code]) -> None:
        """Add codes, all or none; they are kept in memory until `save`."""
        known = set(self.ids) if codes else set()
        for code in codes:
            if code.slide_id in known:
                raise SlideseekError(f"index {self.name!r}: slide {code.slide_id!r} is already in the index")
            known.add(code.slide_id)
        shape = self._shape(codes)
        for code in codes:
            self._check(code, shape)
        self.added_.update((code.slide_id, code) for code in codes)
        self._changed()

    def remove(self, slide_ids: Sequence[str]) -> None:
        """Remove slides, all or none; on the shards they stay until `save`."""
        known = set(self.ids) if slide_ids else set()
        for slide_id in slide_ids:
            if slide_id not in known:
                raise SlideseekError(f"index {self.name!r}: slide {slide_id!r} is not in the index")
            known.discard(slide_id)
        for slide_id in slide_ids:
            if self.added_.pop(slide_id, None) is None:
                self.gone_.add(slide_id)
        self._changed()

    def _changed(self) -> None:
        self.ids_, self.local_ = None, None

    def _shape(self, codes: Sequence[Code] = ()) -> Shape:
        """Return the format of the codes in the index, or of new ones if there are none."""
        if self.saved_ is not None and self.saved_.slides:
            return self.saved_.shape
        first = next(iter(self.added_.values()), codes[0] if codes else None)
        if first is None:
            return Shape("bits", 0, False)
        kind = "bits" if first.rows.dtype == np.uint8 else "float"
        return Shape(kind, first.rows.shape[1], False)

    def _check(self, code: Code, shape: Shape) -> None:
        rows = code.rows
        wrong = "" if len(rows) else "the code has no rows"
        if not wrong and rows.dtype != (np.uint8 if shape.kind == "bits" else np.float32):
            wrong = f"rows are {rows.dtype}, the index stores {shape.kind}"
        if not wrong and shape.columns and rows.shape[1] != shape.columns:
            wrong = f"rows have {rows.shape[1]} columns, the index has {shape.columns}"
        if not wrong and rows.dtype == np.float32 and not np.isfinite(rows).all():
            wrong = "rows have values that are not finite"
        if not wrong:
            many = "bits" if shape.kind == "bits" else "float"
            wrong = self.refuses(CodeSpec(many, 8 * rows.shape[1], many=True)) if len(rows) > 1 else ""  # type: ignore[arg-type]
        if wrong:
            raise SlideseekError(f"index {self.name!r}, code of slide {code.slide_id!r}: {wrong}", "encode it again")

    # Searching

    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        """Return at most k hits, nearest first, equal distances by slide id."""
        if among is None:
            return self._search(code, k, (), None)
        if len(among) != len(self.ids):
            raise ValueError(f"among: {len(among)} entries for {len(self.ids)} slides")
        let_in = [self.ids[row] for row in np.flatnonzero(among).tolist()]
        if len(let_in) == len(self.ids):
            return self._search(code, k, (), None)
        return self._search(code, k, (), frozenset(let_in)) if let_in else []

    def search_where(self, code: Code, k: int, where: Sequence[Filter]) -> list[Hit]:
        """Return the k nearest slides whose saved record passes all filters."""
        self._need_described()
        return self._search(code, k, where, None)

    def count_where(self, where: Sequence[Filter]) -> int:
        """Return how many slides have a saved record that passes all filters."""
        saved = self._need_described()
        return sum(self._ask(saved.shards, lambda number, shard: shard.count(where, saved.tokens[number])))

    def _need_described(self) -> Saved:
        if self.saved_ is None or self.described < 0:
            raise ValueError("filters need an index that was loaded and not changed since")
        return self.saved_

    def _search(self, code: Code, k: int, where: Sequence[Filter], let_in: frozenset[str] | None) -> list[Hit]:
        if k < 1:
            raise ValueError(f"k: at least 1, not {k}")
        self._check(code, self._shape([code]))
        found: Near = self._search_added(code, k, let_in)
        if (saved := self.saved_) is not None and saved.slides > len(self.gone_):
            conditions, passes = self._narrowed(where, let_in)

            def ask(number: int, shard: Shard) -> Near:
                return enough(
                    lambda count: shard.near(code, count, conditions, saved.tokens[number], self.taken_over), k, passes
                )

            for near in self._ask(saved.shards, ask):
                found.extend(near)
        return [Hit(slide_id, distance) for slide_id, distance in nearest(found, k)]

    def _narrowed(
        self, where: Sequence[Filter], let_in: frozenset[str] | None
    ) -> tuple[Sequence[Filter], Callable[[str], bool] | None]:
        """Return the filters for the shards, and what else a hit has to pass where a list of ids would be too long."""
        if let_in is None and len(self.gone_) <= LISTED:
            return (*where, *listed("not in", self.gone_)), None
        if let_in is None:
            return where, lambda slide_id: slide_id not in self.gone_
        if len(let_in) <= LISTED:
            return (*where, *listed("in", let_in - self.gone_ - self.added_.keys() or {""})), None
        left_out = len(self.ids) - len(let_in) + len(self.gone_)
        if left_out <= LISTED:
            return (*where, *listed("not in", {*self.ids}.union(self.gone_) - let_in)), None
        return where, let_in.__contains__

    def _search_added(self, code: Code, k: int, let_in: frozenset[str] | None) -> Near:
        """Search the slides that are not saved yet."""
        if not self.added_:
            return []
        if self.local_ is None:
            self.local_ = local_index(list(self.added_.values()))
        local = copy.copy(self.local_)
        if not isinstance(local, Sparse):
            local.direction = self.taken_over
        mask = None if let_in is None else np.fromiter((one in let_in for one in local.ids), bool, len(local.ids))
        return [(hit.slide_id, hit.distance) for hit in local.search(code, k, mask)]

    def _ask(self, shards: Sequence[Shard], question: Callable[[int, Shard], Result]) -> list[Result]:
        """Ask all shards at the same time; one that fails or is late is an error, never a shorter answer."""
        pool = ThreadPoolExecutor(len(shards), thread_name_prefix=f"slideseek-{self.name}")
        try:
            asked = [pool.submit(question, number, shard) for number, shard in enumerate(shards)]
            answers = []
            for shard, future in zip(shards, asked, strict=True):
                try:
                    answers.append(future.result(timeout=self.patience))
                except LateError as error:
                    raise UnavailableError(
                        f"{shard.name}: no answer in {self.patience:g} s", "check the server, or raise the time limit"
                    ) from error
            return answers
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    # Storage

    def settle(self, name: str) -> None:
        """Name the place where `save` writes."""
        self.place_ = name

    def describe(self, records: Mapping[str, SlideRecord], version: int) -> None:
        """Take the records of all slides, for the next `save`."""
        self.records_ = records, version

    @property
    def described(self) -> int:
        """Version of the saved records; -1 if slides were added or removed since."""
        return -1 if self.saved_ is None or self.added_ or self.gone_ else self.saved_.version

    def save(self, folder: Path) -> None:
        """Write what changed to the shards, and where it is to `folder`."""
        place = self.place_ or (self.saved_.name if self.saved_ else f"slideseek_{folder.name.strip('.')}")
        shape = self._final_shape()
        shards = self.shards_of(place)
        old, counted = self.saved_, len(shards)
        kept: dict[str, Seals] = {}
        if old is not None and old.slides:
            held = self._write(old.shards, lambda number, shard: shard.held(old.tokens[number]))
            kept = {name: seals for one in held for name, seals in one.items() if name not in self.gone_}
        records, version = self.records_
        if version < 0 and old is not None and not records:
            version = old.version if not self.added_ else -1
        wanted: list[dict[str, Seals]] = [{} for _ in shards]
        for slide_id, (code_seal, record_seal) in kept.items():
            record = records.get(slide_id)
            wanted[home_of(slide_id, counted)][slide_id] = (
                code_seal,
                record_seal if record is None else seal_record(record),
            )
        for slide_id, code in self.added_.items():
            seals = seal_code(slide_id, code.space, code.rows), seal_record(record_of(records, slide_id))
            wanted[home_of(slide_id, counted)][slide_id] = seals

        def write(number: int, shard: Shard) -> int:
            shard.prepare(shape)
            held, mine = shard.held(None), wanted[number]
            gone = [slide_id for slide_id, seals in held.items() if mine.get(slide_id) != seals]
            new = [slide_id for slide_id, seals in mine.items() if held.get(slide_id) != seals]
            same_place = old is not None and old.name == place
            rows = self._rows(new, mine, records)
            return shard.write(gone, rows, old.tokens[number] if old is not None and same_place else None)

        tokens = self._write(shards, write) if shape.columns else [0] * counted  # nothing was ever added
        everything = {slide_id: seals for mine in wanted for slide_id, seals in mine.items()}
        facts = {
            "place": place,
            "tokens": tokens,
            "shape": shape.facts(),
            "slides": len(everything),
            "total": total_of(everything.values()),
            "nbytes": self.nbytes,
            "records": version,
        }
        write_header(folder, self.name, facts, [])

    def _write(self, shards: Sequence[Shard], question: Callable[[int, Shard], Result]) -> list[Result]:
        """Ask shards one after the other, without a time limit: a load may take hours."""
        return [question(number, shard) for number, shard in enumerate(shards)]

    def _final_shape(self) -> Shape:
        shape, codes = self._shape(), self.added_.values()
        if self.saved_ is not None and self.saved_.slides:
            return shape
        many = any(len(code) > 1 for code in codes)
        if shape.kind == "bits" or not codes:
            return Shape(shape.kind, shape.columns, many)
        share = np.mean([np.count_nonzero(code.rows) / code.rows.size for code in list(codes)[:1000]])
        return Shape(shape.kind, shape.columns, many, bool(share < SPARSE_SHARE))

    def _rows(
        self, slide_ids: Sequence[str], seals: Mapping[str, Seals], records: Mapping[str, SlideRecord]
    ) -> Iterator[Row]:
        """Yield what is to be written; a code that only gets another record is read from where it was saved."""
        elsewhere: dict[int, list[str]] = {}
        for slide_id in slide_ids:
            code = self.added_.get(slide_id)
            if code is not None:
                yield Row(code, record_of(records, slide_id), seals[slide_id])
            elif self.saved_ is not None:
                elsewhere.setdefault(home_of(slide_id, len(self.saved_.shards)), []).append(slide_id)
        for number, names in elsewhere.items():
            saved = self.saved_
            if saved is None:
                continue
            for code in saved.shards[number].codes(names, saved.tokens[number]):
                if seal_code(code.slide_id, code.space, code.rows) != seals[code.slide_id][0]:
                    raise DamagedError(f"{saved.shards[number].name}: the code of {code.slide_id!r} is damaged", FIX)
                yield Row(code, record_of(records, code.slide_id), seals[code.slide_id])

    def load(self, folder: Path) -> None:
        """Find what `save` wrote, and check that the shards still hold it."""
        facts = read_header(folder, self.name)
        shards = self.shards_of(facts["place"])
        if len(shards) != len(facts["tokens"]):
            raise DamagedError(f"saved on {len(facts['tokens'])} shards, and {len(shards)} are configured", FIX)
        shape = Shape(*(facts["shape"][name] for name in ("kind", "columns", "many", "sparse")))

        def check(number: int, shard: Shard) -> Any:
            shard.check_shape(shard.open().facts(), shape)
            return shard.state(facts["tokens"][number])

        states = self._ask(shards, check) if facts["slides"] else []
        slides, total = sum(one.slides for one in states), sum(one.total for one in states) % 2**63
        if (slides, total) != (facts["slides"], facts["total"]):
            names = " and ".join(shard.name for shard in shards)
            what = f"{slides} slides, not {facts['slides']}" if slides != facts["slides"] else "other codes than saved"
            raise DamagedError(f"{names}, {facts['place']}: {what}", FIX)
        self.saved_ = Saved(
            facts["place"],
            shards,
            facts["tokens"],
            shape,
            slides,
            total,
            facts["nbytes"],
            facts["records"],
        )
        self.damaged_ = tuple(sorted(slide_id for one in states for slide_id in one.damaged))
        self.place_, self.added_, self.gone_ = facts["place"], {}, set()
        self._changed()

    def discard(self, folder: Path) -> None:
        """Delete the tables of an older save of this archive and engine, unless they are still in use."""
        try:
            place = str(json.loads((folder / HEADER).read_text(encoding="utf-8"))["place"])
        except (OSError, ValueError, KeyError, TypeError):
            return
        if place != self.place_ and place.rpartition("_")[0] == self.place_.rpartition("_")[0]:
            for shard in self.shards_of(place):
                shard.destroy()
