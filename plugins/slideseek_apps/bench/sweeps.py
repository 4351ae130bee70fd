"""Sweeps over options: one engine with lists of values becomes one variant per combination of values."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slideseek.config import ComponentConfig, make_component
from slideseek.errors import UsageError
from slideseek.interfaces import Encoder
from slideseek.options import nested_kind, option_types, typed_value
from slideseek.plugins import ComponentKind, Registry
from slideseek_apps.bench.config import EngineEntry


@dataclass(frozen=True)
class Variant:
    """One engine with one value for each swept option.

    sweep: the swept options with this variant's values. encoder, index: components as configured; index is None when
    the configuration names none.
    """

    engine: str
    sweep: Mapping[str, Any]
    encoder: ComponentConfig
    index: ComponentConfig | None
    registry: Registry

    @property
    def name(self) -> str:
        """The name shown in tables, different for each variant of a grid."""
        return " ".join([self.engine, *(f"{key}={_shown(value)}" for key, value in self.sweep.items())])

    def make_encoder(self, seed: int) -> Encoder:
        """Make a fresh encoder; an option `seed` that the configuration leaves out is the cell's seed.

        So it is inside nested tables, unless the component around them has a seed of its own: then it is that one.
        """
        config = ComponentConfig("encoder", self.encoder.use, self._seeded("encoder", self.encoder, seed))
        made: Encoder = make_component(self.registry, config, f"engine.{self.engine}.encoder")
        return made

    def _seeded(self, kind: ComponentKind, config: ComponentConfig, seed: int) -> dict[str, Any]:
        """Return the options with every seed that was left out, in nested tables too."""
        options, hints = dict(config.options), option_types(self.registry.load(kind, config.use))
        if "seed" in hints:
            given = options.setdefault("seed", seed)
            seed = given if isinstance(given, int) else seed

        def inner(of: Any, table: Any) -> Any:
            try:
                part = ComponentConfig.read(of, table, "")
            except UsageError:
                return table  # making the component says what is wrong, and where
            return {"use": part.use} | self._seeded(of, part, seed)

        for key, hint in hints.items():
            of, _ = nested_kind(hint)
            if of and key in options:
                value = options[key]
                options[key] = [inner(of, one) for one in value] if isinstance(value, list) else inner(of, value)
        return options


def expand_sweeps(engine: EngineEntry, registry: Registry) -> list[Variant]:
    """Return the variants of an engine: the product of its sweeps, in the order of the configuration.

    An option is swept when its value is a list that the option itself would not take: a list of numbers where it wants
    a number, a list of lists where it wants a list.
    """
    tables: list[tuple[ComponentKind, Mapping[str, Any]]] = [("encoder", engine.encoder)]
    if engine.index is not None:
        tables.append(("index", engine.index))
    axes: list[list[tuple[ComponentKind, str, Any]]] = []
    fixed: dict[ComponentKind, dict[str, Any]] = {kind: {} for kind, _ in tables}
    for kind, table in tables:
        hints = option_types(registry.load(kind, table["use"]))
        for key, value in table.items():
            if key == "use":
                continue
            where = f"engine.{engine.name}.{kind}.{key}"
            if key in hints and isinstance(value, list) and not _takes(hints[key], value, where):
                if not value:
                    raise UsageError(f"{where}: an empty list sweeps over nothing", "give one or more values")
                axes.append([(kind, key, typed_value(hints[key], one, where)) for one in value])
            else:
                fixed[kind][key] = value
    repeated = {key for key in (axis[0][1] for axis in axes) if sum(axis[0][1] == key for axis in axes) > 1}
    variants = []
    for chosen in itertools.product(*axes):
        options = {kind: dict(given) for kind, given in fixed.items()}
        sweep = {}
        for kind, key, value in chosen:
            options[kind][key] = list(value) if isinstance(value, tuple) else value
            sweep[f"{kind}.{key}" if key in repeated else key] = options[kind][key]
        index = engine.index and ComponentConfig("index", engine.index["use"], options["index"])
        encoder = ComponentConfig("encoder", engine.encoder["use"], options["encoder"])
        variants.append(Variant(engine.name, sweep, encoder, index or None, registry))
    return variants


def _takes(hint: Any, value: Any, where: str) -> bool:
    if nested_kind(hint)[0]:  # tables of components
        return True
    try:
        typed_value(hint, value, where)
    except UsageError:
        return False
    return True


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "x".join(map(_shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
