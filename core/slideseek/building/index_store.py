"""Indexes on disk: derived from the catalogue's codes, and known to be fresh or not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass

from slideseek.archive.archive import Archive
from slideseek.archive.catalog import IndexRow
from slideseek.archive.files import replacing_folder, sha256_files
from slideseek.archive.payloads import unpack_code
from slideseek.building.ledger import Ledger
from slideseek.config import EngineConfig
from slideseek.engine import Engine, make_engine, recall_engine, signature
from slideseek.errors import DamagedError, one_line
from slideseek.interfaces import Index
from slideseek.keys import digest
from slideseek.plugins import Registry


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
    """Say whether an engine's saved index is of the present settings and codes."""
    row = archive.catalog.index(engine.name)
    codes = ledger.settings(engine, "encode")
    current = (engine.index_settings, codes, archive.catalog.generation(codes))
    return row is not None and (row.settings, row.codes, row.generation) == current


def save_index(archive: Archive, engine: Engine, ledger: Ledger, note: Callable[[str], None]) -> IndexRow:
    """Bring an engine's saved index up to date with the catalogue; return its row.

    An index whose files are not what was written is made anew. Damaged codes are left out and dropped, so that the
    next build makes them again.
    """
    catalog = archive.catalog
    row = catalog.index(engine.name)
    if row is not None and index_is_fresh(archive, engine, ledger):
        if sha256_files(archive.root / row.folder) == row.files:
            return row
        note(f"the saved index of engine {engine.name!r} is damaged; it is made anew")
    codes = ledger.settings(engine, "encode")
    generation = catalog.generation(codes)
    index, damaged = _from_codes(archive, engine, codes)
    if damaged:
        note(f"{len(damaged)} code(s) of engine {engine.name!r} are damaged: build again to make them anew")
        for key in damaged:
            ledger.drop(key)
    parent = archive.root / "index" / engine.name
    folder = parent / digest([engine.index_settings, codes, generation, len(damaged)])[:24]
    with replacing_folder(folder) as temporary:
        index.save(temporary)
    place, files = str(folder.relative_to(archive.root)), sha256_files(folder)
    row = IndexRow(engine.name, engine.index_settings, codes, generation, place, files, len(index.ids), index.nbytes)
    with catalog.transaction():
        catalog.put_index(row)
    for old in parent.iterdir():
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)
    return row


def open_index(archive: Archive, engine: Engine, ledger: Ledger) -> OpenIndex:
    """Open an engine's saved index; if it is out of date or damaged, use the catalogue's codes and say so."""
    row = archive.catalog.index(engine.name)
    if row is None:
        reason = f"engine {engine.name!r} has no saved index yet"
    elif not index_is_fresh(archive, engine, ledger):
        reason = f"the saved index of engine {engine.name!r} is out of date"
    else:
        index = engine.new_index()
        try:
            index.load(archive.root / row.folder)
            return OpenIndex(index)
        except Exception as error:  # an index may raise anything over a damaged file
            reason = f"the saved index of engine {engine.name!r} cannot be used ({one_line(error)})"
    index, damaged = _from_codes(archive, engine, ledger.settings(engine, "encode"))
    notes = [f"{reason}; the catalogue's codes were searched instead: run 'slideseek build' to save it anew"]
    if damaged:
        notes.append(f"{len(damaged)} code(s) are damaged and were left out: run 'slideseek build'")
    return OpenIndex(index, tuple(notes))


def _from_codes(archive: Archive, engine: Engine, codes: str) -> tuple[Index, list[str]]:
    """Return an index of the catalogue's codes, and the keys of those that are damaged."""
    index = engine.new_index()
    sound, damaged = [], []
    for slide_id, payload in archive.catalog.codes(codes):
        try:
            sound.append(unpack_code(payload, slide_id))
        except DamagedError:
            damaged.append(payload.key)
    index.add(sound)
    return index, damaged
