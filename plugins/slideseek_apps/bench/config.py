"""Read a benchmark configuration: a dataset, engines with sweeps, protocols and seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from slideseek.config import parse_toml
from slideseek.did_you_mean import did_you_mean
from slideseek.errors import UsageError
from slideseek.options import from_table
from slideseek.plugins import Registry
from slideseek_apps.bench.datasets import adapter_class
from slideseek_apps.bench.leak_guards import Guards
from slideseek_apps.bench.protocol import Protocol

Task: TypeAlias = Literal["retrieval", "classification", "training"]


@dataclass(frozen=True, slots=True)
class EngineEntry:
    """One `[[engine]]` table: an encoder and an index over features that are already there.

    encoder, index: component tables with `use`; without an index, an exact one for the encoder's codes is used (see
    `default_index`). protocols: names of the protocols the engine takes part in, all when empty.
    """

    name: str
    encoder: Mapping[str, Any]
    index: Mapping[str, Any] | None = None
    protocols: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Classifier:
    """The table `[classifier]`: two fully connected layers on the frozen code, trained with Adam.

    hidden: width of the first layer. epochs, batch_size, learning_rate, weight_decay: of the training.
    """

    hidden: int = 128
    epochs: int = 200
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4

    def __post_init__(self) -> None:
        for name in ("hidden", "epochs", "batch_size", "learning_rate"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: above 0, not {getattr(self, name)}")
        if self.weight_decay < 0:
            raise ValueError(f"weight_decay: at least 0, not {self.weight_decay}")


@dataclass(frozen=True, slots=True)
class _Top:
    """The top-level keys of a configuration. top: dimensions of highest variance that a training cell keeps.

    trial: it was shortened with `--quick`, and its numbers are not results. command: that ran it, without folders.
    """

    name: str = "benchmark"
    title: str = ""
    task: Task = "retrieval"
    seeds: tuple[int, ...] = (0,)
    top: int = 5000
    trial: bool = False
    command: str = ""


@dataclass(frozen=True, slots=True)
class BenchConfig:
    """A whole configuration.

    base: the folder relative paths start at. data: the configuration as plain TOML data, with the changes from the
    command line; it is kept with the results.
    """

    name: str
    title: str
    task: Task
    seeds: tuple[int, ...]
    top: int
    dataset: Mapping[str, Any]
    protocols: tuple[Protocol, ...]
    engines: tuple[EngineEntry, ...]
    guards: Guards
    classifier: Classifier
    base: Path
    data: Mapping[str, Any] = field(repr=False)
    trial: bool = False
    command: str = ""

    @property
    def kind(self) -> str:
        """The kind of the dataset."""
        return str(self.dataset["kind"])

    @property
    def dataset_options(self) -> dict[str, Any]:
        """The options of the dataset's adapter."""
        return {key: value for key, value in self.dataset.items() if key != "kind"}


def read_bench_config(path: Path) -> dict[str, Any]:
    """Read the TOML of a configuration file as plain data."""
    try:
        return parse_toml(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", "'slideseek bench run --list' shows the bundled ones"
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})", "save it as UTF-8") from error


def parse_bench_config(data: Mapping[str, Any], base: Path, source: str, registry: Registry) -> BenchConfig:
    """Check the shape of a configuration and the kind of its dataset; components are checked when the grid is made.

    source: the configuration's name in errors.
    """
    tables = ("dataset", "protocol", "engine", "guards", "classifier")
    top = from_table(_Top, {key: value for key, value in data.items() if key not in tables}, source)
    if not top.seeds or len(set(top.seeds)) != len(top.seeds) or min(top.seeds) < 0:
        raise UsageError(f"{source}: seeds must be one or more different numbers from 0, not {list(top.seeds)}")
    if top.top < 1:
        raise UsageError(f"{source}: top must be at least 1, not {top.top}")
    protocols = tuple(
        from_table(Protocol, _dict(table, f"protocol {number}"), f"protocol {number}", base=base)
        for number, table in enumerate(_list(data, "protocol"), 1)
    ) or (Protocol("vertical"),)
    engines = tuple(_engine(table, number) for number, table in enumerate(_list(data, "engine"), 1))
    if not engines:
        raise UsageError(f"{source}: no [[engine]]", "add one: name, encoder")
    _unique("engine", [engine.name for engine in engines])
    _unique("protocol", [protocol.name for protocol in protocols])
    for engine in engines:
        for name in engine.protocols:
            if name not in {protocol.name for protocol in protocols}:
                known = ", ".join(protocol.name for protocol in protocols)
                raise UsageError(f"engine {engine.name!r}: no protocol {name!r}", f"protocols: {known}")
    return BenchConfig(
        top.name,
        top.title,
        top.task,
        top.seeds,
        top.top,
        _dataset(data, source, registry),
        protocols,
        engines,
        from_table(Guards, _dict(data.get("guards", {}), "guards"), "guards"),
        from_table(Classifier, _dict(data.get("classifier", {}), "classifier"), "classifier"),
        base,
        data,
        top.trial,
        top.command,
    )


def _dataset(data: Mapping[str, Any], source: str, registry: Registry) -> Mapping[str, Any]:
    table = _dict(data.get("dataset", {}), "dataset")
    if "path" not in table:
        raise UsageError(f"{source} names no data", "pass --data PATH, or add a table [dataset] with kind and path")
    if not isinstance(table.get("kind"), str):
        known = ", ".join(entry.name for entry in registry.registrations("dataset"))
        raise UsageError(f"dataset.kind: {table.get('kind', 'missing')}", f"write one of {known}")
    adapter_class(registry, table["kind"])
    return table


def _engine(table: Any, number: int) -> EngineEntry:
    where = f"engine {number}"
    given = dict(_dict(table, where))
    for name in ("encoder", "index"):
        if isinstance(given.get(name), str):
            given[name] = {"use": given[name]}
        if name in given and not isinstance(_dict(given[name], f"{where}.{name}").get("use"), str):
            raise UsageError(f"{where}.{name}: no 'use'", f'write {name} = {{ use = "NAME", option = value }}')
    known = tuple(EngineEntry.__dataclass_fields__)
    for key in given:
        if key not in known:
            raise UsageError(f"{where}: unknown key {key!r}", did_you_mean(key, known, f"known: {', '.join(known)}"))
    if not isinstance(given.get("name"), str) or not given["name"] or "encoder" not in given:
        raise UsageError(f"{where} needs a name and an encoder", 'write name = "..." and encoder = { use = "..." }')
    protocols = given.get("protocols", [])
    if not isinstance(protocols, list) or not all(isinstance(name, str) for name in protocols):
        raise UsageError(f"{where}.protocols: a list of names, not {protocols!r}")
    return EngineEntry(given["name"], given["encoder"], given.get("index"), tuple(protocols))


def _list(data: Mapping[str, Any], name: str) -> list[Any]:
    tables = data.get(name, [])
    if not isinstance(tables, list):
        raise UsageError(f"[{name}] is one table", f"write [[{name}]] in double brackets")
    return tables


def _dict(table: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(table, dict):
        raise UsageError(f"{where} is {table!r}, not a table")
    return table


def _unique(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two {what}s are named {name!r}", "give each its own name")
