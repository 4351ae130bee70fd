"""Turn a table of a benchmark configuration into a dataclass, with errors that name the key and the way out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from slideseek.config import typed_value
from slideseek.errors import UsageError
from slideseek.options import option_types
from slideseek.plugins import nearest

Made = TypeVar("Made")


def make_table(kind: type[Made], table: Mapping[str, Any], where: str, base: Path | None = None) -> Made:
    """Make a dataclass of a TOML table: unknown keys, missing keys and wrong types are a `UsageError`.

    where: the table's name in messages. base: where relative paths among its values start.
    """
    fields = {spec.name: spec for spec in dataclasses.fields(kind) if spec.init}  # type: ignore[arg-type]
    hints = option_types(kind)
    for key in table:
        if key not in fields:
            near = nearest(key, fields)
            raise UsageError(
                f"{where}: unknown key {key!r}", f"did you mean {near!r}?" if near else f"known: {', '.join(fields)}"
            )
    for name, spec in fields.items():
        required = spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING
        if required and name not in table:
            raise UsageError(f"{where}.{name} is missing", f"add {name} = ... to the table")
    values = {key: typed_value(hints[key], value, f"{where}.{key}") for key, value in table.items()}
    if base is not None:
        values = {key: base / value if isinstance(value, Path) else value for key, value in values.items()}
    try:
        return kind(**values)
    except ValueError as error:  # ranges: by convention the message begins with the field's name
        raise UsageError(f"{where}.{error}") from error
