"""Indexes on disk: derived from the catalogue's codes, and known to be fresh or not."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from slideseek.archive.archive import Archive
from slideseek.archive.catalog import IndexRow
from slideseek.archive.files import replacing_folder
from slideseek.archive.payloads import unpack_code
from slideseek.building.ledger import Ledger
from slideseek.config import EngineConfig
from slideseek.engine import Engine, make_engine, recall_engine, signature
from slideseek.errors import DamagedError
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


def save_index(archive: Archive, engine: Engine, ledger: Ledger) -> IndexRow:
    """Bring an engine's saved index up to date with the catalogue; return its row."""
    catalog = archive.catalog
    codes = ledger.settings(engine, "encode")
    generation = catalog.generation(codes)
    row = catalog.index(engine.name)
    if row and _fresh(row, engine, codes, generation) and (archive.root / row.folder).is_dir():
        return row
    index = _from_codes(archive, engine, codes)
    parent = archive.root / "index" / engine.name
    folder = parent / digest([engine.index_settings, codes, generation])[:24]
    with replacing_folder(folder) as temporary:
        index.save(temporary)
    place = str(folder.relative_to(archive.root))
    row = IndexRow(engine.name, engine.index_settings, codes, generation, place, len(index.ids), index.nbytes)
    with catalog.transaction():
        catalog.put_index(row)
    for old in parent.iterdir():
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)
    return row


def open_index(archive: Archive, engine: Engine, ledger: Ledger) -> OpenIndex:
    """Open an engine's saved index; if it is out of date or damaged, use the catalogue's codes and say so."""
    codes = ledger.settings(engine, "encode")
    row = archive.catalog.index(engine.name)
    if row is None:
        return OpenIndex(_from_codes(archive, engine, codes), (f"engine {engine.name!r} has no saved index yet",))
    if not _fresh(row, engine, codes, archive.catalog.generation(codes)):
        reason = f"the saved index of engine {engine.name!r} is out of date"
    else:
        index = engine.new_index()
        try:
            index.load(archive.root / row.folder)
            return OpenIndex(index)
        except (DamagedError, FileNotFoundError) as error:
            reason = f"the saved index of engine {engine.name!r} cannot be used ({error})"
    note = f"{reason}; the catalogue's codes were searched instead: run 'slideseek build' to save it anew"
    return OpenIndex(_from_codes(archive, engine, codes), (note,))


def _fresh(row: IndexRow, engine: Engine, codes: str, generation: int) -> bool:
    return (row.settings, row.codes, row.generation) == (engine.index_settings, codes, generation)


def _from_codes(archive: Archive, engine: Engine, codes: str) -> Index:
    index = engine.new_index()
    index.add([unpack_code(payload, slide_id) for slide_id, payload in archive.catalog.codes(codes)])
    return index
