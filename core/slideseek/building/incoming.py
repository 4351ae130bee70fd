"""Results of processes that do not write the catalogue, left in the archive's folder until a build takes them in.

Each is named by its key, so by what it was made of and with which settings: `incoming/KEY.json`, and `incoming/KEY.h5`
for features. A process that is killed leaves whole files or none.
"""

from __future__ import annotations

import json
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from slideseek.archive.files import move, remove, write_text
from slideseek.archive.payloads import load_bag, unpack_patches
from slideseek.archive.records import Payload, Stage

FOLDER = "incoming"

KEPT_SECONDS = 14 * 24 * 3600.0
"""Age beyond which a file that no build has asked for is removed: its slide or its settings are gone."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about a slide's pixels: µm per level-0 pixel, notes, what could not be read, and the reader."""

    mpp: float
    notes: tuple[str, ...] = ()
    unreadable: int = 0
    filled: int = 0
    read_by: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one stage for one engine: a stored result with its facts, or the cause of a failure.

    passing: as in `SlideReport`.
    """

    engine: str
    stage: Stage
    seconds: float = 0.0
    payload: Payload | None = None
    facts: Facts | None = None
    cause: str = ""
    fix: str = ""
    passing: bool = False


class Incoming:
    """The results that wait in an archive. root: the archive's folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, result: Result) -> None:
        """Leave a result; its features, if it has any, are stored before."""
        if result.payload is not None:
            packed = {**asdict(result), "payload": pack_payload(result.payload)}
            write_text(self._path(result.payload.key), json.dumps(packed))

    def get(self, key: str, engine: str) -> Result | None:
        """Return the result with a key, None if there is none. engine: whose result it is to be."""
        try:
            packed = json.loads(self._path(key).read_text(encoding="utf-8"))
            facts = packed["facts"] and Facts(**{**packed["facts"], "notes": tuple(packed["facts"]["notes"])})
            payload = unpack_payload({**packed["payload"], "key": key})
            return Result(**{**packed, "engine": engine, "facts": facts, "payload": payload})
        except (OSError, ValueError, KeyError, TypeError):  # none, or not one of ours
            return None

    def take(self, payload: Payload, file: str) -> Payload:
        """Move features to their place in the archive; raise `DamagedError` if a result is not as it was made.

        file: their place below the archive's folder, "" to leave them where they are.
        """
        if payload.kind == "patches":
            unpack_patches(payload, "")
            return payload
        left = self._path(payload.key, "h5")
        here = replace(payload, file=f"{FOLDER}/{left.name}" if left.is_file() else file)
        load_bag(self._root, here, "", "")
        if not file or here.file == file:  # a build was killed after it had moved the file
            return here
        move(left, self._root / file)
        return replace(payload, file=file)

    def drop(self, key: str) -> None:
        """Remove a result: it is committed, or cannot be used."""
        for suffix in ("json", "h5"):
            remove(self._path(key, suffix))

    def sweep(self) -> None:
        """Remove what no build has asked for in a long time, and what killed processes left unfinished."""
        with suppress(FileNotFoundError):
            for path in (self._root / FOLDER).iterdir():
                if time.time() - path.stat().st_mtime > KEPT_SECONDS:
                    remove(path)

    def _path(self, key: str, suffix: str = "json") -> Path:
        return self._root / FOLDER / f"{key}.{suffix}"


def pack_payload(payload: Payload | None) -> dict[str, Any] | None:
    """Return a stored result as data that JSON has."""
    if payload is None:
        return None
    return {**asdict(payload), "data": b64encode(payload.data).decode() if payload.data is not None else None}


def unpack_payload(packed: Mapping[str, Any] | None) -> Payload | None:
    """Return what `pack_payload` made of a stored result."""
    if packed is None:
        return None
    return Payload(**{**packed, "data": b64decode(packed["data"]) if packed["data"] is not None else None})
