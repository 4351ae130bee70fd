"""Turn patches, bags and codes into stored payloads and back; the SHA-256 is checked at every read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slideseek.archive.features import read_features, write_features
from slideseek.archive.files import safe_name
from slideseek.archive.records import Payload
from slideseek.digests import digest_bytes, sha256_file
from slideseek.errors import DamagedError
from slideseek.types import Bag, Code, CodeSpec, Patches

_AREAS = ("tissue_um2", "left_out_um2")
"""What a selector measured, as far as it did; results of an older slideseek have neither."""


def pack_patches(key: str, patches: Patches, slide_mpp: float) -> Payload:
    """Store patches in the catalogue: xy as little-endian int32, mpp as float64, then each score as float32."""
    xy, mpp = patches.xy.astype("<i4"), patches.mpp.astype("<f8")
    data = b"".join([xy.tobytes(), mpp.tobytes(), *(s.astype("<f4").tobytes() for s in patches.scores.values())])
    meta: dict[str, Any] = {"n": len(patches), "size": patches.size, "slide_mpp": slide_mpp}
    if patches.measured or patches.scores:
        meta |= {"measured": dict(patches.measured), "scores": list(patches.scores)}
    meta |= {name: area for name in _AREAS if (area := getattr(patches, name)) is not None}
    return Payload(key, "patches", meta, digest_bytes(data), data=data)


def unpack_patches(payload: Payload, slide_id: str) -> Patches:
    """Read patches back."""
    data, n, names = _data(payload), int(payload.meta["n"]), payload.meta.get("scores", ())
    if len(data) != n * (16 + 4 * len(names)):
        raise _damaged(payload)
    xy = np.frombuffer(data, "<i4", count=2 * n).reshape(n, 2).astype(np.int32)
    mpp = np.frombuffer(data, "<f8", count=n, offset=8 * n).astype(np.float64)
    score = np.frombuffer(data, "<f4", offset=16 * n).reshape(len(names), n).astype(np.float32)
    areas: list[Any] = [payload.meta.get(name) for name in _AREAS]
    known = {"measured": payload.meta.get("measured", {}), "scores": dict(zip(names, score))}
    return Patches(slide_id, xy, int(payload.meta["size"]), mpp, *areas, **known)


def feature_file(folder: str, slide_id: str) -> str:
    """Return the path of a slide's feature file, relative to the archive's folder."""
    return f"{folder}/{safe_name(slide_id)}.h5"


def store_features(
    root: Path, folder: str, key: str, bag: Bag, patches: Patches, slide_mpp: float, file: str = ""
) -> Payload:
    """Write a bag to `root`/`folder`/<slide>.h5, or to `file`, and return the payload that points to it."""
    file = file or feature_file(folder, bag.slide_id)
    write_features(root / file, bag.features, patches, slide_mpp, key)
    meta = {"n": len(bag), "width": bag.width, "measured": dict(patches.measured)}
    return Payload(key, "features", meta, sha256_file(root / file), file=file)


def load_bag(root: Path, payload: Payload, slide_id: str, site: str, trusted: bool = False) -> Bag:
    """Read a bag from its feature file; a trusted file was checked before and is not hashed again."""
    if not payload.sha256:
        raise _damaged(payload)
    path = root / (payload.file or "")
    if not path.is_file():
        raise DamagedError(f"{path} is missing", "run 'slideseek build' to compute it again")
    if not trusted and sha256_file(path) != payload.sha256:
        raise _damaged(payload)
    stored = read_features(path)
    return Bag(slide_id, stored.features, stored.xy, site, stored.sides, stored.mpp)


def pack_code(key: str, code: Code, spec: CodeSpec) -> Payload:
    """Store a code in the catalogue; sparse codes as (column, value) pairs of the non-zero values."""
    meta: dict[str, Any] = {"kind": spec.kind, "width": spec.width, "rows": len(code), "space": code.space}
    if spec.kind == "sparse":
        row, column = np.nonzero(code.rows)
        meta["nonzero"] = len(row)
        parts: list[NDArray[Any]] = [row.astype("<i4"), column.astype("<i4"), code.rows[row, column].astype("<f4")]
    else:
        parts = [code.rows.astype("<f4") if spec.kind == "float" else code.rows]
    data = b"".join(part.tobytes() for part in parts)
    return Payload(key, "code", meta, digest_bytes(data), data=data)


def unpack_code(payload: Payload, slide_id: str) -> Code:
    """Read a code back."""
    data, meta = _data(payload), payload.meta
    spec, n = CodeSpec(meta["kind"], int(meta["width"]), many=True), int(meta["rows"])
    columns, dtype = spec.row_shape
    if spec.kind == "sparse":
        count = int(meta["nonzero"])
        if len(data) != 12 * count:
            raise _damaged(payload)
        row, column = np.frombuffer(data, "<i4", count=2 * count).reshape(2, count)
        rows = np.zeros((n, columns), np.float32)
        rows[row, column] = np.frombuffer(data, "<f4", offset=8 * count)
        return Code(slide_id, rows, meta["space"])
    if len(data) != n * columns * dtype.itemsize:
        raise _damaged(payload)
    stored = np.frombuffer(data, dtype.newbyteorder("<")).reshape(n, columns)
    return Code(slide_id, stored.astype(dtype, copy=False), meta["space"])


def _data(payload: Payload) -> bytes:
    if payload.data is None or digest_bytes(payload.data) != payload.sha256:
        raise _damaged(payload)
    return payload.data


def _damaged(payload: Payload) -> DamagedError:
    where = payload.file or f"{payload.kind} {payload.key[:16]} in the catalogue"
    return DamagedError(
        f"{where} does not match its SHA-256", "run 'slideseek build --verify' to compute it again; check the disk"
    )
