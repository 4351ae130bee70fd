"""The one-line reasons why a file is no slide, each with what to do about it."""

from __future__ import annotations

from pathlib import Path

from slideseek.errors import SlideError

MAX_PLAIN_PIXELS = 178_956_970
"""Pixels of an image that must be decoded whole: the limit Pillow sets against decompression bombs, 0.5 GiB of RGB."""


def one_line(error: BaseException) -> str:
    """Return the message of a library's error on one short line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 160 else text[:157] + "..."


def not_a_slide(path: Path) -> SlideError:
    """Return the error for a file that is no image at all."""
    return SlideError(
        f"{path.name} is not a slide OpenSlide or Pillow can read",
        "check that it is a slide and not another file renamed, or copy it again",
    )


def damaged(path: Path, error: BaseException) -> SlideError:
    """Return the error for a file that starts like a slide and cannot be decoded."""
    return SlideError(
        f"{path.name} is damaged, truncated or of an unsupported kind ({one_line(error)})",
        "copy the file again, or convert it to a pyramidal tiled TIFF",
    )


def truncated(path: Path, missing: int) -> SlideError:
    """Return the error for a file that ends before its pixels do."""
    return SlideError(f"{path.name} is truncated: {missing:,} bytes of its pixels are missing", "copy the file again")


def too_many_pixels(path: Path) -> SlideError:
    """Return the error for an image too large to be decoded whole."""
    return SlideError(
        f"{path.name} has more than {MAX_PLAIN_PIXELS:,} pixels, the most for an image that OpenSlide does not read",
        "convert it to a pyramidal tiled TIFF, which is read piece by piece",
    )
