"""Check one archive: its catalogue, files, payloads, models and indexes, disk space and permissions."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from slideseek.archive.archive import CATALOG_NAME, CONFIG_KEPT, FOLDERS, Archive
from slideseek.archive.slide_table import ADD_AGAIN
from slideseek.config import CONFIG_NAME, EngineConfig
from slideseek.digests import broken_seal, sha256_file
from slideseek.engine import Engine
from slideseek.errors import SlideseekError
from slideseek.indexing.live_index import changed_makers, index_is_fresh, open_engine
from slideseek.indexing.stage_cache import StageCache
from slideseek.interfaces import Described, KeptElsewhere, implements
from slideseek.plugins import Registry
from slideseek_apps.doctor.duplicates import copies, leaking, rescans
from slideseek_apps.doctor.finding import Finding, counted, in_bytes
from slideseek_apps.doctor.hub_health import look_for_hubs
from slideseek_apps.doctor.payload_health import look_at_payloads
from slideseek_apps.doctor.schema_health import changed_schema

LOW_SHARE, LOW_BYTES = 0.1, 2**30
"""Free space is low below a tenth of the archive's size, and always below 1 GiB."""

NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph", "lustre", "glusterfs"})
"""File systems over which SQLite's write-ahead log does not work, or not reliably."""

_AREA = "archive"
REPAIR = "run 'slideseek repair'; check the disk"


def look_at_archive(root: Path, everything: bool = False, stored_only: bool = False) -> Iterator[Finding]:
    """Yield findings about an archive. everything: read all files. stored_only: only what is stored in it."""
    if not stored_only:
        yield from _place(root)
    if (root / CATALOG_NAME).is_file() and (finding := _catalogue(root / CATALOG_NAME, everything)) is not None:
        yield finding
        return
    try:
        archive = Archive(root)
    except SlideseekError as error:
        yield Finding(_AREA, "catalogue", "fail", error.cause, error.fix or "restore it from a backup")
        return
    with archive:
        yield Finding(_AREA, "catalogue", "ok", f"readable, {counted(len(archive.catalog.slides), 'slide')}")
        for table, keys in archive.catalog.damaged().items():
            cause = f"{counted(len(keys), 'row')} of the table {table} damaged: {', '.join(keys[:5])}"
            fix = f"{ADD_AGAIN}, or run 'slideseek repair --backup FOLDER'" if table == "slides" else REPAIR
            yield Finding(_AREA, "records", "fail", cause, fix)
        if not stored_only:
            yield from _slides(archive)
        yield from look_at_payloads(archive, everything)
        yield from look_at_configuration(archive)
        try:
            engines, registry = archive.config.engines, archive.registry()
        except SlideseekError as error:
            yield Finding(_AREA, "configuration", "fail", error.cause, error.fix or "correct slideseek.toml")
            return
        if not stored_only:
            yield _duplicates(archive, engines[0], registry, everything)
        for config in engines:
            yield from _engine(archive, config, registry, everything, stored_only)


def _place(root: Path) -> Iterator[Finding]:
    """Yield the permissions, the free space and the type of file system of the archive's folder."""
    if os.access(root, os.W_OK) and os.access(root / CATALOG_NAME, os.W_OK):
        yield Finding(_AREA, "permissions", "ok", "can be read and written")
    else:
        cause = "can be read but not written: searches work, queries are not logged, nothing can be built"
        yield Finding(_AREA, "permissions", "warn", cause, "change the owner or the permissions if you want to build")
    free, size = shutil.disk_usage(root).free, _size(root)
    detail = f"{in_bytes(free)} free, the archive takes {in_bytes(size)}"
    if free < max(LOW_BYTES, LOW_SHARE * size):
        yield Finding(_AREA, "disk space", "warn", detail, "free some space before the next build")
    else:
        yield Finding(_AREA, "disk space", "ok", detail)
    if (kind := file_system(root)) in NETWORK:
        cause = f"on a network file system ({kind}), where two writers may damage the catalogue"
        yield Finding(
            _AREA, "file system", "warn", cause, "move the archive to a local disk; the slides can stay anywhere"
        )


def _size(root: Path) -> int:
    """Return the bytes of slideseek's own files in a folder. Slides in the same folder are not counted."""
    files = [path for name in FOLDERS for path in (root / name).rglob("*")]
    return sum(path.stat().st_size for path in (*files, root / CATALOG_NAME) if path.is_file())


