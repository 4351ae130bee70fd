"""Describe a component class and its options, for the reference and for `slideseek plugins show`."""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from slideseek.options import AT_QUERY, is_required, nested_kind, option_types


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """One option. `default` is its TOML-like spelling, "" if not set; `required` means that no default exists.

    at_query: whether it may also be given with a query.
    """

    name: str
    type: str
    default: str
    required: bool
    at_query: bool = False


def describe_options(component: type[Any]) -> list[Option]:
    """Return the options of a component class, in the order of its fields."""
    hints = option_types(component)
    return [
        Option(spec.name, _type(hints[spec.name]), _default(spec), is_required(spec), bool(spec.metadata.get(AT_QUERY)))
        for spec in dataclasses.fields(component)
        if spec.init
    ]


def describe(component: type[Any]) -> str:
    """Return the docstring of a component class, with its base classes' descriptions of inherited options.

    From a base class, the paragraphs that start with the name of an option (`words: how many`) are used, unless the
    class itself describes that option.
    """
    options = {spec.name for spec in dataclasses.fields(component) if spec.init}
    paragraphs = [inspect.getdoc(component) or ""]
    described = {name for text in paragraphs[0].split("\n\n") for name in _described_by(text)}
    for base in filter(dataclasses.is_dataclass, component.__mro__[1:]):
        for text in inspect.cleandoc(base.__doc__ or "").split("\n\n"):
            names = _described_by(text)
            if names and set(names) <= options - described:
                paragraphs.append(text)
                described.update(names)
    return "\n\n".join(paragraphs)


def _described_by(paragraph: str) -> list[str]:
    """Return the options a paragraph describes: `centre, scale: what they do` describes two."""
    found = re.match(r"([a-z]\w*(?:, [a-z]\w*)*): ", paragraph)
    return found[1].split(", ") if found else []


def _default(spec: dataclasses.Field[Any]) -> str:
    if is_required(spec):
        return ""
    value = spec.default if spec.default_factory is dataclasses.MISSING else spec.default_factory()
    return _spell(value)


def _spell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | Path):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_spell, value))}]"
    return str(value)


def _type(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    nested, many = nested_kind(hint)
    if nested:
        return f"array of {nested} tables" if many else f"{nested} table"
    if origin is Literal:
        return " or ".join(map(_spell, inner))
    if origin in (Union, types.UnionType):
        return " or ".join(_type(part) for part in inner if part is not type(None))
    if origin in (tuple, list):
        return f"array of {_type(inner[0])}" if inner else "array"
    names = {int: "integer", float: "number", bool: "true or false", str: "text", Path: "path"}
    return names.get(hint, getattr(hint, "__name__", str(hint)))
