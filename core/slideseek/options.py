"""Options: create a dataclass from a table of a configuration."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import math
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from slideseek.did_you_mean import did_you_mean
from slideseek.errors import PluginError, UsageError, message

Made = TypeVar("Made")
MakeInner: TypeAlias = Callable[[str, Any, str], Any]
"""`make(kind, table, where)` creates the component of a nested table, `of = { use = "gmm-fv" }`."""

AT_QUERY = "at_query"
"""Metadata of an option that may also be given with a query: `field(default=1, metadata={"at_query": True})`."""

ADDED_LATER: Mapping[str, bool] = types.MappingProxyType({"added_later": True})
"""Metadata of an option that older archives do not know, whose default does what was done before it existed.

While it has its default it is left out of the keys of results, so those archives stay valid: the default never changes.
"""


def from_table(
    kind: type[Made],
    table: Mapping[str, Any],
    where: str,
    what: str = "",
    base: Path | None = None,
    make: MakeInner | None = None,
) -> Made:
    """Create a dataclass from a TOML table; unknown keys, missing keys and wrong types raise `UsageError`.

    Values are checked against the types of the fields without surprising coercion: no bool for an int, no text for a
    number. Ranges are checked by the class in `__post_init__`.

    where: the key path for messages, such as `engine.sbfv-5k.encoder`. what: the name of the class in messages, by
    default `where`. base: the folder that relative paths among the values refer to. make: creates the components that
    options name by a nested table.
    """
    what = what or where
    fields = {spec.name: spec for spec in dataclasses.fields(kind) if spec.init}  # type: ignore[arg-type]
    hints = option_types(kind)
    for key in table:
        if key not in fields:
            known = f"options: {', '.join(fields)}" if fields else "it has no options"
            raise UsageError(f"{where}.{key}: no option {key!r} in {what}", did_you_mean(key, fields, known))
    for key, spec in fields.items():
        if is_required(spec) and key not in table:
            raise UsageError(f"{where}.{key}: {what} needs this option", f"add {key} = ... to the table")
    values = {key: _value(hints[key], value, f"{where}.{key}", make) for key, value in table.items()}
    if base is not None:
        values = {key: base / value if isinstance(value, Path) else value for key, value in values.items()}
    try:
        return kind(**values)
    except ValueError as error:  # ranges: by convention the message starts with the field's name
        raise UsageError(f"{where}.{error}", "correct the value") from error


def _value(hint: Any, value: Any, where: str, make: MakeInner | None) -> Any:
    """Return one value of a table, checked; a nested table becomes the component it describes."""
    inner, many = nested_kind(hint)
    if not inner or make is None:
        return typed_value(hint, value, where)
    if not many:
        return make(inner, value, where)
    if not isinstance(value, list) or not value:
        raise UsageError(f"{where}: must be an array of {inner} tables", 'write [{ use = "NAME" }, ...]')
    return tuple(make(inner, table, f"{where}[{number}]") for number, table in enumerate(value))


def nested_kind(hint: Any) -> tuple[str, bool]:
    """Return the kind of component an option takes ("" for a plain value), and whether it takes several.

    An option takes a component if its type is the protocol of a kind (`Encoder`) or a tuple of it.
    """
    from slideseek.interfaces import KIND_PROTOCOLS

    kinds = {protocol: kind for kind, protocol in KIND_PROTOCOLS.items()}
    many = get_origin(hint) is tuple
    inner = get_args(hint)[0] if many and get_args(hint) else hint
    return (kinds.get(inner, ""), many) if isinstance(inner, type) else ("", False)


def nested_components(component: Any) -> Iterator[tuple[str, Any]]:
    """Yield the components that a component is made of, each with the name of its option."""
    for name, hint in option_types(type(component)).items():
        kind, many = nested_kind(hint)
        if kind:
            yield from ((name, part) for part in (getattr(component, name) if many else (getattr(component, name),)))


def changed_copy(component: Made, values: Mapping[str, Any]) -> Made:
    """Return a component with other values of some options; what it has learnt or loaded is shared.

    The values are checked as those of a configuration. A value out of range is a `UsageError`.
    """
    hints = option_types(type(component))
    typed = {name: typed_value(hints[name], value, name) for name, value in values.items()}
    try:
        dataclasses.replace(component, **typed)  # type: ignore[type-var]  # checks ranges; its state is empty
    except ValueError as error:
        raise UsageError(str(error), "correct the value") from error
    changed = copy.copy(component)
    for name, value in typed.items():
        object.__setattr__(changed, name, value)
    return changed


def query_options(component: Any) -> tuple[str, ...]:
    """Return the names of the options that may be given with a query."""
    return tuple(spec.name for spec in dataclasses.fields(component) if spec.metadata.get(AT_QUERY))


def typed_value(hint: Any, value: Any, where: str) -> Any:
    """Check one value against a type without coercion; JSON mode accepts an array as a tuple and text as a path."""
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{where}: must be a finite number, not {value}", "write a finite number")
    # Most options are plain values: they are checked without pydantic, whose import would delay every first build.
    known = get_args(hint) if get_origin(hint) is Literal else ()
    if (hint in (bool, int, float) and type(value) is hint) or (type(value) is str and value in known):
        return value
    if hint is float and type(value) is int and abs(value) <= 2**53:  # above it, not every whole number is a float
        return float(value)
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(hint).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        inner = "".join(f"[{part}]" for part in first["loc"] if isinstance(part, int))
        wanted = first["msg"].replace("Input should be", "must be")
        raise UsageError(f"{where}{inner}: {wanted}, not {json.dumps(value)}", "correct the value") from error
    except TypeError as error:
        cause = f"{where}: {type(value).__name__} values are not allowed in options"
        raise UsageError(cause, "write text or a number") from error


def option_types(component: type[Any]) -> dict[str, Any]:
    """Return the type of each option. Other annotations, such as those of learnt state, need not be resolvable."""
    found: dict[str, Any] = {}
    for spec in dataclasses.fields(component):
        if not spec.init:
            continue
        owner = next(base for base in component.__mro__ if spec.name in inspect.get_annotations(base))
        written = inspect.get_annotations(owner)[spec.name]
        holder = types.SimpleNamespace(__annotations__={spec.name: written})
        try:
            found |= get_type_hints(holder, vars(sys.modules[owner.__module__]), dict(vars(owner)))
        except Exception as error:  # an annotation is an expression: evaluating it may raise anything
            raise PluginError(
                f"class {component.__qualname__}: the annotation {written!r} of option {spec.name!r} cannot be"
                f" resolved at run time ({message(error)})",
                "import what it names at the top of the module, not under TYPE_CHECKING",
            ) from error
    return found


def is_required(spec: dataclasses.Field[Any]) -> bool:
    """Return whether an option has no default."""
    return spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING
