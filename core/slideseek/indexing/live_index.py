"""An engine's index, opened from disk and following its archive.

A saved index holds the codes of one generation. The catalogue lists the slides whose codes changed since. Opening the
index removes those slides from it in memory and adds their current codes. An open index is therefore always current, a
build need not rewrite the files while the list is short, and nothing has to be undone after a crash.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slideseek.archive.archive import Archive
from slideseek.archive.payloads import unpack_code
from slideseek.archive.records import IndexRow, Payload
from slideseek.archive.slide_table import SlideColumns
from slideseek.boundary import CheckedIndex
from slideseek.config import EngineConfig
from slideseek.digests import broken_seal
from slideseek.engine import Engine, make_engine, recall_engine, signature, unpack_resolved
from slideseek.errors import DamagedError, UnavailableError, one_line
from slideseek.indexing.stage_cache import StageCache
from slideseek.plugins import Kind, Registry
from slideseek.types import Code, Filter, Hit, Mask


@dataclass(frozen=True)
class Candidates:
    """The slides that pass all conditions. travel: the index takes these themselves, else the mask of them."""

    columns: SlideColumns
    conditions: tuple[Filter, ...]
    travel: bool = False

    @cached_property
    def mask(self) -> Mask:
        """Which slides of the index are candidates: bool (n,)."""
        among: Mask = np.ones(len(self.columns.ids), np.bool_)
        for condition in self.conditions:
            among &= self.columns.passing(condition)
        return among

    def count(self, index: CheckedIndex, *more: Filter) -> int:
        """Return how many candidates there are, or how many of them pass more conditions."""
        if self.travel:
            return index.count_where((*self.conditions, *more))
        return int(np.count_nonzero(np.logical_and.reduce([self.mask, *map(self.columns.passing, more)])))

    def search(self, index: CheckedIndex, code: Code, k: int) -> list[Hit]:
        """Return the k nearest candidates."""
        if self.travel:
            return index.search_where(code, k, self.conditions, self.columns.record)
        return index.search(code, k, None if self.mask.all() else self.mask)  # without a mask, the fastest path


class LiveIndex:
    """An engine's index, the columns of its slides, and notes about it.

    notes: on the currently open index. damaged: ids of slides whose record is damaged, so that no mask can be trusted
    to leave them out. slides: number of slides in the archive when it was opened.
    """

    index: CheckedIndex
    columns: SlideColumns

    def __init__(self, archive: Archive, engine: Engine, stages: StageCache) -> None:
        self._archive = archive
        self._engine = engine
        self._stages = stages
        self._codes: tuple[str, int] | None = None
        self._records = -1
        self.notes: tuple[str, ...] = ()
        self.damaged: tuple[str, ...] = ()
        self.slides = 0
        self.refresh()

    def refresh(self) -> bool:
        """Follow the catalogue if it has changed, and return whether it had; if not, this costs two SQL queries."""
        catalog = self._archive.catalog
        with catalog.snapshot():
            name = self._stages.settings_digest(self._engine, "encode")
            codes = name, catalog.changes.generation(name)
            records = catalog.changes.of_records()
            if (codes, records) == (self._codes, self._records):
                return False
            if codes != self._codes:
                self.index, self.notes = open_index(self._archive, self._engine, self._stages)
            if records != self._records:
                self.damaged = tuple(catalog.slides.damaged())
            self.columns = SlideColumns(catalog.slides, self.index.ids)
            self.slides = len(catalog.slides)
            self._codes, self._records = codes, records
            self._travel = self.index.described == records
        return True

    def candidates(self, conditions: Sequence[Filter]) -> Candidates:
        """Return the slides that pass all conditions, as the index takes them."""
        return Candidates(self.columns, tuple(conditions), self._travel)


def open_engine(archive: Archive, config: EngineConfig, registry: Registry) -> Engine:
    """Return an engine to search with: as last built, without importing its components, or newly made."""
    made = signature(config, registry)
    packed = archive.catalog.engine(config.name, made) if made else None
    return recall_engine(config, registry, packed) if packed else make_engine(config, registry)


def changed_makers(archive: Archive, engine: Engine) -> dict[Kind, str]:
    """Return, by kind, the plugins whose code has changed since the last build although their options have not.

    Their results, and all that depend on them, are not used until they are computed again.
    """
    packed = archive.catalog.last_engine(engine.name)
    if packed is None:
        return {}
    then, found = unpack_resolved(packed), dict[Kind, str]()
    for kind, now in engine.resolved.settings.items():
        before = then.settings.get(kind)
        if before is not None and before != now and _options(before) == _options(now):
            use, old, new = now["use"], then.makers.get(kind, "an older slideseek"), engine.resolved.makers[kind]
            found[kind] = f"{kind} {use!r} was {old}, and is now {new}"
    if readers := changed_readers(archive, engine):
        found["reader"] = "; ".join(readers)
    return found


def changed_readers(archive: Archive, engine: Engine) -> dict[str, list[str]]:
    """Return the slides whose pixels were read by other code than their reader has now, by what has changed.

    A slide whose reader is not installed keeps its results.
    """
    from slideseek.slides.reader import installed_readers

    read, found = archive.catalog.work.read_by((engine.select_digest, engine.feature_digest)), dict[str, list[str]]()
    now = {text.partition(" ")[0]: text for *_, text in installed_readers()[0]} if read else {}
    for slide_id, before in read:
        name, code, maker = before.split(" ", 2)
        _, code_now, maker_now = now.get(name, before).split(" ", 2)
        if code_now != code:
            found.setdefault(f"reader {name!r} was {maker}, and is now {maker_now}", []).append(slide_id)
    return found


def _options(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in ("made_by", "fingerprint")}


def index_is_fresh(archive: Archive, engine: Engine, stages: StageCache) -> bool:
    """Return whether an engine's saved index has the current settings, so opening it brings it up to date."""
    row = archive.catalog.index(engine.name)
    return row is not None and is_usable(row, engine, stages.settings_digest(engine, "encode"))


