"""The grid of a benchmark: every variant of every engine, under every protocol, with every seed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from slideseek.config import ComponentConfig, make_component
from slideseek.did_you_mean import did_you_mean
from slideseek.digests import digest
from slideseek.engine import resolved_settings
from slideseek.errors import UsageError
from slideseek.interfaces import Encoder, Index, Trainable
from slideseek.options import option_types, typed_value
from slideseek.plugins import ComponentKind, Registry
from slideseek.types import CodeSpec
from slideseek_apps.bench.config import BenchConfig, EngineEntry
from slideseek_apps.bench.datasets.dataset import Dataset
from slideseek_apps.bench.protocol import Protocol

DEFAULT_INDEX = {"bits": "hamming", "float": "cosine", "sparse": "sparse"}
"""The exact index for each kind of code."""

VERSION = 1
"""Raised when a change of the runner changes results: cells of an earlier one then run again."""


@dataclass(frozen=True)
class Variant:
    """One engine with one value for each swept option, made to fit a dataset.

    sweep: the swept options with this variant's values. encoder, index: components as configured.
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
        """Make a fresh encoder; where it has an option `seed` that the configuration leaves open, it is the cell's."""
        options = dict(self.encoder.options)
        if "seed" in option_types(self.registry.load("encoder", self.encoder.use)):
            options.setdefault("seed", seed)
        config = ComponentConfig("encoder", self.encoder.use, options)
        made: Encoder = make_component(self.registry, config, f"engine.{self.engine}.encoder")
        return made

    def make_index(self, spec: CodeSpec) -> Index:
        """Make an empty index for codes of `spec`; one that refuses them is an error."""
        made: Index = make_component(self.registry, self.index_config(spec), f"engine.{self.engine}.index")
        if reason := made.refuses(spec):
            raise UsageError(
                f"engine.{self.engine}.index: index {self.index_config(spec).use!r} refuses the codes of encoder"
                f" {self.encoder.use!r} ({spec}): {reason}",
                "choose another index, or leave it out",
            )
        return made

    def index_config(self, spec: CodeSpec) -> ComponentConfig:
        """Return the index as configured, or the exact one for this kind of code."""
        return self.index or ComponentConfig("index", DEFAULT_INDEX[spec.kind], {})

    def owner(self, kind: ComponentKind, use: str) -> str:
        """Name a component with the distribution it is from, for messages."""
        return f"{kind} {use!r} of {self.registry.find(kind, use).owner}"


@dataclass(frozen=True)
class CellPlan:
    """One cell of the grid before it is run."""

    variant: Variant
    protocol: Protocol
    seed: int
    control: bool
    task: str
    spec: CodeSpec
    learns: bool
    options: Mapping[str, Any]
    versions: Mapping[str, str]
    key: str

    @property
    def name(self) -> str:
        """Say which cell it is, in a line of progress."""
        control = ", shuffled labels" if self.control else ""
        return f"{self.variant.name}, {self.protocol.name}, seed {self.seed}{control}"

    @property
    def name_without_seed(self) -> str:
        """Say which cells differ from this one in the seed alone."""
        return f"{self.variant.name}, {self.protocol.name}, {self.control}"

    @property
    def seedless(self) -> bool:
        """Whether the seed decides nothing: no fit, no folds, no seeded component, no shuffle."""
        seeded = any("seed" in self.options[kind] for kind in ("encoder", "index"))
        folded = self.protocol.fit == "split" or self.protocol.among != "all" or self.task != "retrieval"
        return not (self.learns or seeded or folded or self.control)


def expand(engine: EngineEntry, registry: Registry) -> list[Variant]:
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


def make_grid(
    config: BenchConfig, dataset: Dataset, registry: Registry, only: Sequence[str] = (), control: bool = False
) -> list[CellPlan]:
    """Return the cells to have, every component checked before any work begins.

    only: names of engines or variants to keep. control: add, with the first seed, a cell with shuffled labels for every
    variant and protocol.
    """
    variants = [(engine, variant) for engine in config.engines for variant in expand(engine, registry)]
    chosen = [(e, v) for e, v in variants if not only or e.name in only or v.name in only]
    for name in only:
        if not any(name in (e.name, v.name) for e, v in variants):
            known = [*dict.fromkeys(n for e, v in variants for n in (e.name, v.name))]
            raise UsageError(f"no engine {name!r}", did_you_mean(name, known, f"engines: {', '.join(known)}"))
    plans = []
    for engine, variant in chosen:
        for protocol in config.protocols:
            if engine.protocols and protocol.name not in engine.protocols:
                continue
            for seed, shuffled in _rounds(config, control):
                plans.append(_plan(config, dataset, variant, protocol, seed, shuffled))
    if not plans:
        raise UsageError("no engine takes part in any protocol", "check 'protocols' of the engines")
    return plans


def _rounds(config: BenchConfig, control: bool) -> Iterator[tuple[int, bool]]:
    yield from ((seed, False) for seed in config.seeds)
    if control and config.task == "retrieval":
        yield config.seeds[0], True


def _plan(
    config: BenchConfig, dataset: Dataset, variant: Variant, protocol: Protocol, seed: int, control: bool
) -> CellPlan:
    encoder = variant.make_encoder(seed)
    spec = encoder.spec(dataset.width)
    index_use = variant.index_config(spec).use
    options: dict[str, Any] = {
        "encoder": resolved_settings(encoder, variant.encoder.use),
        "index": resolved_settings(variant.make_index(spec), index_use),
    }
    learns = isinstance(encoder, Trainable)
    if learns and protocol.fit == "none":
        raise UsageError(
            f"engine {variant.engine!r} learns, and protocol {protocol.name!r} has fit = 'none'",
            "set fit = 'folds', or name the engine's protocols",
        )
    used: tuple[tuple[ComponentKind, str], ...] = (("encoder", variant.encoder.use), ("index", index_use))
    owners = {f"{kind} {use}": variant.registry.find(kind, use).owner for kind, use in used}
    if config.task == "classification":
        options["classifier"] = asdict(config.classifier)
    if config.task == "training":
        options["top"] = config.top
    decides = {
        "version": VERSION,
        "task": config.task,
        "engine": variant.name,
        "options": options,
        "owners": owners,
        "dataset": dataset.fingerprint,
        "protocol": protocol_data(protocol),
        "seed": seed,
        "control": control,
        "guards": asdict(config.guards),
    }
    return CellPlan(variant, protocol, seed, control, config.task, spec, learns, options, owners, digest(decides)[:24])


def protocol_data(protocol: Protocol) -> dict[str, Any]:
    """Return a protocol as plain data: what decides a result; a split file counts by its content."""
    data = asdict(protocol)
    data["split"] = digest(protocol.split.read_text(encoding="utf-8")) if protocol.split else None
    return data | {"candidates": protocol.among}


def _takes(hint: Any, value: Any, where: str) -> bool:
    try:
        typed_value(hint, value, where)
    except UsageError:
        return False
    return True


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "x".join(map(_shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
