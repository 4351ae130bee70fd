"""Slide files that changed after they were added: tell a replaced slide from one that was only touched."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from slideseek.archive.archive import Archive
from slideseek.archive.slide_table import SlideRow
from slideseek.errors import SlideseekError
from slideseek.slides.content_fingerprint import fingerprint
from slideseek.slides.file_formats import has_slide_name, slide_files
from slideseek.slides.remote_path import RemotePath
from slideseek.slides.remote_slides import look_up
from slideseek.types import SlideRecord


def identify(record: SlideRecord, path: Path) -> SlideRow:
    """Return the row of a slide file: the fingerprint of its content, and the size and date of each of its files.

    Of a remote slide, the size and the version are looked up.
    """
    if isinstance(path, RemotePath):
        size, version, content = look_up(path)
        return SlideRow(record, content, size, version)
    first = path.stat()  # before the content is read: a file that changes meanwhile no longer matches its row
    others = [part for part in slide_files(path) if part != path]
    parts = [(str(part.relative_to(path.parent)), (stat := part.stat()).st_size, stat.st_mtime_ns) for part in others]
    return SlideRow(record, fingerprint(path), first.st_size, first.st_mtime_ns, parts=tuple(parts))


@dataclass(slots=True)
class FileChanges:
    """Slide ids by what became of their files since they were added.

    replaced: other content. touched: another size or date of some file, the same content. unreadable: cannot be
    compared. features: a file of imported features, which only an import can take in. unreachable: elsewhere, and not
    looked up in time.
    """

    replaced: list[str] = field(default_factory=list)
    touched: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    features: list[str] = field(default_factory=list)
    unreachable: list[str] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Return what to tell about them, one line per kind."""
        said = {
            "has been replaced: everything computed from its pixels is computed again": self.replaced,
            "has another date than when it was added, but the same content: nothing is computed again": self.touched,
            "has changed and cannot be read: its former results are not used": self.unreadable,
            "is a feature file that has changed: run 'slideseek import' on it again": self.features,
            "could not be looked up where it lies: it is taken as unchanged": self.unreachable,
        }
        return [f"the file of {named(ids)} {what}" for what, ids in said.items() if ids]


def named(slide_ids: Collection[str], shown: int = 5) -> str:
    """Name some slides: the first few, and how many more."""
    some = ", ".join(map(repr, list(slide_ids)[:shown]))
    more = f" and {len(slide_ids) - shown} more" if len(slide_ids) > shown else ""
    return f"{len(slide_ids)} slides ({some}{more})" if len(slide_ids) > 1 else f"slide {some}"


def take_in_changes(
    archive: Archive, imported: Callable[[str], bool], thorough: bool = False, leave_out: Collection[str] = ()
) -> FileChanges:
    """Bring the catalogue up to date with the slide files; what was computed from replaced pixels is dropped.

    imported: whether a slide has imported features. thorough: read the content of every file; otherwise a file with
    the size and date it had is not read. A slide whose file is missing keeps its results.
    """
    found, slides = FileChanges(), archive.catalog.slides
    states = slides.not_as_added(archive.root)
    for slide_id in slides.ids() if thorough else states:
        if states.get(slide_id) == "unreachable":
            found.unreachable.append(slide_id)
        if slide_id in leave_out or states.get(slide_id) in ("missing", "unreachable"):
            continue
        row = slides.whole(slide_id)
        if row is None or not row.record.path:
            continue
        path = archive.slide_path(row.record)
        try:
            now = replace(identify(row.record, path), outline=row.outline)
        except (SlideseekError, OSError):
            found.unreadable.append(slide_id)
            _forget(archive, row)
            continue
        if now.fingerprint == row.fingerprint:
            if now != row:
                found.touched.append(slide_id)
                with archive.catalog.transaction():
                    slides.put(now)
        elif not has_slide_name(path.name) and imported(slide_id):
            found.features.append(slide_id)
        else:
            found.replaced.append(slide_id)
            _forget(archive, now)
    return found


def _forget(archive: Archive, row: SlideRow) -> None:
    """Keep a slide's row and drop all results of its former content."""
    with archive.catalog.transaction():
        archive.catalog.slides.put(row)
        archive.catalog.forget_stages(row.id, ("select", "featurize", "encode"))


def content_changed(archive: Archive, row: SlideRow) -> bool:
    """Return whether a slide's file holds another picture than the one its results are about.

    The content is read only if the size or date differs.
    """
    if not row.record.path or row.file_state(archive.root) != "changed":
        return False
    try:
        return fingerprint(archive.slide_path(row.record)) != row.fingerprint
    except SlideseekError:
        return True
