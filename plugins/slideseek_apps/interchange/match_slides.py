"""Match each feature file to a slide, or make a record for a slide that only has features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from slideseek.archive.archive import Archive
from slideseek.archive.manifest import Manifest, ManifestRow, Problem
from slideseek.archive.slide_table import SlideRow
from slideseek.digests import digest
from slideseek.slides.content_fingerprint import fingerprint
from slideseek.types import SlideRecord
from slideseek_apps.interchange.feature_readers import Entry, stands_for_features
from slideseek_apps.interchange.slide_names import ByName


@dataclass(frozen=True, slots=True)
class Candidate:
    """Features and their slide. `row`: the manifest's row for a slide that has no slide file in the archive."""

    entry: Entry
    slide_id: str
    known: SlideRow | None
    row: ManifestRow | None

    @property
    def pixels(self) -> bool:
        """Whether the archive has the slide's own file. Its record is then kept as it is."""
        return self.known is not None and not stands_for_features(self.known.record.path)


@dataclass(slots=True)
class Matches:
    """The candidates of an import, problems with files that match no single slide, and notes for the user."""

    candidates: list[Candidate] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def match_files(archive: Archive, files: Sequence[Entry], manifest: tuple[Path, Manifest] | None) -> Matches:
    """Match feature files to the archive's slides, then to the manifest's rows.

    Without a manifest, a file that matches no slide becomes a new slide.
    """
    result = Matches()
    slides = ByName(archive.catalog.slides, lambda row: row.id, lambda row: row.record.path)
    rows = manifest and ByName(manifest[1].rows, lambda row: row.id, lambda row: row.path)
    unnamed: list[Entry] = []
    first: dict[str, Entry] = {}
    for file in files:
        name = file.slide
        known = slides.find(name)
        named = rows.find(name) if rows else ()
        if len(known) > 1 or (not known and len(named) > 1):
            ids = ", ".join(repr(i) for i in [*(row.id for row in known), *(row.id for row in named)][:3])
            result.problems.append(
                Problem(file.label, f"several slides match it ({ids})", "rename the file to the id of its slide")
            )
            continue
        if not known and not named and rows:
            unnamed.append(file)
            continue
        slide_id = known[0].id if known else named[0].id if named else name
        if (other := first.setdefault(slide_id, file)) is not file:
            cause = f"it belongs to slide {slide_id!r}, and so does {other.label}"
            result.problems.append(Problem(file.label, cause, "keep one of the two"))
            continue
        slide = known[0] if known else archive.catalog.slides.get(slide_id)
        result.candidates.append(Candidate(file, slide_id, slide, named[0] if len(named) == 1 else None))
    if manifest:
        result.notes.extend(_of_manifest(manifest, unnamed, result.candidates))
    return result


def slide_row(archive: Archive, candidate: Candidate) -> SlideRow:
    """Return the row to store for a slide: the archive's own, or without pixels one made from the feature file."""
    before, row, file = candidate.known, candidate.row, candidate.entry.file
    if before is not None and candidate.pixels:
        return before
    record = before.record if before else SlideRecord(candidate.slide_id, "")
    if row is not None:
        said = {name: getattr(row, name) for name in ("patient", "site", "label", "center", "mpp", "fields")}
        record = replace(record, **said)
    if before is not None:
        first = archive.slide_path(before.record)
        if first.exists() and not first.samefile(file):  # the set that was imported first stays the slide's file
            return replace(before, record=record)
    stat = file.stat()
    record = replace(record, path=archive.portable_path(file))
    return SlideRow(record, _fingerprint(candidate.entry), stat.st_size, stat.st_mtime_ns)


def _fingerprint(entry: Entry) -> str:
    """Return the fingerprint of a slide's features. Slides with the same one count as copies, so where one file stands
    for several slides, or for a Zarr store of many files, the slide's name is part of it."""
    of_file = fingerprint(entry.file)
    return f"sha256:{digest([of_file, entry.slide])}" if entry.part.slide or entry.file != entry.path else of_file


def _of_manifest(
    manifest: tuple[Path, Manifest], unnamed: Sequence[Entry], candidates: Sequence[Candidate]
) -> Iterator[str]:
    """Yield notes on files and manifest rows without a counterpart."""
    path, table = manifest
    yield from table.notes
    if unnamed:
        some = ", ".join(file.label for file in unnamed[:3]) + (", ..." if len(unnamed) > 3 else "")
        yield f"{len(unnamed)} file(s) were not imported because {path.name} does not list their slides: {some}"
    matched = {name for c in candidates for name in (c.slide_id, c.row.id if c.row else "")}
    if without := [row.id for row in table.rows if row.id not in matched]:
        some = ", ".join(without[:3]) + (", ..." if len(without) > 3 else "")
        yield f"{len(without)} slide(s) in {path.name} have no feature file: {some}"
