"""Indexes on disk: derived from the catalogue's codes, and brought up to date with them whenever they are opened.

A saved index is the codes of one generation. The catalogue lists the slides whose codes changed since; opening the
index removes those slides from it in memory and adds the codes they have now. So an index answers for the codes as they
are at that moment, a build leaves the files alone while the list is short, and nothing has to be undone after a crash.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from slideseek.archive.archive import Archive
from slideseek.archive.catalog import IndexRow, Payload
from slideseek.archive.files import replacing_folder
from slideseek.archive.payloads import unpack_code
from slideseek.archive.seals import broken_seal, seal_files
from slideseek.config import EngineConfig
from slideseek.digests import digest
from slideseek.engine import Engine, make_engine, recall_engine, signature
from slideseek.errors import DamagedError, one_line
from slideseek.indexing.stage_results import Ledger
from slideseek.interfaces import Index
from slideseek.plugins import Registry
from slideseek.types import Code

CHANGED_SHARE = 0.05
"""Changed slides, as a share of those saved, beyond which a build saves an index anew.

Bringing an index up to date takes about 40 microseconds a changed slide every time it is opened; saving it takes as
long as reading and writing all of it, once.
"""


@dataclass(frozen=True, slots=True)
class OpenIndex:
    """An index ready to search, and what a person should know about it."""

    index: Index
    notes: tuple[str, ...] = ()


def open_engine(archive: Archive, config: EngineConfig, registry: Registry) -> Engine:
    """Return an engine to search with: as it was last built, without importing its components, or made anew."""
    packed = archive.catalog.engine(config.name, signature(config, registry))
    return recall_engine(config, registry, packed) if packed else make_engine(config, registry)


def index_is_fresh(archive: Archive, engine: Engine, ledger: Ledger) -> bool:
    """Say whether an engine's saved index is of the present settings, so that opening it brings it up to date."""
    row = archive.catalog.index(engine.name)
    return row is not None and _usable(row, engine, ledger.settings(engine, "encode"))


def save_index(
    archive: Archive, engine: Engine, ledger: Ledger, note: Callable[[str], None], thorough: bool = False
) -> int:
    """See that an engine's saved index can be used, and save it anew if it is far behind; return its slides.

    An index whose files are not what was written is made anew; `thorough` reads them all to see that. Damaged codes are
    left out and dropped, so that the next build makes them again.
    """
    catalog = archive.catalog
    codes = ledger.settings(engine, "encode")
    row = catalog.index(engine.name)
    usable = row is not None and _usable(row, engine, codes)
    if row is not None and usable:
        changed = len(catalog.changes.since(codes, row.generation))
        soon = changed > CHANGED_SHARE * row.slides
        if broken := broken_seal(archive.root / row.folder, row.files, thorough or soon):
            note(f"the saved index of engine {engine.name!r} is damaged; it is made anew ({broken})")
            usable = False
        elif not soon:
            return row.slides if not changed else catalog.work.count("encode", codes)
    generation = catalog.changes.generation(codes)
    with _noting_warnings(note):
        index, damaged = _up_to_date(archive, engine, row) if row and usable else _from_codes(archive, engine, codes)
        if damaged:
            note(f"{len(damaged)} code(s) of engine {engine.name!r} are damaged: build again to make them anew")
            for key in damaged:
                ledger.drop(key)
        parent = archive.root / "index" / engine.name
        folder = parent / digest([engine.index_settings, codes, generation, len(damaged)])[:24]
        with replacing_folder(folder) as temporary:
            index.save(temporary)
    place, slides = str(folder.relative_to(archive.root)), len(index.ids)
    saved = IndexRow(
        engine.name, engine.index_settings, codes, generation, place, seal_files(folder), slides, index.nbytes
    )
    with catalog.transaction():
        catalog.put_index(saved)
    for old in parent.iterdir():
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)
    return slides


def open_index(archive: Archive, engine: Engine, ledger: Ledger) -> OpenIndex:
    """Open an engine's saved index and bring it up to date; if it cannot be used, take the codes and say so."""
    notes: list[str] = []
    with _noting_warnings(notes.append), archive.catalog.snapshot():
        row = archive.catalog.index(engine.name)
        codes = ledger.settings(engine, "encode")
        damaged: list[str] = []
        if row is None:
            reason = f"engine {engine.name!r} has no saved index yet"
        elif not _usable(row, engine, codes):
            reason = f"the saved index of engine {engine.name!r} is out of date"
        elif broken := broken_seal(archive.root / row.folder, row.files):
            reason = f"the saved index of engine {engine.name!r} cannot be used ({broken} is damaged)"
        else:
            try:
                index, damaged = _up_to_date(archive, engine, row)
                reason = ""
            except Exception as error:  # an index may raise anything over a damaged file
                reason = f"the saved index of engine {engine.name!r} cannot be used ({one_line(error)})"
        if reason:
            index, damaged = _from_codes(archive, engine, codes)
            notes.append(
                f"{reason}; the catalogue's codes were searched instead: run 'slideseek build' to save it anew"
            )
    if damaged:
        notes.append(f"{len(damaged)} code(s) are damaged and were left out: run 'slideseek build --verify'")
    return OpenIndex(index, tuple(notes))


def _usable(row: IndexRow, engine: Engine, codes: str) -> bool:
    return (row.settings, row.codes) == (engine.index_settings, codes)


def _up_to_date(archive: Archive, engine: Engine, row: IndexRow) -> tuple[Index, list[str]]:
    """Return a saved index with the changes since, and the keys of codes that are damaged."""
    catalog = archive.catalog
    index = engine.new_index()
    index.load(archive.root / row.folder)
    changed = catalog.changes.since(row.codes, row.generation)
    if not changed:
        return index, []
    held = set(index.ids)
    index.remove([slide_id for slide_id in changed if slide_id in held])
    sound, damaged = _unpacked(catalog.codes(row.codes, changed))
    index.add(sound)
    return index, damaged


def _from_codes(archive: Archive, engine: Engine, codes: str) -> tuple[Index, list[str]]:
    """Return an index of the catalogue's codes, and the keys of those that are damaged."""
    index = engine.new_index()
    sound, damaged = _unpacked(archive.catalog.codes(codes))
    index.add(sound)
    return index, damaged


def _unpacked(stored: Iterable[tuple[str, Payload]]) -> tuple[list[Code], list[str]]:
    """Return the codes that read back, and the keys of those that do not."""
    sound, damaged = [], []
    for slide_id, payload in stored:
        try:
            sound.append(unpack_code(payload, slide_id))
        except DamagedError:
            damaged.append(payload.key)
    return sound, damaged


@contextmanager
def _noting_warnings(note: Callable[[str], None]) -> Iterator[None]:
    """Hand on as notes what an index warns of, such as a low recall: people read notes, not Python's warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)):
        note(text)
