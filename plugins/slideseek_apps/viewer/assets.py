"""The static files of the page, read and compressed once. No request reaches the file system."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file with its media type and ETag. packed: it compressed by gzip."""

    data: bytes
    packed: bytes
    kind: str
    etag: str


def load_assets() -> dict[str, Asset]:
    """Return the files in `static/` by relative path, such as `js/main.js`."""
    return dict(_walk(resources.files("slideseek_apps.viewer").joinpath("static"), ""))


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Asset]]:
    for item in folder.iterdir():
        name = f"{prefix}{item.name}"
        if item.is_dir():
            yield from _walk(item, f"{name}/")
        elif (kind := _TYPES.get("." + item.name.rpartition(".")[2])) is not None:
            data = item.read_bytes()
            packed = gzip.compress(data, 9, mtime=0)
            yield name, Asset(data, packed, kind, f'"{hashlib.sha256(data).hexdigest()[:24]}"')
