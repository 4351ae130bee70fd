"""Zarr stores of other tools: find out who wrote one, and read arrays of numbers from it, checked before decoding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slideseek.archive.features import refuse_bomb
from slideseek.errors import SlideError

SUFFIX = ".zarr"
DESCRIPTIONS = ("zarr.json", ".zgroup")
"""The file at the top of a store, of version 3 and 2 of the format: it stands for the store in the archive."""

_CODECS = {"bytes", "transpose", "blosc", "zstd", "gzip", "zlib", "lz4", "lzma", "bz2", "crc32c", "shuffle", "delta"}
_CODECS |= {"sharding_indexed", "vlen-utf8"}
"""Codecs that only unpack. Others, such as numcodecs' pickle, could run code."""


def is_store(path: Path) -> bool:
    """Return whether a folder is a Zarr store."""
    return path.suffix.lower() == SUFFIX and any((path / name).is_file() for name in DESCRIPTIONS)


def description(store: Path) -> Path:
    """Return the file at the top of a store."""
    return next(store / name for name in DESCRIPTIONS if (store / name).is_file())


def open_store(store: Path) -> Any:
    """Open a store for reading. The extra `interchange` brings the library."""
    try:
        import zarr
    except ImportError as error:
        raise SlideError(
            "it is a Zarr store, and the library for it is not installed", "pip install 'slideseek[interchange]'"
        ) from error
    inside = store.resolve()
    for path in store.rglob("*"):
        if path.is_symlink() and not path.resolve().is_relative_to(inside):
            raise ValueError(f"{path.name} is a link to a place outside of the store")
    return zarr.open_group(store, mode="r")


def member(group: Any, name: str) -> Any:
    """Return a group or array of a store, None when there is none."""
    try:
        return group[name]
    except KeyError:
        return None


def numbers(group: Any, name: str, sparse: bool = False) -> NDArray[Any]:
    """Read an array of numbers. sparse: parts that are not stored are zero, as for an array of zeros; else an error."""
    array = member(group, name)
    if array is None or not hasattr(array, "dtype"):
        raise ValueError(f"it has no array {name!r}")
    kind = np.dtype(array.dtype)
    if kind.kind not in "iuf":
        raise ValueError(f"{name!r} is {kind}, not numbers")
    _refuse_codecs(array, name)
    stored = int(array.nbytes_stored())
    chunk = int(np.prod(array.shards or array.chunks)) * kind.itemsize
    refuse_bomb(name, max(int(array.nbytes), chunk), stored)
    if not sparse and array.nchunks_initialized < array.nchunks:
        raise ValueError(f"{name!r} is incomplete: parts of it were never written")
    return np.asarray(array[...])


def text(group: Any, name: str) -> str:
    """Read an array that is one short text; "" when there is none."""
    array = member(group, name)
    if array is None or not hasattr(array, "dtype") or array.shape != ():
        return ""
    _refuse_codecs(array, name)
    return str(array[()])[:64]


def _refuse_codecs(array: Any, name: str) -> None:
    strange = sorted(_codecs(array.metadata.to_dict()) - _CODECS)
    if strange:
        raise ValueError(f"{name!r} is packed with {strange[0]!r}, which is not read")


def _codecs(described: dict[str, Any]) -> set[str]:
    """Return the names of all codecs in the description of an array, those inside shards too."""
    listed = [*(described.get("codecs") or ()), *(described.get("filters") or ()), described.get("compressor")]
    found: set[str] = set()
    for codec in listed:
        if not isinstance(codec, dict):
            continue
        found.add(str(codec.get("name", codec.get("id"))).removeprefix("numcodecs."))
        inner = codec.get("configuration")
        if isinstance(inner, dict):
            found |= _codecs({"codecs": inner.get("codecs"), "filters": inner.get("index_codecs")})
    return found
