"""Find the slide of an archive that a file belongs to, without resolving every slide's path."""

from __future__ import annotations

from pathlib import Path

from slideseek.archive.archive import Archive
from slideseek.archive.slide_table import SlideRow


class KnownFiles:
    """Find slides by their file, even if either path contains links.

    Candidates are slides whose file has the same name, as given or after following links, and slides of the same
    content. Only their paths are resolved, so looking up one file does not touch the disk 100,000 times.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._slides = archive.catalog.slides
        self._ids: dict[str, list[str]] = {}
        for slide_id, path in self._slides.field("path").items():
            self._ids.setdefault(path.rpartition("/")[2], []).append(slide_id)

    def find(self, file: Path, fingerprint: str = "") -> SlideRow | None:
        """Return the slide of a file. fingerprint: of its content, if known."""
        real = file.resolve()
        ids = dict.fromkeys([*self._ids.get(file.name, ()), *self._ids.get(real.name, ())])
        rows = self._slides.some(list(ids))
        if fingerprint:
            rows += self._slides.by_fingerprint(fingerprint)
        for row in rows:
            if self._archive.slide_path(row.record).resolve() == real:
                return row
        return None

    def add(self, slide: SlideRow) -> None:
        """Remember a slide that was just added to the catalogue."""
        self._ids.setdefault(slide.record.path.rpartition("/")[2], []).append(slide.id)
