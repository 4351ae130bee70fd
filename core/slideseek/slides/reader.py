"""Open a slide of any kind, or say in one line why not."""

from __future__ import annotations

from pathlib import Path

import openslide

from slideseek.errors import SlideError
from slideseek.slides.image_reader import damaged, one_line, open_image, open_tiff
from slideseek.slides.openslide_reader import OpenSlideReader
from slideseek.slides.pyramid import PyramidSlide

_TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def open_slide(path: Path, slide_id: str = "", mpp: float | None = None) -> PyramidSlide:
    """Open a whole-slide image or a plain image.

    slide_id: the name in the archive, the file's stem when empty. mpp: µm per pixel stated by the user; it overrides what
    the file says. Raises `SlideError` with cause and fix for anything that is not a readable slide of known resolution.
    """
    path = Path(path)
    slide_id = slide_id or path.stem
    head = _first_bytes(path)
    vendor = openslide.OpenSlide.detect_format(path)
    is_tiff = head.startswith(_TIFF_MAGIC)
    if vendor is None:
        return open_tiff(path, slide_id, mpp) if is_tiff else open_image(path, slide_id, mpp)
    try:
        return OpenSlideReader(path, slide_id, mpp)
    except openslide.OpenSlideError as error:
        if is_tiff:
            return open_tiff(path, slide_id, mpp)
        raise damaged(path, error) from error


def _first_bytes(path: Path) -> bytes:
    """Return the first bytes of a file, or raise `SlideError` for what is wrong with it as a file."""
    try:
        if path.is_dir():
            raise SlideError(f"{path} is a folder, not a slide", "name the slide files in it")
        with path.open("rb") as file:
            head = file.read(16)
    except FileNotFoundError as error:
        raise SlideError(f"{path} does not exist", "check the path") from error
    except PermissionError as error:
        raise SlideError(
            f"{path} may not be read (permission denied)", "ask for read permission on the file"
        ) from error
    except OSError as error:
        raise SlideError(f"{path} cannot be read ({one_line(error)})", "check the disk or the network share") from error
    if not head:
        raise SlideError(f"{path.name} is empty (0 bytes)", "copy the file again")
    return head
