"""`slideseek featurizers`: the available networks, their licences, and whether their weights are present."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from slideseek.cli.options import json_option, open_archive
from slideseek.cli.output import print_json, print_table
from slideseek_apps.doctor.wrapped_text import echo_wrapped

if TYPE_CHECKING:
    from slideseek.config import ComponentConfig
    from slideseek.plugins import Registry


@click.command()
@click.option(
    "-a", "--archive", "folder", type=click.Path(path_type=Path), help="Show this archive's featurizers instead."
)
@json_option
def command(folder: Path | None, as_json: bool) -> None:
    """List featurizers with width, expected patch size and resolution, licence, and whether the weights are present.

    With an archive: the featurizers its engines use, as configured, with the SHA-256 of their weights.
    """
    from slideseek.plugins import load_registry

    registry = load_registry()
    found = list(_configured(folder, registry) if folder is not None else _installed(registry))
    if as_json:
        print_json(found)
        return
    rows = [
        [
            row["name"],
            str(row.get("width") or "by weights"),
            f"{row.get('patch_size') or 'any'} at {row['mpp']:g}" if row.get("mpp") else "any",
            row.get("licence", ""),
            "yes" if row.get("present") else "no" if "present" in row else "see below" if "problem" in row else "none",
        ]
        for row in found
    ]
    print_table(("featurizer", "width", "px at µm/px", "licence", "weights"), rows, whole=(0, 1, 2, 4))
    for row in found:
        about = row["weights"] if row.get("present") is False else row.get("fingerprint") or row.get("problem")
        if about:
            echo_wrapped(f"{row['name']}: {about}")


def _installed(registry: Registry) -> Iterator[dict[str, Any]]:
    """Yield what is known about every registered featurizer with default options, and about each of its presets."""
    from slideseek.config import ComponentConfig

    for entry in registry.registrations("featurizer"):
        about = {"summary": entry.summary, "from": entry.owner}
        config = ComponentConfig("featurizer", entry.name, {})
        yield {"name": entry.name, **about, **_card(registry, config)}
        for preset in _presets(registry, entry.name):
            config = ComponentConfig("featurizer", entry.name, {"preset": preset})
            yield {"name": f"{entry.name} {preset}", **about, "options": config.options, **_card(registry, config)}


def _presets(registry: Registry, name: str) -> list[str]:
    """Return the values of the option `preset` of a featurizer, if it has one with a list of names."""
    from slideseek.errors import SlideseekError
    from slideseek.options import option_types

    try:
        hint = option_types(registry.load("featurizer", name)).get("preset")
    except SlideseekError:  # it cannot be loaded here, which its own row says
        return []
    return [value for value in get_args(hint) if isinstance(value, str) and value]


def _configured(folder: Path, registry: Registry) -> Iterator[dict[str, Any]]:
    """Yield what is known about the featurizer of each engine of an archive, with its fingerprint."""
    with open_archive(folder) as archive:
        engines = archive.config.engines
    for engine in engines:
        name = f"{engine.name}: {engine.featurizer.use}"
        yield {"name": name, "options": dict(engine.featurizer.options), **_card(registry, engine.featurizer, True)}


def _card(registry: Registry, config: ComponentConfig, with_fingerprint: bool = False) -> dict[str, Any]:
    from slideseek.boundary import Owner
    from slideseek.config import make_component
    from slideseek.errors import SlideseekError
    from slideseek.interfaces import Described, Fingerprinted, implements

    known: dict[str, Any] = {}
    try:
        made = make_component(registry, config, config.use)
        owner = Owner.of(registry, "featurizer", config.use)
        if implements(made, Described):
            known |= asdict(owner.call("card()", made.card))
        else:
            known["width"] = owner.read_count(made, "width")
        if with_fingerprint and implements(made, Fingerprinted):
            known["fingerprint"] = owner.call("fingerprint()", made.fingerprint)
    except SlideseekError as error:  # it needs options, cannot be loaded here, or its width depends on absent weights
        known["problem"] = error.cause
    return known
