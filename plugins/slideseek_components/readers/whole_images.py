"""The limit on images that are decoded whole, against decompression bombs."""

from __future__ import annotations

from pathlib import Path

from slideseek.errors import SlideError

MAX_PLAIN_PIXELS = 178_956_970
"""Most pixels of an image decoded whole: Pillow's limit against decompression bombs, 0.5 GiB of RGB."""


def too_many_pixels(path: Path) -> SlideError:
    """Return the error for an image too large to be decoded whole."""
    return SlideError(
        f"{path.name} has more than {MAX_PLAIN_PIXELS:,} pixels, the limit for an image that OpenSlide cannot read",
        "convert it to a pyramidal tiled TIFF, which is read piece by piece",
    )
