"""Change a configuration from the command line: other data, other options, a quick trial."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from slideseek.did_you_mean import did_you_mean
from slideseek.errors import UsageError
from slideseek.options import option_types
from slideseek.plugins import ComponentKind, Registry
from slideseek_apps.bench.datasets import adapter_class, guess_kind
from slideseek_apps.bench.protocol import Protocol

TABLES = ("dataset", "guards", "classifier")
TOP_KEYS = ("name", "title", "task", "seeds", "top")
QUICK = (("epochs", 2), ("protocol.folds", 2))


def with_data(
    data: Mapping[str, Any], path: Path | None, kind: str | None, registry: Registry, note: Callable[[str], None]
) -> dict[str, Any]:
    """Return a configuration with another dataset.

    kind: the kind whose adapter recognises the path when left out. note: called with one line per adapter that could
    not be asked.
    """
    changed = copy.deepcopy(dict(data))
    if kind is not None:
        adapter_class(registry, kind)
    if path is not None:
        changed["dataset"] = {"kind": kind or guess_kind(path, registry, note), "path": str(path.resolve())}
    elif kind is not None:
        raise UsageError("--dataset is the kind of the data that --data names", "pass --data PATH too")
    return changed


def with_settings(data: Mapping[str, Any], given: Sequence[str], registry: Registry) -> dict[str, Any]:
    """Return a configuration with `KEY=VALUE` settings applied, in order.

    KEY is `seeds` or another top-level key, `dataset.X`, `protocol.X` (every protocol), `guards.X`, `classifier.X`,
    `ENGINE.X` (an option of one engine) or `X` (of every engine that has it). VALUE is TOML; anything else is text.
    """
    changed = copy.deepcopy(dict(data))
    for text in given:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise UsageError(f"--set {text!r} is not KEY=VALUE", "write for example --set epochs=5")
        _set(changed, key.strip(), _parsed(value.strip()), registry)
    return changed


def quick(data: Mapping[str, Any], registry: Registry) -> dict[str, Any]:
    """Return a configuration for a short trial: 2 epochs, 2 folds, the first seed."""
    changed = copy.deepcopy(dict(data))
    for key, value in QUICK:
        if key != "epochs" or any(_places(engine, key, registry) for engine in changed.get("engine", [])):
            _set(changed, key, value, registry)
    changed["seeds"] = list(changed.get("seeds", [0]))[:1]
    changed["trial"] = True
    return changed


def with_absolute_paths(data: Mapping[str, Any], base: Path, registry: Registry) -> dict[str, Any]:
    """Return a configuration with absolute paths, so that it means the same wherever it is kept."""
    changed = copy.deepcopy(dict(data))
    dataset = changed.get("dataset", {})
    if isinstance(dataset, dict) and isinstance(dataset.get("kind"), str):
        _make_absolute(dataset, option_types(adapter_class(registry, dataset["kind"])), base)
    for protocol in changed.get("protocol", []):
        _make_absolute(protocol, option_types(Protocol), base)
    return changed


def _make_absolute(table: dict[str, Any], hints: Mapping[str, Any], base: Path) -> None:
    for key, value in table.items():
        if isinstance(value, str) and (hints.get(key) is Path or Path in get_args(hints.get(key))):
            table[key] = str((base / value).resolve())


def _set(data: dict[str, Any], key: str, value: Any, registry: Registry) -> None:
    head, dot, tail = key.partition(".")
    if not dot and key in TOP_KEYS:
        data[key] = value
    elif dot and head in TABLES:
        data.setdefault(head, {})[tail] = value
    elif dot and head == "protocol":
        for protocol in data.setdefault("protocol", [{"name": "vertical"}]):
            protocol[tail] = value
    else:
        _set_option(data, key, value, registry)


def _set_option(data: dict[str, Any], key: str, value: Any, registry: Registry) -> None:
    engines = {str(engine.get("name")): engine for engine in data.get("engine", [])}
    engine, _, option = key.rpartition(".")
    if engine and engine not in engines:
        raise UsageError(
            f"--set {key}: no engine {engine!r}",
            did_you_mean(engine, [*engines, *TABLES, "protocol"], f"engines: {', '.join(engines)}"),
        )
    found = [
        place
        for entry in ([engines[engine]] if engine else engines.values())
        for place in _places(entry, option, registry)
    ]
    if not found:
        who = f"engine {engine!r} has no option" if engine else "no engine has an option"
        raise UsageError(f"--set {key}: {who} {option!r}", "'slideseek plugins show NAME' lists a component's options")
    for place in found:
        place[option] = value


def _places(engine: dict[str, Any], option: str, registry: Registry) -> list[dict[str, Any]]:
    """Return the component tables of an engine that have an option."""
    found = []
    kinds: tuple[ComponentKind, ...] = ("encoder", "index")
    for kind in kinds:
        if isinstance(engine.get(kind), str):
            engine[kind] = {"use": engine[kind]}
        table = engine.get(kind)
        if (
            isinstance(table, dict)
            and isinstance(table.get("use"), str)
            and option in option_types(registry.load(kind, table["use"]))
        ):
            found.append(table)
    return found


def _parsed(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
