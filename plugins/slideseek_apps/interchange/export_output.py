"""What every export shares: the slides to export, the output folder, and a summary of what was written."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from slideseek.archive.archive import Archive
from slideseek.archive.manifest import Problem
from slideseek.archive.slide_table import SlideRow
from slideseek.did_you_mean import did_you_mean
from slideseek.errors import SlideseekError, UsageError
from slideseek_apps.reports.sharing import IDENTIFIED, Sharing, private_file


@dataclass(frozen=True, slots=True)
class Destination:
    """The output folder of an export. force: existing files may be replaced. sharing: how slides are named."""

    folder: Path
    force: bool = False
    sharing: Sharing = IDENTIFIED

    def writing(self, path: Path) -> AbstractContextManager[Path]:
        """Yield a temporary file that becomes `path`; others of the machine cannot read it."""
        return private_file(path)

    def claim(self, names: Sequence[str]) -> list[Path]:
        """Return the paths for files of these names, before any is written. An existing file is an error."""
        if self.folder.exists() and not self.folder.is_dir():
            raise UsageError(f"{self.folder} is not a folder", "pass -o DIR")
        paths = [self.folder / name for name in names]
        there = [path for path in paths if path.exists()]
        if there and not self.force:
            more = f" (and {len(there) - 1} more)" if len(there) > 1 else ""
            raise UsageError(f"{there[0]} already exists{more}", "pass --force to replace it, or another -o DIR")
        return paths


@dataclass(slots=True)
class ExportSummary:
    """What an export wrote: files, the slides in them, and requested slides that could not be exported."""

    files: list[str] = field(default_factory=list)
    slides: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def wrote(self, path: Path, *slides: str) -> None:
        """Record a file that was written."""
        self.files.append(str(path))
        self.slides.extend(slides)


@dataclass(frozen=True, slots=True)
class SlideChoice:
    """The slides of an export: those requested by id, or all."""

    rows: Sequence[SlideRow]
    named: bool

    @classmethod
    def of(cls, archive: Archive, ids: Sequence[str]) -> SlideChoice:
        """Look up the ids. An unknown id is an error that names the nearest one."""
        rows = {row.id: row for row in archive.catalog.slides}
        for slide_id in ids:
            if slide_id not in rows:
                hint = did_you_mean(slide_id, rows, "'slideseek status' lists the slides")
                raise UsageError(f"no slide {slide_id!r} in this archive", hint)
        return cls([rows[i] for i in dict.fromkeys(ids)] or list(rows.values()), bool(ids))

    def leave_out(self, missing: Sequence[str], what: str, fix: str, summary: ExportSummary) -> None:
        """Report slides that have nothing to export: a problem for each requested slide, otherwise one note."""
        if missing and len(missing) == len(self.rows):
            raise SlideseekError(f"no {'requested ' if self.named else ''}slide has {what}", fix)
        if self.named:
            summary.problems.extend(Problem(slide_id, f"it has no {what}", fix) for slide_id in missing)
        elif missing:
            summary.notes.append(f"{len(missing)} slide(s) have no {what} and were left out: {fix}")
