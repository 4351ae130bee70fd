"""The result of one check, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

State: TypeAlias = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `fail`: something will not work; `warn`: it may cause trouble; fix: next step, or ""."""

    area: str
    name: str
    state: State
    detail: str
    fix: str = ""

    def __post_init__(self) -> None:
        if (self.state == "ok") == bool(self.fix):
            raise ValueError(f"fix: required unless the state is ok, then empty; not {self.fix!r} ({self.state})")


def counted(number: int, noun: str) -> str:
    """Format a number of things: `1 slide`, `2 slides`."""
    return f"{number:,} {noun}{'' if number == 1 else 'es' if noun.endswith('x') else 's'}"


def in_bytes(size: float) -> str:
    """Format a number of bytes in the largest unit that gives at least 1: `3.2 GiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
