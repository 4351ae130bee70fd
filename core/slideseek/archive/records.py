"""Rows of the catalogue as data classes: stages, results, models and saved indexes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from slideseek.digests import Seal

Stage: TypeAlias = Literal["select", "featurize", "encode"]
Status: TypeAlias = Literal["done", "empty", "failed"]


@dataclass(frozen=True, slots=True)
class StageRecord:
    """The state of one slide at one stage with one set of settings.

    key: content-and-settings key of the result. items: patches, features or code rows. seconds: wall time of
    the last attempt. unreadable: regions that could not be decoded. filled: pixels filled with background. made_by:
    distribution and version of the component, and the reader if a plugin read the pixels; "" for results of an older
    slideseek.
    """

    slide_id: str
    stage: Stage
    settings: str
    key: str
    status: Status
    cause: str = ""
    fix: str = ""
    notes: tuple[str, ...] = ()
    attempts: int = 1
    seconds: float = 0.0
    items: int = 0
    bytes: int = 0
    unreadable: int = 0
    filled: int = 0
    updated: str = ""
    made_by: str = ""


@dataclass(frozen=True, slots=True)
class Payload:
    """One stored result: bytes in the catalogue, or a file below the archive's folder."""

    key: str
    kind: Literal["patches", "features", "code"]
    meta: Mapping[str, Any]
    sha256: str
    data: bytes | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """Where a finished stage's result is stored: its key, and its file below the archive's folder if it has one."""

    key: str
    file: str | None


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A fitted encoder: where it is, what it learnt from, and the SHA-256 of each of its files."""

    settings: str
    key: str
    folder: str
    learnt_from: str
    files: Mapping[str, str]
    slides: int
    seconds: float
    created: str = ""


@dataclass(frozen=True, slots=True)
class IndexRow:
    """A saved index, the generation of the codes it was derived from, and the seal of each of its files."""

    engine: str
    settings: str
    codes: str
    generation: int
    folder: str
    files: Mapping[str, Seal]
    slides: int
    bytes: int
    created: str = ""
