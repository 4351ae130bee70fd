"""The limit on images that are decoded whole, against decompression bombs."""

from __future__ import annotations

from pathlib import Path

from slideseek.errors import SlideError

MAX_PLAIN_PIXELS = 178_956_970
"""Most pixels of an image decoded whole: Pillow's limit against decompression bombs, 0.5 GiB of RGB."""


SUSPICIOUS_PIXELS, PIXELS_PER_BYTE = 2**24, 1000
"""An image of so many pixels, with so many in one byte of its file, shows nothing: it was made to fill the memory."""


def refuse_bomb(path: Path, pixels: int) -> None:
    """Raise `SlideError` for an image that has more pixels than is allowed, or than its file can describe."""
    if pixels > MAX_PLAIN_PIXELS:
        raise too_many_pixels(path)
    if pixels > SUSPICIOUS_PIXELS and pixels > PIXELS_PER_BYTE * path.stat().st_size:
        raise SlideError(
            f"{path.name} has {pixels:,} pixels in {path.stat().st_size:,} bytes: it is empty, or a decompression bomb",
            "use the slide that it was made from",
        )


def too_many_pixels(path: Path) -> SlideError:
    """Return the error for an image too large to be decoded whole."""
    return SlideError(
        f"{path.name} has more than {MAX_PLAIN_PIXELS:,} pixels, the limit for an image that OpenSlide cannot read",
        "convert it to a pyramidal tiled TIFF, which is read piece by piece",
    )