def open_index(archive: Archive, engine: Engine, stages: StageCache) -> tuple[CheckedIndex, tuple[str, ...]]:
    """Open an engine's saved index and bring it up to date; return it with notes.

    An index that cannot be used is replaced, in memory, by one built from the catalogue's codes.
    """
    notes: list[str] = []
    with noting_warnings(notes.append), archive.catalog.snapshot():
        row = archive.catalog.index(engine.name)
        codes = stages.settings_digest(engine, "encode")
        damaged: list[str] = []
        if row is None:
            reason = f"engine {engine.name!r} has no saved index yet"
        elif not is_usable(row, engine, codes):
            reason = f"the saved index of engine {engine.name!r} is out of date"
        elif broken := broken_seal(archive.root / row.folder, row.files):
            reason = f"the saved index of engine {engine.name!r} cannot be used ({broken} is damaged)"
        else:
            try:
                index, damaged = up_to_date(archive, engine, row)
                reason = ""
            except UnavailableError:
                raise
            except Exception as error:  # an index may raise anything on a damaged file
                reason = f"the saved index of engine {engine.name!r} cannot be used ({one_line(error)})"
        if reason:
            index, damaged = from_codes(archive, engine, codes)
            notes.append(
                f"{reason}; the catalogue's codes were searched instead: run 'slideseek build' to save it again"
            )
    if damaged:
        notes.append(f"{len(damaged)} code(s) are damaged and were left out: run 'slideseek build --verify'")
    return index, tuple(notes)


def is_usable(row: IndexRow, engine: Engine, codes: str) -> bool:
    return (row.settings, row.codes) == (engine.index_digest, codes)


def up_to_date(archive: Archive, engine: Engine, row: IndexRow) -> tuple[CheckedIndex, list[str]]:
    """Return a saved index with all changes since applied, and the keys of damaged codes."""
    catalog = archive.catalog
    index = engine.new_index()
    index.load(archive.root / row.folder)
    if len(index.ids) != row.slides:
        raise index.owner.wrong(f"lists {len(index.ids)} slides after load(), and was saved with {row.slides}")
    changed = catalog.changes.since(row.codes, row.generation)
    if broken := index.damaged:
        changed = sorted({*changed, *broken})
        warnings.warn(f"damaged in the index, taken from the catalogue: {', '.join(broken)}", stacklevel=2)
    if not changed:
        return index, []
    held = set(index.ids)
    index.remove([slide_id for slide_id in changed if slide_id in held])
    sound, damaged = _unpacked(catalog.codes(row.codes, changed))
    index.add(sound)
    return index, damaged


def from_codes(archive: Archive, engine: Engine, codes: str) -> tuple[CheckedIndex, list[str]]:
    """Return an index built from the catalogue's codes, and the keys of damaged codes."""
    index = engine.new_index()
    sound, damaged = _unpacked(archive.catalog.codes(codes))
    index.add(sound)
    return index, damaged


def _unpacked(stored: Iterable[tuple[str, Payload]]) -> tuple[list[Code], list[str]]:
    """Return the codes that can be read, and the keys of those that cannot."""
    sound, damaged = [], []
    for slide_id, payload in stored:
        try:
            sound.append(unpack_code(payload, slide_id))
        except DamagedError:
            damaged.append(payload.key)
    return sound, damaged


@contextmanager
def noting_warnings(note: Callable[[str], None]) -> Iterator[None]:
    """Turn an index's warnings, such as a low recall, into notes: users read notes, not Python warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)):
        note(text)
