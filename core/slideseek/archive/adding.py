"""Add slides to an archive. Only their records are stored now; their pixels are read by a build."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from slideseek.archive.archive import Archive, absolute
from slideseek.archive.file_changes import identify
from slideseek.archive.known_files import KnownFiles
from slideseek.archive.manifest import Manifest, ManifestRow, Problem
from slideseek.archive.matching import match_rows, stem_ids
from slideseek.archive.slide_table import SlideRow
from slideseek.digests import sha256_file
from slideseek.errors import SlideError, SlideseekError
from slideseek.slides.file_formats import dicom_property
from slideseek.slides.geojson import read_polygons
from slideseek.slides.reader import open_slide
from slideseek.types import SlideRecord


@dataclass(slots=True)
class AddSummary:
    """The result of an `add`: slide ids by outcome, problems and notes."""

    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StatedMpp:
    """A resolution the user states for many slides at once.

    override: use it even for slides that state their own; otherwise only for those that state none.
    """

    mpp: float
    override: bool = False

    def applies(self, path: Path) -> bool:
        """Return whether it applies to a file: a file that opens without it has its own resolution."""
        if self.override:
            return True
        try:
            open_slide(path).close()
            return False
        except SlideError:
            return True


def add_slides(
    archive: Archive,
    files: Sequence[Path],
    manifest: tuple[Path, Manifest] | None = None,
    stated: StatedMpp | None = None,
    on_slide: Callable[[str], None] | None = None,
) -> AddSummary:
    """Record slides in the catalogue, each in its own commit.

    files: slide files. manifest: its path and content; with one, only the slides it lists are added, and fields
    without a column stay unchanged. stated: a resolution for slides without one. A slide whose file has moved is
    recognised by its content and keeps its id. A slide whose content, resolution or site has changed loses its old
    results.
    """
    return _Adder(archive, stated, on_slide or (lambda _: None)).run(files, manifest)


class _Adder:
    """One `add` in progress."""

    def __init__(self, archive: Archive, stated: StatedMpp | None, on_slide: Callable[[str], None]) -> None:
        self.archive = archive
        self.slides = archive.catalog.slides
        self.stated = stated
        self.on_slide = on_slide
        self.summary = AddSummary()
        self.known = KnownFiles(archive)

    def run(self, files: Sequence[Path], manifest: tuple[Path, Manifest] | None) -> AddSummary:
        if manifest is None:
            self._unnamed(files)
        else:
            self._named(files, *manifest)
        return self.summary

    def _named(self, files: Sequence[Path], path: Path, manifest: Manifest) -> None:
        """Add the slides listed in a manifest."""
        self.summary.problems.extend(manifest.problems)
        self.summary.notes.extend(manifest.notes)
        matches, unmatched, rest = match_rows(manifest, path.parent, files)
        self.summary.problems.extend(unmatched)
        if rest:
            some = ", ".join(f.name for f in rest[:3]) + (", ..." if len(rest) > 3 else "")
            self.summary.notes.append(f"{len(rest)} file(s) are not listed in {path.name} and were not added: {some}")
        for row, file in matches:
            content = self._identify(file)
            if content is not None and self._take_over(row.id, content):
                self._named_one(row, content, path.parent, manifest)
            self.on_slide(row.id)

    def _named_one(self, row: ManifestRow, content: SlideRow, folder: Path, manifest: Manifest) -> None:
        before = self.slides.whole(row.id)
        old = before.record if before else SlideRecord(row.id, "")
        said = {
            role: getattr(row, role) for role in ("patient", "site", "label", "center", "mpp") if role in manifest.roles
        }
        record = replace(old, path=content.record.path, fields={**old.fields, **row.fields}, **said)
        record = self._with_resolution(record)
        outline = before.outline if before else ""
        if "contours" in manifest.roles:
            contours = absolute(folder / row.contours) if row.contours else None
            try:
                if contours is not None:
                    read_polygons(contours)
            except SlideseekError as error:
                self.summary.problems.append(Problem(row.id, error.cause, error.fix))
                return
            record = replace(record, contours=self.archive.portable_path(contours) if contours else "")
            outline = sha256_file(contours) if contours else ""
        self._put(replace(content, record=record, outline=outline))

    def _take_over(self, slide_id: str, content: SlideRow) -> bool:
        """Rename a slide as the manifest now names it; return whether the name can be used."""
        here = self.known.find(self.archive.slide_path(content.record), content.fingerprint)
        if here is None or here.id == slide_id:
            return True
        if self.slides.whole(slide_id) is not None:
            cause = f"its file {here.record.path} is already slide {here.id!r} of the archive"
            self.summary.problems.append(Problem(slide_id, cause, "list each file once, or remove the other slide"))
            return False
        with self.archive.catalog.transaction():
            self.slides.rename(here.id, slide_id)
        self.summary.notes.append(f"slide {here.id!r} is now named {slide_id!r}")
        return True

    def _unnamed(self, files: Sequence[Path]) -> None:
        """Add files without a manifest: known content keeps its slide, new content gets an id from the file's stem."""
        fresh: list[SlideRow] = []
        first_with: dict[str, Path] = {}
        for file in files:
            content = self._identify(file)
            self.on_slide(file.name)
            if content is None:
                continue
            row = self.known.find(self.archive.slide_path(content.record), content.fingerprint)
            twins = self.slides.by_fingerprint(content.fingerprint)
            if row is None and twins:
                if self.archive.slide_path(twins[0].record).exists():
                    self.summary.notes.append(f"{file} is a copy of slide {twins[0].id!r} and was not added")
                    continue
                row = twins[0]  # the file has moved
            if row is not None:
                record = self._with_resolution(replace(row.record, path=content.record.path))
                self._put(replace(content, record=record, outline=row.outline))
            elif content.fingerprint in first_with:
                same = first_with[content.fingerprint]
                self.summary.notes.append(f"{file} has the same content as {same} and was not added")
            else:
                first_with[content.fingerprint] = file
                fresh.append(content)
        pairs = [(self.archive.slide_path(content.record), content.fingerprint) for content in fresh]
        taken = set(self.slides.ids())
        ids = stem_ids(pairs, [path.stem for path, _ in pairs if path.stem in taken])
        for content in fresh:
            path = self.archive.slide_path(content.record)
            record = replace(content.record, id=ids[path], patient=dicom_property(path, "PatientID"))
            self._put(replace(content, record=self._with_resolution(record)))
        fresh_ids = sorted(ids.values())
        unknown = [row.id for row in self.slides.some(fresh_ids) if not row.record.patient]
        if unknown:
            self.summary.notes.append(
                f"{len(unknown)} of {len(fresh_ids)} new slide(s) have no patient, so each counts as its own patient:"
                " two slides of one patient then find each other. Pass --manifest with a column case_id to state it"
            )

    def _identify(self, file: Path) -> SlideRow | None:
        """Return the fingerprint of a file's content; a file unchanged since it was added is not read again."""
        full = absolute(file)
        record = SlideRecord("", self.archive.portable_path(full))
        if not full.name.isprintable():
            cause = f"the file name {full.name!a} contains control characters"
            self.summary.problems.append(Problem(ascii(full.name), cause, "rename the file"))
            return None
        try:
            before = self.known.find(full)
            if before is not None and before.file_state(self.archive.root) == "same":
                return replace(before, record=record, outline="")
            return identify(record, full)
        except SlideError as error:
            self.summary.problems.append(Problem(file.name, error.cause, error.fix))
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
            self.summary.problems.append(
                Problem(file.name, f"cannot be read ({error})", "check the path and permissions")
            )
        return None

    def _with_resolution(self, record: SlideRecord) -> SlideRecord:
        """Set the resolution the user states, where it applies."""
        if self.stated is None or (record.mpp is not None and not self.stated.override):
            return record
        if not self.stated.applies(self.archive.slide_path(record)):
            self.summary.notes.append(
                f"{record.id}: states its own resolution, so {self.stated.mpp:g} µm/px was not used"
                " (pass --override-mpp to use it)"
            )
            return record
        return replace(record, mpp=self.stated.mpp)

    def _put(self, slide: SlideRow) -> None:
        """Commit one slide and drop the results of content or settings that changed."""
        before = self.slides.whole(slide.id)
        if before == slide:
            self.summary.unchanged.append(slide.id)
            return
        catalog = self.archive.catalog
        with catalog.transaction():
            self.slides.put(slide)
            if before and (before.content, before.record.mpp) != (slide.content, slide.record.mpp):
                catalog.forget_stages(slide.id, ("select", "featurize", "encode"))
            elif before and before.record.site != slide.record.site:
                catalog.forget_stages(slide.id, ("encode",))
        self.known.add(slide)
        if before is None:
            self.summary.added.append(slide.id)
            for twin in self.slides.by_fingerprint(slide.fingerprint):
                if twin.id != slide.id:
                    self.summary.notes.append(f"slide {slide.id!r} has the same content as slide {twin.id!r}")
        else:
            self.summary.updated.append(slide.id)
