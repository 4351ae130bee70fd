"""The engine of a set of imported features: its components, their settings and its configuration block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slideseek.config import ComponentConfig, Config, EngineConfig, make_component
from slideseek.digests import digest
from slideseek.engine import digest_features, resolved_settings
from slideseek.plugins import ComponentKind, Registry

IMPORTED = "imported"
"""The registered name of the selector and the featurizer for imported features, and of the encoder for vectors."""

BLOCK = """\
[[engine]]
name       = "{name}"
selector   = {{ use = "imported", set = "{set}" }}
featurizer = {{ use = "imported", set = "{set}", width = {width} }}
encoder    = {encoder}
index      = {{ use = "{index}" }}
"""


@dataclass(frozen=True, slots=True)
class SetSettings:
    """The digests under which a set's results are stored: of the selector's settings and of the features'."""

    name: str
    width: int
    select: str
    features: str

    @classmethod
    def of(cls, registry: Registry, name: str, width: int) -> SetSettings:
        """Return the digests for an engine with this set's selector and featurizer."""

        def resolve(kind: ComponentKind, options: dict[str, Any]) -> dict[str, Any]:
            config = ComponentConfig(kind, IMPORTED, options)
            return resolved_settings(make_component(registry, config, f"import.{kind}"), config, registry)

        select = digest(resolve("selector", {"set": name}))
        return cls(name, width, select, digest_features(select, resolve("featurizer", {"set": name, "width": width})))


def engines_of(config: Config, name: str) -> list[EngineConfig]:
    """Return the configured engines that use the patches and features of a set."""
    return [
        engine
        for engine in config.engines
        if all(
            part.use == IMPORTED and part.options.get("set") == name for part in (engine.selector, engine.featurizer)
        )
    ]


def configured_width(config: Config, name: str) -> int | None:
    """Return the width the configuration states for a set, if any."""
    widths = [engine.featurizer.options.get("width") for engine in engines_of(config, name)]
    return next((width for width in widths if isinstance(width, int)), None)


def engine_block(config: Config, name: str, width: int, whole: bool = False, parts: Sequence[int] = ()) -> str:
    """Return a configuration block for a set, to paste. The engine gets a name that is not taken.

    whole: one vector per slide. parts: widths of vectors that were put side by side: each gets the same say.
    """
    taken = {engine.name.lower() for engine in config.engines}
    free = name if name.lower() not in taken else f"{name[:50]}-imported"
    if not whole:
        return BLOCK.format(name=free, set=name, width=width, encoder='{ use = "yottixel" }', index="hamming")
    encoder = f'{{ use = "{IMPORTED}" }}'
    if len(parts) > 1:
        starts = [sum(parts[:i]) for i in range(len(parts))]
        each = [f'{{ use = "{IMPORTED}", start = {at}, length = {long} }}' for at, long in zip(starts, parts)]
        encoder = f'{{ use = "joined", of = [{", ".join(each)}] }}'
    return BLOCK.format(name=free, set=name, width=width, encoder=encoder, index="cosine")
