"""Save an engine's index: derived from the catalogue's codes, and saved again when it is far behind them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from slideseek.archive.archive import Archive
from slideseek.archive.files import remove, replacing_folder
from slideseek.archive.payloads import unpack_code
from slideseek.archive.records import IndexRow
from slideseek.boundary import CheckedIndex
from slideseek.digests import broken_seal, digest, seal_files
from slideseek.engine import Engine
from slideseek.errors import DamagedError, UnavailableError
from slideseek.indexing.live_index import from_codes, is_usable, noting_warnings, up_to_date
from slideseek.indexing.stage_cache import StageCache
from slideseek.interfaces import FiltersRows, KeptElsewhere, implements

CHANGED_SHARE = 0.05
"""Changed slides, as a share of those saved, beyond which a build saves the whole index again.

Bringing an index up to date takes about 40 microseconds per changed slide each time it is opened. Saving it means
reading and writing all of it, once.
"""

EARLY_CHANGED = 1000
"""Changed slides below which an index is not saved again during a build: all saves write twice its size at most."""


SEARCHED = 5
"""Hits compared between an index and itself, saved and loaded."""


def save_index(
    archive: Archive,
    engine: Engine,
    stages: StageCache,
    note: Callable[[str], None],
    thorough: bool = False,
    scratch: bool = False,
) -> int:
    """Check that an engine's saved index can be used, and save it again if it is far behind; return its slides.

    An index whose files differ from what was written is rebuilt; `thorough` reads all files to check that. Damaged
    codes are left out and dropped; the next build computes them again. scratch: the saved index was begun by this
    build; if it is behind, it is made of all codes, as if they had come at once.
    """
    catalog = archive.catalog
    codes = stages.settings_digest(engine, "encode")
    row = catalog.index(engine.name)
    usable = row is not None and is_usable(row, engine, codes)
    if row is not None and usable:
        since = catalog.changes.since(codes, row.generation)
        changed, removed = len(since), len(since) - sum(1 for _ in catalog.codes(codes, since))
        soon = changed > (0 if scratch else CHANGED_SHARE * row.slides) or removed > 0  # no trace of a removed slide
        if implements(engine.new_index().inner, KeptElsewhere):
            lost = _lost_elsewhere(archive, engine, row, note)
            usable, soon = not lost, soon or lost is not False or changed > 0  # writing a few codes there is cheap
        if broken := broken_seal(archive.root / row.folder, row.files, thorough or soon):
            note(f"the saved index of engine {engine.name!r} is damaged and is rebuilt ({broken})")
            usable = False
        elif not soon:
            return row.slides if not changed else catalog.work.count("encode", codes)
    generation = catalog.changes.generation(codes)
    with noting_warnings(note):
        index, damaged = (
            up_to_date(archive, engine, row) if row and usable and not scratch else from_codes(archive, engine, codes)
        )
        if damaged:
            note(f"{len(damaged)} code(s) of engine {engine.name!r} are damaged: build again to recompute them")
            for key in damaged:
                stages.drop(key)
        parent = archive.root / "index" / engine.name
        folder = parent / digest([engine.index_digest, codes, generation, len(damaged)])[:24]
        if implements(index.inner, KeptElsewhere):
            records = catalog.changes.of_records()
            folder = folder.with_name(digest([folder.name, records, row.folder if row else ""])[:24])
            index.owner.call("settle()", index.inner.settle, _place(archive, engine, codes))
            if implements(index.inner, FiltersRows):
                described = {one.id: one.record for one in catalog.slides.some(index.ids)}
                index.owner.call("describe()", index.inner.describe, described, records)
        with replacing_folder(folder) as temporary:
            index.save(temporary)
        _check_saved(archive, engine, codes, index, folder)
    place, slides = str(folder.relative_to(archive.root)), len(index.ids)
    saved = IndexRow(
        engine.name, engine.index_digest, codes, generation, place, seal_files(folder), slides, index.nbytes
    )
    with catalog.transaction():
        catalog.put_index(saved)
    for old in parent.iterdir():
        if old != folder:
            if implements(index.inner, KeptElsewhere):
                index.owner.call("discard()", index.inner.discard, old)
            remove(old)
    return slides


def _lost_elsewhere(archive: Archive, engine: Engine, row: IndexRow, note: Callable[[str], None]) -> bool | None:
    """Return whether an index that is kept elsewhere is lost or damaged there; None if it has to be saved again."""
    try:
        index, _ = up_to_date(archive, engine, row)
    except DamagedError as error:
        note(f"the saved index of engine {engine.name!r} is damaged and is rebuilt ({error.cause})")
        return True
    return None if index.damaged or index.described not in (-1, archive.catalog.changes.of_records()) else False


def _place(archive: Archive, engine: Engine, codes: str) -> str:
    """Return the name under which an index is kept elsewhere: of this archive at this path, engine and codes."""
    own = digest([archive.catalog.changes.identity(), str(archive.root.resolve())])[:12]
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in engine.name.lower())[:20]
    return f"slideseek_{own}_{plain}_{digest([engine.index_digest, codes])[:12]}"


def _check_saved(archive: Archive, engine: Engine, codes: str, index: CheckedIndex, folder: Path) -> None:
    """Raise `PluginError` if an index that was saved and loaded again answers one search otherwise than before."""
    first = next(archive.catalog.codes(codes), None)
    if first is None or not len(index.ids):
        return
    again = engine.new_index()
    again.load(folder)
    code = unpack_code(first[1], first[0])
    before, after = ([hit.slide_id for hit in one.search(code, SEARCHED)] for one in (index, again))
    if list(again.ids) != list(index.ids) or before != after:
        remove(folder)
        raise index.owner.wrong("finds other slides after save() and load() than before")


def save_early(
    archive: Archive, engine: Engine, stages: StageCache, note: Callable[[str], None], scratch: bool
) -> bool:
    """Save an index during a build if there is none or most codes are not in it; return whether it was begun here.

    Until then a search reads the codes from the catalogue. scratch: this build began the saved index.
    """
    codes = stages.settings_digest(engine, "encode")
    row = archive.catalog.index(engine.name)
    usable = row is not None and is_usable(row, engine, codes)
    behind = len(archive.catalog.changes.since(codes, row.generation)) if row is not None and usable else 0
    if row is not None and usable and behind < max(EARLY_CHANGED, row.slides):
        return scratch
    try:
        save_index(archive, engine, stages, note, scratch=scratch)
    except UnavailableError as error:  # codes are safe; the index is saved when the build ends
        note(f"the index of engine {engine.name!r} could not be saved yet ({error.cause})")
        return scratch
    return scratch or not usable
