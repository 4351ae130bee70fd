"""Open a slide of any kind, or raise an error that explains why not."""

from __future__ import annotations

from pathlib import Path

import openslide

from slideseek.errors import SlideError
from slideseek.slides.image_reader import open_image
from slideseek.slides.openslide_reader import OpenSlideReader
from slideseek.slides.pyramid import PyramidSlide
from slideseek.slides.slide_errors import cannot_read, damaged, first_bytes, truncated
from slideseek.slides.tiff_layout import MAGIC, missing_bytes
from slideseek.slides.tiff_reader import open_tiff


def open_slide(path: Path, slide_id: str = "", mpp: float | None = None) -> PyramidSlide:
    """Open a whole-slide image or a plain image.

    slide_id: its name in the archive, the file's stem if empty. mpp: µm per pixel stated by the user, which overrides
    the file. Raises `SlideError` for anything that is not a readable slide of known resolution.
    """
    path = Path(path)
    slide_id = slide_id or path.stem
    is_tiff = first_bytes(path).startswith(MAGIC)
    vendor = openslide.OpenSlide.detect_format(path)
    # Hamamatsu writes 64-bit offsets into 32 bits: the standard layout check does not work for such a file.
    if is_tiff and vendor != "hamamatsu":
        _check_complete(path)
    if vendor is None:
        if path.suffix.lower() == ".mrxs":
            # The file itself is a JPEG thumbnail: without its folder it must not be taken for the slide.
            raise SlideError(
                f"{path.name} cannot be read without the folder {path.with_suffix('')}/ that holds its pixels",
                "also copy that folder, next to the .mrxs file",
            )
        return open_tiff(path, slide_id, mpp) if is_tiff else open_image(path, slide_id, mpp)
    try:
        return OpenSlideReader(path, slide_id, mpp)
    except openslide.OpenSlideError as error:
        if is_tiff:
            return open_tiff(path, slide_id, mpp)
        raise damaged(path, error) from error


def _check_complete(path: Path) -> None:
    """Raise `SlideError` for a TIFF that was cut short."""
    try:
        missing = missing_bytes(path)
    except OSError as error:
        raise cannot_read(path, error) from error
    if missing:
        raise truncated(path, missing)
