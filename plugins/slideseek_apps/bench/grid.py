"""The grid of a benchmark: every variant of every engine, under every protocol, with every seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from slideseek.boundary import CheckedIndex, Owner
from slideseek.config import ComponentConfig, make_component
from slideseek.did_you_mean import did_you_mean
from slideseek.digests import digest
from slideseek.engine import check_parts, resolved_settings
from slideseek.errors import UsageError
from slideseek.interfaces import Encoder, Index, Trainable, implements
from slideseek.plugins import Registry
from slideseek.types import CodeSpec
from slideseek_apps.bench.config import BenchConfig
from slideseek_apps.bench.datasets.dataset import Dataset
from slideseek_apps.bench.default_index import default_index
from slideseek_apps.bench.protocol import Protocol
from slideseek_apps.bench.sweeps import Variant, expand_sweeps

VERSION = 1
"""Raised when a change of the runner changes results; cells of an earlier version then run again."""


@dataclass(frozen=True)
class CellPlan:
    """One cell of the grid before it is run.

    index: as configured, or the default one for the encoder's codes. spec: of the codes. learns: whether the encoder is
    fitted. options: of all components, defaults included. versions: of their distributions. key: digest of everything
    that decides the result.
    """

    variant: Variant
    index: ComponentConfig
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
        """The cell in a line of progress."""
        control = ", shuffled labels" if self.control else ""
        return f"{self.variant.name}, {self.protocol.name}, seed {self.seed}{control}"

    @property
    def name_without_seed(self) -> str:
        """The same for cells that differ in the seed alone."""
        return f"{self.variant.name}, {self.protocol.name}, {self.control}"

    @property
    def seedless(self) -> bool:
        """Whether the seed changes nothing: no fit, no folds, no seeded component, no shuffle."""
        seeded = any(_has_seed(self.options[kind]) for kind in ("encoder", "index"))
        folded = self.protocol.fit == "split" or self.protocol.among != "all" or self.task != "retrieval"
        return not (self.learns or seeded or folded or self.control)

    def make_encoder(self) -> Encoder:
        """Make a fresh encoder with the cell's seed."""
        return self.variant.make_encoder(self.seed)

    def make_index(self) -> CheckedIndex:
        """Make an empty index whose answers are checked."""
        return CheckedIndex(_make_index(self.variant, self.index, self.spec), self.owner("index"))

    def owner(self, kind: Literal["encoder", "index"]) -> Owner:
        """Return who answers for the encoder or the index."""
        return Owner.of(self.variant.registry, kind, self.variant.encoder.use if kind == "encoder" else self.index.use)


def make_grid(
    config: BenchConfig, dataset: Dataset, registry: Registry, only: Sequence[str] = (), control: bool = False
) -> list[CellPlan]:
    """Return the cells of a benchmark, every component checked before any work begins.

    only: names of engines or variants to keep. control: add, with the first seed, a cell with shuffled labels for every
    variant and protocol.
    """
    variants = [(engine, variant) for engine in config.engines for variant in expand_sweeps(engine, registry)]
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
            for seed, shuffled in _seeds(config, control):
                plans.append(_plan(config, dataset, variant, protocol, seed, shuffled))
    if not plans:
        raise UsageError("no engine takes part in any protocol", "check 'protocols' of the engines")
    return plans


def protocol_data(protocol: Protocol) -> dict[str, Any]:
    """Return a protocol as plain data for keys and records; a split file counts by its content."""
    data = asdict(protocol)
    data["split"] = digest(protocol.split.read_text(encoding="utf-8")) if protocol.split else None
    return data | {"candidates": protocol.among}


def _seeds(config: BenchConfig, control: bool) -> Iterator[tuple[int, bool]]:
    """Yield each seed, and whether labels are shuffled."""
    yield from ((seed, False) for seed in config.seeds)
    if control and config.task == "retrieval":
        yield config.seeds[0], True


def _plan(
    config: BenchConfig, dataset: Dataset, variant: Variant, protocol: Protocol, seed: int, control: bool
) -> CellPlan:
    encoder = variant.make_encoder(seed)
    owner = Owner.of(variant.registry, "encoder", variant.encoder.use)
    owner.check_signatures(encoder)
    check_parts(encoder, dataset.featurizers, owner, f"engine.{variant.engine}.encoder")
    spec = owner.check_spec(owner.call("spec()", encoder.spec, dataset.width))
    index = variant.index or default_index(variant.registry, spec, f"engine.{variant.engine}.index")
    options: dict[str, Any] = {
        "encoder": resolved_settings(encoder, variant.encoder, variant.registry),
        "index": resolved_settings(_make_index(variant, index, spec), index, variant.registry),
    }
    learns = implements(encoder, Trainable)
    if learns and protocol.fit == "none":
        raise UsageError(
            f"engine {variant.engine!r} learns, and protocol {protocol.name!r} has fit = 'none'",
            "set fit = 'folds', or give the engine a list 'protocols' without this one",
        )
    versions = {
        f"{part.kind} {part.use}": variant.registry.find(part.kind, part.use).owner for part in (variant.encoder, index)
    }
    if config.task == "classification":
        options["classifier"] = asdict(config.classifier)
    if config.task == "training":
        options["top"] = config.top
    decides = {
        "version": VERSION,
        "task": config.task,
        "engine": variant.name,
        "options": options,
        "dataset": dataset.fingerprint,
        "protocol": protocol_data(protocol),
        "seed": seed,
        "control": control,
        "guards": asdict(config.guards),
    }
    key = digest(decides)[:24]
    return CellPlan(variant, index, protocol, seed, control, config.task, spec, learns, options, versions, key)


def _has_seed(options: Any) -> bool:
    """Return whether a component, or one inside it, has an option `seed`."""
    if isinstance(options, Mapping):
        return "seed" in options or any(map(_has_seed, options.values()))
    return isinstance(options, list | tuple) and any(map(_has_seed, options))


def _make_index(variant: Variant, config: ComponentConfig, spec: CodeSpec) -> Index:
    """Make an empty index; one that refuses codes of `spec` is an error."""
    where = f"engine.{variant.engine}.index"
    made: Index = make_component(variant.registry, config, where)
    owner = Owner.of(variant.registry, "index", config.use)
    owner.check_signatures(made)
    if reason := owner.refuses(made, spec):
        raise UsageError(
            f"{where}: index {config.use!r} refuses the codes of encoder {variant.encoder.use!r} ({spec}): {reason}",
            "choose another index, or leave it out",
        )
    return made
