"""Remove slides from an archive: their records and results, never the user's files."""

from __future__ import annotations

from collections.abc import Sequence

from slideseek.archive.archive import Archive
from slideseek.did_you_mean import did_you_mean
from slideseek.errors import UsageError


def remove_slides(archive: Archive, slide_ids: Sequence[str]) -> None:
    """Remove slides in one commit; an unknown id is an error and nothing is removed. Slide files are not touched."""
    catalog = archive.catalog
    known = set(catalog.slides.ids())
    for slide_id in slide_ids:
        if slide_id not in known:
            hint = did_you_mean(slide_id, known, "'slideseek status' lists the slides")
            raise UsageError(f"no slide {slide_id!r} in this archive", hint)
    with catalog.transaction():
        for slide_id in slide_ids:
            catalog.slides.remove(slide_id)
        catalog.sweep_payloads()
    archive.delete_discarded()
