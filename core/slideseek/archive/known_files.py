"""Which slide of an archive a file is, found without resolving the path of every slide."""

from __future__ import annotations

from pathlib import Path

from slideseek.archive.archive import Archive
from slideseek.archive.slide_table import SlideRow


class KnownFiles:
    """Find slides by their file, through whatever links either path leads.

    Candidates are slides whose file has the same name, as given or at the end of its links, and slides of the same
    content; only their paths are resolved, so one file among 100,000 slides costs no 100,000 questions to the disk.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._slides = archive.catalog.slides
        self._ids: dict[str, list[str]] = {}
        for slide_id, path in self._slides.field("path").items():
            self._ids.setdefault(path.rpartition("/")[2], []).append(slide_id)

    def find(self, file: Path, fingerprint: str = "") -> SlideRow | None:
        """Return the slide a file is of. fingerprint: of its content, where it is known."""
        real = file.resolve()
        ids = dict.fromkeys([*self._ids.get(file.name, ()), *self._ids.get(real.name, ())])
        rows = [row for slide_id in ids if (row := self._slides.get(slide_id)) is not None]
        if fingerprint:
            rows += self._slides.by_fingerprint(fingerprint)
        for row in rows:
            if self._archive.slide_path(row.record).resolve() == real:
                return row
        return None

    def add(self, slide: SlideRow) -> None:
        """Remember a slide that was just put into the catalogue."""
        self._ids.setdefault(slide.record.path.rpartition("/")[2], []).append(slide.id)
