"""Read `slideseek.toml` and turn its tables into components, with errors that name the key and the fix."""

from __future__ import annotations

import dataclasses
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from slideseek.did_you_mean import did_you_mean
from slideseek.errors import PluginError, SlideseekError, UsageError, one_line
from slideseek.options import from_table, nested_kind, option_types
from slideseek.plugins import REQUIRED_KINDS, ComponentKind, Kind, Registry, output_aside

MAX_CHARACTERS, MAX_DEPTH = 1_000_000, 32
"""Of a configuration: parsing a dotted key takes memory that grows with the square of its parts."""
CONFIG_NAME = "slideseek.toml"
PRESETS = ("default", "paper")
"""Configurations a new archive can start from: fields chosen by evidence, or those of Yottixel's paper."""
_ENGINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class ComponentConfig:
    """One component as configured: the name it is registered under and the options given."""

    kind: Kind
    use: str
    options: Mapping[str, Any]

    @classmethod
    def read(cls, kind: Kind, table: Any, where: str) -> ComponentConfig:
        """Return the component that a table `{ use = "NAME", option = value }`, or only its name, describes."""
        if isinstance(table, str):
            table = {"use": table}
        if not isinstance(table, Mapping) or not isinstance(table.get("use"), str):
            got = "missing" if table is None else repr(table)
            key = where.rpartition(".")[2]
            raise UsageError(f"{where}: {got}", f'write {key} = {{ use = "NAME", option = value }}')
        return cls(kind, table["use"], {key: value for key, value in table.items() if key != "use"})

    def inner(self, option: str, kind: ComponentKind) -> list[ComponentConfig]:
        """Return the components configured inside an option."""
        given = self.options[option]
        tables = given if isinstance(given, list) else [given]
        return [ComponentConfig.read(kind, table, f"{self.use}.{option}") for table in tables]


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """One `[[engine]]` table."""

    name: str
    selector: ComponentConfig
    featurizer: ComponentConfig
    encoder: ComponentConfig
    index: ComponentConfig
    reranker: ComponentConfig | None = None

    def component(self, kind: ComponentKind) -> ComponentConfig:
        """Return the component of one kind that the engine has."""
        found: ComponentConfig = getattr(self, kind)
        return found

    @property
    def kinds(self) -> tuple[ComponentKind, ...]:
        """The kinds of component the engine has, in the order of its stages."""
        return (*REQUIRED_KINDS, "reranker") if self.reranker else REQUIRED_KINDS

    @property
    def table(self) -> dict[str, Any]:
        """The engine as a table that `parse_engine` reads, without its reranker, which has no part in a build."""
        parts = {kind: self.component(kind) for kind in REQUIRED_KINDS}
        return {"name": self.name, **{kind: {"use": part.use, **part.options} for kind, part in parts.items()}}


@dataclass(frozen=True, slots=True)
class Config:
    """A whole configuration file; the first engine is the default one.

    plugins: Python files with plugins of this archive, relative to its folder. executor: what runs a build.
    """

    engines: tuple[EngineConfig, ...]
    plugins: tuple[str, ...] = ()
    executor: ComponentConfig | None = None

    def engine(self, name: str | None = None) -> EngineConfig:
        """Return the engine with a name; by default the first one."""
        if name is None:
            return self.engines[0]
        for engine in self.engines:
            if engine.name == name:
                return engine
        names = [e.name for e in self.engines]
        hint = did_you_mean(name, names, f"configured: {', '.join(names)}")
        raise UsageError(f"no engine named {name!r} in {CONFIG_NAME}", hint)


def default_config(preset: str = PRESETS[0]) -> str:
    """Return the configuration of a new archive: a data file next to this one, since it names components."""
    return files("slideseek").joinpath(f"{preset}.toml").read_text(encoding="utf-8")


def read_config(path: Path) -> Config:
    """Read and check the shape of a configuration file; components are checked by `make_component`."""
    try:
        with path.open(encoding="utf-8") as stream:
            text = stream.read(MAX_CHARACTERS + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", "run 'slideseek init' to write one") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})", "save it as UTF-8") from error
    return parse_config(text, str(path))


def parse_config(text: str, source: str = CONFIG_NAME) -> Config:
    """Check the shape of configuration text; `source` names it in errors."""
    table = parse_toml(text, source)
    _refuse_unknown(table, ("engine", "plugins", "executor"), source, "table")
    plugins = table.get("plugins", [])
    if not isinstance(plugins, list) or not all(isinstance(name, str) for name in plugins):
        raise UsageError(f"{source}: plugins is {plugins!r}", 'write plugins = ["my_encoder.py"]')
    blocks = table.get("engine")
    if not isinstance(blocks, list) or not blocks:
        raise UsageError(f"{source} has no [[engine]] block", "add one: see 'slideseek init'")
    engines = tuple(parse_engine(block, position, source) for position, block in enumerate(blocks, start=1))
    seen: set[str] = set()
    for engine in engines:
        if engine.name.lower() in seen:  # folders are named after engines, and some file systems ignore case
            raise UsageError(f"{source}: two engines are named {engine.name!r}", "give each a different name")
        seen.add(engine.name.lower())
    chosen = ComponentConfig.read("executor", table["executor"], "executor") if "executor" in table else None
    return Config(engines, tuple(plugins), chosen)


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """Parse TOML of unknown origin; `source` names it in errors. Time and memory are bounded by the text."""
    keys = (line.partition("=")[0] for line in text.splitlines() if not line.lstrip().startswith("#"))
    if len(text) > MAX_CHARACTERS or max((key.count(".") for key in keys), default=0) > MAX_DEPTH:
        limits = f"{MAX_CHARACTERS:,} characters, or a key of more than {MAX_DEPTH} parts"
        raise UsageError(f"{source} has more than {limits}", "it is not a configuration of slideseek: write a new one")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source} is not valid TOML: {error}", "correct that line") from error
    except RecursionError as error:
        raise UsageError(f"{source} is nested too deeply", "write a new one") from error


