"""The bundled configurations: the paper's tables and figures, kept as package data."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slideseek.did_you_mean import did_you_mean
from slideseek.errors import UsageError
from slideseek_apps.bench.config import read_bench_config

FOLDER = Path(__file__).parent / "configs"


@dataclass(frozen=True, slots=True)
class FoundConfig:
    """A configuration as plain data, and the folder its relative paths start at."""

    name: str
    data: dict[str, Any]
    base: Path


def bundled_configs() -> dict[str, str]:
    """Return the titles of the bundled configurations by name."""
    return {path.stem: str(tomllib.loads(path.read_text("utf-8"))["title"]) for path in sorted(FOLDER.glob("*.toml"))}


def find_config(text: str) -> FoundConfig:
    """Return the configuration in a file, or the bundled one of that name; a file of that name wins."""
    path = Path(text)
    if path.is_file():
        return FoundConfig(path.stem, read_bench_config(path), path.resolve().parent)
    bundled = FOLDER / f"{text}.toml"
    if path.name == text and bundled.is_file():
        return FoundConfig(text, read_bench_config(bundled), Path.cwd())
    raise UsageError(
        f"{text!r} is neither a file nor a bundled configuration",
        did_you_mean(text, bundled_configs(), f"bundled: {', '.join(bundled_configs())}"),
    )
