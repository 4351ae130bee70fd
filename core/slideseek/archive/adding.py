"""Add slides to an archive: what they are is recorded now, their pixels are looked at when it is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from slideseek.archive.archive import Archive
from slideseek.archive.files import sha256_file
from slideseek.archive.manifest import Manifest, ManifestRow, Problem
from slideseek.archive.matching import match_rows, stem_ids
from slideseek.archive.slide_table import SlideRow
from slideseek.errors import SlideError, SlideseekError
from slideseek.slides.contours import read_polygons
from slideseek.slides.identity import fingerprint
from slideseek.types import SlideRecord

OUTLINE_MARK = "+contours:"


@dataclass(slots=True)
class AddSummary:
    """What an `add` did, by slide id, and what it could not do."""

    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Content:
    """The identity of a file's content, and the stat that lets it be known again without reading."""

    path: Path
    fingerprint: str
    bytes: int
    mtime_ns: int


def add_slides(
    archive: Archive,
    files: Sequence[Path],
    manifest: tuple[Path, Manifest] | None = None,
    mpp: float | None = None,
    on_slide: Callable[[str], None] | None = None,
) -> AddSummary:
    """Record slides in the catalogue, each in a commit of its own.

    files: slide files. manifest: its path and content; with one, only slides it names are added. mpp: a
    resolution for slides whose row states none. A slide known by its content keeps its id when its file has
    moved; one whose content, resolution or site changed loses what was computed from the old.
    """
    summary = AddSummary()
    known = {archive.slide_path(row.record): row for row in archive.catalog.slides}
    if manifest is not None:
        path, table = manifest
        summary.problems.extend(table.problems)
        summary.notes.extend(table.notes)
        matches, unmatched, rest = match_rows(table, path.parent, files)
        summary.problems.extend(unmatched)
        if rest:
            some = ", ".join(f.name for f in rest[:3]) + (", ..." if len(rest) > 3 else "")
            summary.notes.append(f"{len(rest)} file(s) are not named in {path.name} and were not added: {some}")
        for row, file in matches:
            outline = _outline(row, path.parent, summary)
            if outline is not None and (content := _identify(file, known, summary)):
                record = _record(archive, row, file, mpp, outline)
                _put(archive, record, _outlined(content, outline), summary)
            if on_slide:
                on_slide(row.id)
        return summary
    contents = []
    for file in files:
        if content := _identify(file, known, summary):
            contents.append(content)
        if on_slide:
            on_slide(file.name)
    _add_unnamed(archive, contents, mpp, summary)
    return summary


def _identify(file: Path, known: dict[Path, SlideRow], summary: AddSummary) -> _Content | None:
    """Name a file's content; a file that has not been touched since it was added is not read again."""
    full = file.absolute()
    try:
        stat = full.stat()
        before = known.get(full)
        if before and (before.bytes, before.mtime_ns) == (stat.st_size, stat.st_mtime_ns):
            return _Content(full, before.fingerprint, stat.st_size, stat.st_mtime_ns)
        return _Content(full, fingerprint(full), stat.st_size, stat.st_mtime_ns)
    except SlideError as error:
        summary.problems.append(Problem(file.name, error.cause, error.fix))
    except OSError as error:
        summary.problems.append(Problem(file.name, f"cannot be read ({error.strerror})", "check the path and rights"))
    return None


def _outline(row: ManifestRow, folder: Path, summary: AddSummary) -> Path | Literal[""] | None:
    """Return the outline a row names, "" when it names none, None when it cannot be used."""
    if not row.contours:
        return ""
    outline = (folder / row.contours).absolute()
    try:
        read_polygons(outline)
        return outline
    except SlideseekError as error:
        summary.problems.append(Problem(row.id, error.cause, error.fix))
        return None


def _outlined(content: _Content, outline: Path | Literal[""]) -> _Content:
    """Make an outline a part of the content's identity, so that a changed one is selected from anew."""
    plain = content.fingerprint.partition(OUTLINE_MARK)[0]
    name = f"{plain}{OUTLINE_MARK}{sha256_file(outline)}" if outline else plain
    return replace(content, fingerprint=name)


def _record(
    archive: Archive, row: ManifestRow, file: Path, mpp: float | None, outline: Path | Literal[""]
) -> SlideRecord:
    return SlideRecord(
        id=row.id,
        path=archive.portable_path(file),
        patient=row.patient,
        site=row.site,
        label=row.label,
        center=row.center,
        mpp=row.mpp if row.mpp is not None else mpp,
        contours=archive.portable_path(outline) if outline else "",
        fields=row.fields,
    )


def _add_unnamed(archive: Archive, contents: Sequence[_Content], mpp: float | None, summary: AddSummary) -> None:
    """Add files no manifest names: known content keeps its slide, new content gets an id from the file's stem."""
    slides = archive.catalog.slides
    here = {archive.slide_path(row.record): row for row in slides}
    fresh: list[_Content] = []
    first_with: dict[str, Path] = {}
    for content in contents:
        row = here.get(content.path)
        twins = slides.by_fingerprint(content.fingerprint)
        if row is None and twins:
            if archive.slide_path(twins[0].record).exists():
                summary.notes.append(f"{content.path} is a copy of slide {twins[0].id!r} and was not added")
                continue
            row = twins[0]  # the file has moved
        if row is not None:
            old = row.record
            stated = old.mpp if mpp is None else mpp
            moved = replace(old, path=archive.portable_path(content.path), mpp=stated)
            outline: Path | Literal[""] = archive.root / old.contours if old.contours else ""
            _put(archive, moved, _outlined(content, outline), summary)
        elif content.fingerprint in first_with:
            summary.notes.append(
                f"{content.path} has the same content as {first_with[content.fingerprint]} and was not added"
            )
        else:
            first_with[content.fingerprint] = content.path
            fresh.append(content)
    ids = stem_ids(((c.path, c.fingerprint) for c in fresh), slides.ids())
    for content in fresh:
        record = SlideRecord(ids[content.path], archive.portable_path(content.path), mpp=mpp)
        _put(archive, record, content, summary)


def _put(archive: Archive, record: SlideRecord, content: _Content, summary: AddSummary) -> None:
    """Commit one slide and drop what was computed from content or settings that changed."""
    catalog = archive.catalog
    slide = SlideRow(record, content.fingerprint, content.bytes, content.mtime_ns)
    before = catalog.slides.get(record.id)
    if before == slide:
        summary.unchanged.append(record.id)
        return
    with catalog.transaction():
        catalog.slides.put(slide)
        if before and (before.fingerprint, before.record.mpp) != (slide.fingerprint, record.mpp):
            catalog.forget_stages(record.id, ("select", "featurize", "encode"))
        elif before and before.record.site != record.site:
            catalog.forget_stages(record.id, ("encode",))
    if before is None:
        summary.added.append(record.id)
        for twin in catalog.slides.by_fingerprint(content.fingerprint):
            if twin.id != record.id:
                summary.notes.append(f"slide {record.id!r} has the same content as slide {twin.id!r}")
    else:
        summary.updated.append(record.id)
