"""Learnt state on disk: `model.json` describes it, `model.safetensors` contains the numbers.

Both are checked before a number is used: format version, encoder, options, and the shape and type of every tensor
against what the facts in the JSON imply. Nothing is unpickled.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from slideseek.errors import DamagedError, SlideseekError

FORMAT = 1
MOST_VALUES = 2**32
"""Most values in a model: a header that claims more is rejected before anything is allocated."""

Tensors: TypeAlias = dict[str, NDArray[Any]]
Facts: TypeAlias = dict[str, Any]
Layout: TypeAlias = Mapping[str, tuple[tuple[int, ...], str]]
"""Tensor name -> (shape, NumPy type name)."""


def deciding_options(encoder: Any) -> dict[str, Any]:
    """Return the options of a component that affect its result, as stored in JSON."""
    options = {
        item.name: getattr(encoder, item.name)
        for item in dataclasses.fields(encoder)
        if item.init and item.metadata.get("affects_result", True)
    }
    plain: dict[str, Any] = json.loads(json.dumps(options, default=str))
    return plain


def write_atomically(path: Path, payload: bytes) -> None:
    """Write `payload` under a temporary name, sync it and rename it to `path`."""
    temporary = path.with_name(f".{path.name}.part")
    with temporary.open("wb") as file:
        file.write(payload)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_model(folder: Path, name: str, options: Mapping[str, Any], facts: Facts, tensors: Tensors) -> None:
    """Write a model of the encoder registered as `name` into the existing `folder`; the JSON comes last."""
    head = {"format": FORMAT, "encoder": name, "options": dict(options), "facts": facts}
    arrays = {key: np.ascontiguousarray(value) for key, value in tensors.items()}
    write_atomically(folder / "model.safetensors", save(arrays))
    write_atomically(folder / "model.json", json.dumps(head, indent=1, sort_keys=True).encode())


def read_model(
    folder: Path, name: str, options: Mapping[str, Any], layout: Callable[[Facts], Layout]
) -> tuple[Facts, Tensors]:
    """Return the facts and tensors of the model in `folder`, or raise an error on a mismatch.

    layout: returns the tensors implied by the facts; it may raise `KeyError`, `TypeError` or `ValueError` for bad
    facts.
    """
    head = _read_head(folder)
    if head.get("format") != FORMAT:
        raise SlideseekError(
            f"the model in {folder} has format version {head.get('format')!r}, this slideseek reads {FORMAT}",
            "fit the encoder again, or use the slideseek version that wrote it",
        )
    if head.get("encoder") != name:
        raise SlideseekError(
            f"the model in {folder} was written by encoder {head.get('encoder')!r}, not {name!r}",
            "load it with that encoder, or fit this one",
        )
    _compare_options(folder, head.get("options"), options)
    facts = head.get("facts")
    try:
        if not isinstance(facts, dict):
            raise TypeError("facts is not a table")
        wanted = layout(facts)
        if any(size < 0 for shape, _ in wanted.values() for size in shape):
            raise ValueError("a size is negative")
        if sum(math.prod(shape) for shape, _ in wanted.values()) > MOST_VALUES:
            raise ValueError(f"more than {MOST_VALUES} values")
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(
            f"the facts in {folder / 'model.json'} are invalid ({error})", "fit the encoder again"
        ) from error
    return facts, _read_tensors(folder / "model.safetensors", wanted)


def whole_number(facts: Facts, name: str) -> int:
    """Return a fact that counts something, at least 1; raise `ValueError` for anything else."""
    value = facts[name]
    if type(value) is not int or value < 1:
        raise ValueError(f"{name} is {value!r}")
    return value


def sorted_names(facts: Facts, name: str) -> list[str]:
    """Return a fact that is a sorted list of distinct names; raise `ValueError` for anything else."""
    value = facts[name]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value) or value != sorted(set(value)):
        raise ValueError(f"{name} is {value!r}")
    return value


def check_positive(folder: Path, tensors: Tensors, names: Iterable[str]) -> None:
    """Raise `DamagedError` unless every value of the named tensors, which are divisors, is above 0."""
    for name in names:
        if not (tensors[name] > 0).all():
            raise DamagedError(
                f"tensor {name!r} in {folder / 'model.safetensors'} has values that are not above 0",
                "fit the encoder again",
            )


def _read_head(folder: Path) -> dict[str, Any]:
    path = folder / "model.json"
    try:
        head = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path} cannot be read ({error})", "fit the encoder again") from error
    if not isinstance(head, dict):
        raise DamagedError(f"{path} does not contain a table", "fit the encoder again")
    return head


def _compare_options(folder: Path, stored: Any, options: Mapping[str, Any]) -> None:
    if not isinstance(stored, dict) or set(stored) != set(options):
        raise SlideseekError(
            f"the model in {folder} was fitted with a different set of options", "fit the encoder again"
        )
    for key in sorted(options):
        if stored[key] != options[key]:
            raise SlideseekError(
                f"the model in {folder} was fitted with {key} = {stored[key]!r}, the encoder has {options[key]!r}",
                "use the options the model was fitted with, or fit the encoder again",
            )


def _read_tensors(path: Path, wanted: Layout) -> Tensors:
    tensors: Tensors = {}
    try:
        with safe_open(path, framework="numpy") as file:
            if set(file.keys()) != set(wanted):
                raise DamagedError(
                    f"{path} does not contain the tensors listed in its model.json", "fit the encoder again"
                )
            for key, (shape, dtype) in wanted.items():
                part = file.get_slice(key)
                if tuple(part.get_shape()) != shape or part.get_dtype() != _SAFETENSORS_NAMES[dtype]:
                    raise DamagedError(
                        f"tensor {key!r} in {path} is {part.get_dtype()} {tuple(part.get_shape())}, "
                        f"its model.json implies {_SAFETENSORS_NAMES[dtype]} {shape}",
                        "fit the encoder again",
                    )
            for key in wanted:
                tensors[key] = file.get_tensor(key)
    except (OSError, SafetensorError) as error:
        raise DamagedError(f"{path} cannot be read ({error})", "fit the encoder again") from error
    for key, value in tensors.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise DamagedError(f"tensor {key!r} in {path} has NaN or infinite values", "fit the encoder again")
    return tensors


_SAFETENSORS_NAMES = {"float32": "F32", "float64": "F64", "int64": "I64"}