def file_system(path: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """Return the type of the file system of a path, "" if the system does not say."""
    try:
        lines = [line.split() for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return ""
    above = {str(folder) for folder in (path.resolve(), *path.resolve().parents)}
    places = [(fields[1], fields[2]) for fields in lines if len(fields) > 2 and fields[1] in above]
    return max(places, key=lambda place: len(place[0]), default=("", ""))[1]


def _catalogue(path: Path, everything: bool = False) -> Finding | None:
    """Let SQLite check the catalogue's structure; None if it is sound. everything: and its indexes."""
    fix = "run 'slideseek repair', or restore catalog.sqlite from a backup"
    where = path.absolute().as_uri() + ("" if os.access(path.parent, os.W_OK) else "?immutable=1")
    try:
        connection = sqlite3.connect(where, uri=True)
        try:
            check = "integrity_check" if everything else "quick_check"
            said = str(connection.execute(f"PRAGMA {check}(1)").fetchone()[0])
        finally:
            connection.close()
        if said == "ok" and everything and (wrong := changed_schema(path)):
            said = f"the definition of {wrong!r} is damaged"
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return Finding(_AREA, "catalogue", "fail", str(error), fix)
    return None if said == "ok" else Finding(_AREA, "catalogue", "fail", " ".join(said.split()), fix)


def _slides(archive: Archive) -> Iterator[Finding]:
    """Yield which slide files are missing or have changed since they were added, and which slides failed."""
    states = archive.catalog.slides.not_as_added(archive.root)
    missing, touched = (
        [slide_id for slide_id, state in states.items() if state == of] for of in ("missing", "changed")
    )
    if missing:
        cause = f"{counted(len(missing), 'file')} cannot be found: {_some(missing)}"
        fix = "connect the disk, or add the slides again at their new location; searches still work"
        yield Finding(_AREA, "slide files", "warn", cause, fix)
    if touched:
        cause = f"{counted(len(touched), 'file')} have another size or date than when they were added: {_some(touched)}"
        yield Finding(
            _AREA,
            "slide files",
            "warn",
            cause,
            "run 'slideseek build'; only files whose content changed are processed",
        )
    away = [slide_id for slide_id, state in states.items() if state == "unreachable"]
    if away:
        cause = f"{counted(len(away), 'slide')} could not be looked up where they lie: {_some(away)}"
        yield Finding(_AREA, "slide files", "warn", cause, "check the network and the credentials; searches still work")
    if not states:
        yield Finding(_AREA, "slide files", "ok", "all present and unchanged")
    failed = {record.slide_id for record in archive.catalog.stages() if record.status == "failed"}
    if failed:
        cause = f"{counted(len(failed), 'slide')} could not be used: {_some(sorted(failed))}"
        yield Finding(_AREA, "failed slides", "warn", cause, "'slideseek status --failed' shows why")


def _duplicates(archive: Archive, config: EngineConfig, registry: Registry, everything: bool) -> Finding:
    """Return whether slides show the same tissue. everything: compare pictures too, not only the content of files."""
    found = copies(archive)
    if everything:
        with suppress(SlideseekError):  # an engine that cannot be used is reported as such
            found += rescans(archive, open_engine(archive, config, registry))
    leaks = leaking(found)
    if leaks:
        some = _some([f"{one.first} and {one.second} ({' | '.join(one.patients)})" for one in leaks])
        cause = f"{counted(len(leaks), 'pair')} of slides show the same tissue under two patients: {some}"
        return Finding(_AREA, "duplicates", "warn", cause, "'slideseek duplicates' lists them; correct the patients")
    what = "the same tissue" if everything else "the same content ('slideseek duplicates' compares pictures)"
    within = f"{counted(len(found), 'pair')} of slides of one patient" if found else "no two slides"
    return Finding(_AREA, "duplicates", "ok", f"{within} with {what}")


def look_at_configuration(archive: Archive) -> Iterator[Finding]:
    """Yield whether the configuration is the one of the last build, and if not, whether somebody has edited it."""
    known = archive.catalog.last_engine(CONFIG_KEPT)
    file = archive.root / CONFIG_NAME
    if known is None:
        yield Finding(_AREA, "configuration", "ok", "not built yet")
    elif file.read_bytes() == known["text"].encode():
        yield Finding(_AREA, "configuration", "ok", "as of the last build")
    elif file.stat().st_mtime_ns == known["mtime_ns"]:
        yield Finding(_AREA, "configuration", "fail", f"{CONFIG_NAME} is damaged: other text, same date", REPAIR)
    else:
        fix = "'slideseek build' applies it; 'slideseek repair --configuration' restores that of the last build"
        yield Finding(_AREA, "configuration", "warn", f"{CONFIG_NAME} was edited after the last build", fix)


def _engine(
    archive: Archive, config: EngineConfig, registry: Registry, everything: bool, stored_only: bool
) -> Iterator[Finding]:
    """Yield whether an engine can be used: plugins, weights, model, index."""
    area = f"engine {config.name}"
    try:
        engine = open_engine(archive, config, registry)
        featurizer = engine.featurizer
    except SlideseekError as error:
        yield Finding(area, "components", "fail", error.cause, error.fix or "correct slideseek.toml")
        return
    try:
        card = engine.owner("featurizer").call("card()", featurizer.card) if implements(featurizer, Described) else None
    except SlideseekError as error:
        yield Finding(area, "weights", "fail", error.cause, error.fix)
        return
    if card is not None and not card.present:
        yield Finding(
            area, "weights", "fail", f"not found: {card.weights}", "put the weights at the path in the configuration"
        )
    for change in changed_makers(archive, engine).values():
        yield Finding(area, "plugins", "warn", change, "run 'slideseek build' to compute again what it made")
    yield from _model(archive, engine, area)
    index = _index(archive, engine, area, everything)
    yield index
    if index.state == "ok" and not stored_only:
        try:
            yield from look_for_hubs(archive, engine, area)
        except SlideseekError as error:  # an index or a code that cannot be used
            yield Finding(area, "hubs", "fail", error.cause, error.fix or "run 'slideseek build --verify'")


def _model(archive: Archive, engine: Engine, area: str) -> Iterator[Finding]:
    if not engine.resolved.trainable:
        return
    model = archive.catalog.model(engine.encoder_digest)
    if model is None:
        yield Finding(area, "model", "warn", "not fitted yet", "run 'slideseek build'")
    elif damaged := _damaged(archive.root / model.folder, model.files):
        yield Finding(
            area, "model", "fail", f"{damaged} is missing or damaged", "run 'slideseek build' to fit it again"
        )
    else:
        yield Finding(area, "model", "ok", f"fitted on {counted(model.slides, 'slide')}")


def _index(archive: Archive, engine: Engine, area: str, thorough: bool) -> Finding:
    row = archive.catalog.index(engine.name)
    if row is None:
        return Finding(area, "index", "warn", "not built yet", "run 'slideseek build'")
    if not index_is_fresh(archive, engine, StageCache(archive, lambda _: None)):
        return Finding(area, "index", "warn", "out of date", "run 'slideseek build'")
    if broken := broken_seal(archive.root / row.folder, row.files, thorough):
        fix = "run 'slideseek build'; until then searches use the codes in the catalogue"
        return Finding(area, "index", "fail", f"{broken} is damaged", fix)
    if implements((index := engine.new_index()).inner, KeptElsewhere):
        fix = "run 'slideseek build' to save them again; until then searches use the codes in the catalogue"
        try:
            index.load(archive.root / row.folder)
        except SlideseekError as error:
            return Finding(area, "index", "fail", error.cause, error.fix)
        if damaged := index.owner.read(index.inner, "damaged"):
            return Finding(area, "index", "fail", f"the stored codes of {_some(damaged)} are damaged", fix)
    changed = len(archive.catalog.changes.since(row.codes, row.generation))
    behind = f", {counted(changed, 'change')} since, which searches include" if changed else ""
    return Finding(area, "index", "ok", f"up to date, {counted(row.slides, 'slide')}{behind}")


def _damaged(folder: Path, files: Mapping[str, str]) -> str:
    """Return the name of a file that is missing or damaged, "" if all are fine."""
    wrong = (name for name, sha in files.items() if not (folder / name).is_file() or sha256_file(folder / name) != sha)
    return next(wrong, "")


def _some(names: list[str], shown: int = 3) -> str:
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")