def make_component(registry: Registry, config: ComponentConfig, where: str) -> Any:
    """Build a component from its options.

    where: the key path for messages, such as `engine.sbfv-5k.encoder`. Options are checked against the types of the
    dataclass's fields without surprising coercion: no bool for an int, no text for a number. Ranges are checked by the
    component in `__post_init__`.
    """
    what = f"{config.kind} {config.use!r}"

    def inner(kind: Any, table: Any, place: str) -> Any:
        return make_component(registry, ComponentConfig.read(kind, table, place), place)

    try:
        loaded = registry.load(config.kind, config.use)
        with output_aside():
            return from_table(loaded, config.options, where, what, make=inner)
    except PluginError as error:
        cause = error.cause if error.cause.startswith(where) else f"{where}: {error.cause}"  # of a nested component
        raise PluginError(cause, error.fix) from error
    except SlideseekError:
        raise
    except (Exception, SystemExit) as error:
        owner = registry.find(config.kind, config.use).owner
        raise PluginError(
            f"{where}: {what} of {owner} cannot be created ({one_line(error)})", "update the plugin"
        ) from error


def settings(
    component: Any, config: ComponentConfig, of_inner: Callable[[Any, ComponentConfig], dict[str, Any]], owner: str = ""
) -> dict[str, Any]:
    """Return the resolved options of a component as plain data, as stored with results and used in keys.

    Options that cannot change a result (field metadata `affects_result` is false: a batch size, a device) are left
    out, and those that were added later while they have their default (`ADDED_LATER`). of_inner: returns the settings
    of a component that an option contains. owner: the component in messages.
    """
    use, types = config.use, option_types(type(component))
    kept: dict[str, Any] = {"use": use.rpartition(":")[2]}
    for spec in dataclasses.fields(component):
        if not spec.init or not spec.metadata.get("affects_result", True):
            continue
        value, (kind, many) = getattr(component, spec.name), nested_kind(types[spec.name])
        if spec.metadata.get("added_later") and value == spec.default:
            continue
        if kind and spec.name in config.options:
            configs = config.inner(spec.name, kind)  # type: ignore[arg-type]
            inner = [of_inner(*pair) for pair in zip(value if many else (value,), configs, strict=True)]
            kept[spec.name] = inner if many else inner[0]
            continue
        try:
            kept[spec.name] = _plain(value)
        except TypeError as error:
            raise PluginError(
                f"{owner or repr(use)}: option {spec.name!r} is {value!r}; a configuration cannot contain {error}",
                "use finite numbers, text, booleans, paths and tuples of them, or mark the field init=False",
            ) from error
    return kept


def parse_engine(block: Any, position: int = 1, source: str = CONFIG_NAME) -> EngineConfig:
    """Check the shape of one `[[engine]]` table."""
    where = f"{source}: [[engine]] number {position}"
    if not isinstance(block, dict):
        raise UsageError(f"{where} is not a table", "write [[engine]] on a line of its own")
    name = block.get("name")
    if not isinstance(name, str) or not _ENGINE_NAME.fullmatch(name):
        raise UsageError(
            f"{where}: name is {name!r}", "give it a name of letters, digits, '.', '_' and '-' (at most 64)"
        )
    _refuse_unknown(block, ("name", *REQUIRED_KINDS, "rerank"), f"engine.{name}", "key")
    parts = {kind: ComponentConfig.read(kind, block.get(kind), f"engine.{name}.{kind}") for kind in REQUIRED_KINDS}
    reranker = None
    if "rerank" in block:
        reranker = ComponentConfig.read("reranker", block["rerank"], f"engine.{name}.rerank")
    return EngineConfig(name, **parts, reranker=reranker)


def _refuse_unknown(table: Mapping[str, Any], known: tuple[str, ...], where: str, what: str) -> None:
    for key in table:
        if key not in known:
            raise UsageError(f"{where}: unknown {what} {key!r}", did_you_mean(key, known, f"known: {', '.join(known)}"))


def _plain(value: Any) -> Any:
    """Convert an option to a type that JSON and TOML have; raise `TypeError` with the type's name if there is none."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise TypeError("a number that is not finite")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a {type(value).__name__}")
