"""Uploaded patch images and their limits: checked before decoding, re-encoded, kept for this run only."""

from __future__ import annotations

import hashlib
import io
import threading
import warnings
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from slideseek.errors import UsageError, message

MAX_UPLOAD_BYTES = 16 * 2**20
MAX_UPLOAD_SIDE = 4096
MIN_UPLOAD_SIDE = 16
MAX_PATCHES = 32
FORMATS = ("PNG", "JPEG", "WEBP")
PATCH_PATTERN = "^[0-9a-f]{32}$"
_PREVIEW = 512

_opening = threading.Lock()


@dataclass(frozen=True, slots=True)
class UploadedPatch:
    """A patch image: its key (a digest of its pixels), its size, and the file that searches read."""

    key: str
    width: int
    height: int
    path: Path


class Uploads:
    """Keep the latest uploads as PNG files in a folder that is deleted when the server stops."""

    def __init__(self, folder: Path, most: int = MAX_PATCHES) -> None:
        self._folder = folder
        self._most = most
        self._lock = threading.Lock()
        self._held: OrderedDict[str, UploadedPatch] = OrderedDict()

    def add(self, data: bytes) -> UploadedPatch:
        """Check and store an image. A file that is not an image, too large or damaged raises a `UsageError`.

        The uploaded bytes never reach a search: the pixels are re-encoded without metadata.
        """
        image = _decode(data)
        key = hashlib.sha256(f"{image.size}".encode() + image.tobytes()).hexdigest()[:32]
        with self._lock:
            if key not in self._held:
                path = self._folder / f"{key}.png"
                image.save(path, "PNG", compress_level=1)
                self._held[key] = UploadedPatch(key, image.width, image.height, path)
                while len(self._held) > self._most:
                    _, gone = self._held.popitem(last=False)
                    gone.path.unlink(missing_ok=True)
            self._held.move_to_end(key)
            return self._held[key]

    def get(self, key: str) -> UploadedPatch | None:
        """Return the upload with a key, or None if it is no longer stored."""
        with self._lock:
            return self._held.get(key)

    def preview(self, patch: UploadedPatch) -> bytes:
        """Return the patch as a JPEG of at most 512 pixels per side."""
        with self._lock, Image.open(patch.path) as image:
            image.thumbnail((_PREVIEW, _PREVIEW))
            buffer = io.BytesIO()
            image.save(buffer, "JPEG", quality=90)
        return buffer.getvalue()


def _decode(data: bytes) -> Image.Image:
    """Return an image as RGB; its size is checked in the header before any pixel is decoded."""
    allowed = f"upload a PNG, JPEG or WebP of {MIN_UPLOAD_SIDE} to {MAX_UPLOAD_SIDE} px per side"
    try:
        with _opening, warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=FORMATS)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UsageError("this file is not an image that can be searched", allowed) from error
    with image:
        if not all(MIN_UPLOAD_SIDE <= side <= MAX_UPLOAD_SIDE for side in image.size):
            raise UsageError(f"the image has {image.width} x {image.height} px", allowed)
        try:
            return image.convert("RGB")
        except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError, MemoryError) as error:
            raise UsageError(f"the image cannot be decoded ({message(error)})", allowed) from error
