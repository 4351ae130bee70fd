"""The published form of what is in a results folder: the record of a cell, and the card of an encoder.

The JSON schemas of these forms are in the folder `schemas` of this package, for tools that read or write such folders.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slideseek.errors import SlideseekError

SCHEMAS = Path(__file__).with_name("schemas")


class _Form(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class DatasetRecord(_Form):
    """The dataset of a cell. fingerprint: SHA-256 of its slides, features and labels."""

    name: str
    fingerprint: str = ""
    slides: int = 0
    patients: int = 0


class ProtocolRecord(_Form):
    """The protocol of a cell."""

    name: str
    mode: Literal["vertical", "horizontal"] = "horizontal"
    target: str = "label"
    leave_out: str = "patient"
    fit: str = "none"
    k: int = 0
    candidates: str = "all"


class CellRecord(_Form):
    """`cell.json`: what a cell is, and what it cost. Its ranked lists are in `hits.csv` beside it."""

    version: Literal[1]
    key: str
    kind: Literal["retrieval", "classification", "training"]
    name: str
    engine: str
    dataset: DatasetRecord
    protocol: ProtocolRecord
    seed: int
    control: bool = False
    options: dict[str, Any] = Field(default_factory=dict)
    sweep: dict[str, Any] = Field(default_factory=dict)
    times: dict[str, float | None] = Field(default_factory=dict)
    bytes_per_slide: float | None = None
    peak_memory_mb: float | None = None
    versions: dict[str, Any] = Field(default_factory=dict)
    created: str = ""
    trial: bool = False
    command: str = ""
    guards_off: list[str] = Field(default_factory=list)
    not_encoded: dict[str, str] = Field(default_factory=dict)


class EncoderCard(_Form):
    """`cards/<engine>.json`: what a reader of a ranking must know about an engine.

    training_cohorts: the data its networks and its encoder were trained on. weights_sha256: of the weights, "" for an
    engine without any. seen_this_cohort: whether slides of the benchmark's cohort were among the training data.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    engine: str = Field(min_length=1)
    description: str = ""
    training_cohorts: list[str]
    weights_sha256: str = Field(pattern=r"^([0-9a-f]{64})?$")
    licence: str = Field(min_length=1)
    seen_this_cohort: Literal["yes", "no", "unknown"]
    reference: str = ""


FORMS: dict[str, type[_Form]] = {"cell": CellRecord, "card": EncoderCard}


def schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of a form: `cell` or `card`."""
    made = FORMS[name].model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def check_form(name: str, record: Any, where: str, fix: str) -> None:
    """Raise `SlideseekError` unless a record has the published form; the message names the field."""
    try:
        FORMS[name].model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "it"
        raise SlideseekError(f"{where} is not the record of a {name} ({field}: {first['msg']})", fix) from None
