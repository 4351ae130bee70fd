"""`slideseek featurizers`: which networks can be used, under which licence, and whether their weights are here."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from slideseek.cli.options import json_option
from slideseek.cli.output import print_json, print_table


@click.command()
@json_option
def command(as_json: bool) -> None:
    """List featurizers with width, expected patch size and resolution, licence, and whether the weights are present."""
    from slideseek.errors import SlideseekError
    from slideseek.featurizer_card import Described
    from slideseek.options import describe_options
    from slideseek.plugins import load_registry

    registry = load_registry()
    found: list[dict[str, Any]] = []
    for entry in registry.registrations("featurizer"):
        row: dict[str, Any] = {"name": entry.name, "summary": entry.summary, "from": entry.owner}
        try:
            loaded = registry.load("featurizer", entry.name)
            if required := [option.name for option in describe_options(loaded) if option.required]:
                row["problem"] = f"needs {', '.join(required)}"
                found.append(row)
                continue
            made = loaded()
            row |= asdict(made.card()) if isinstance(made, Described) else {"width": made.width}
        except SlideseekError as error:  # it does not load here, or its width depends on weights that are not here
            row["problem"] = str(error)
        found.append(row)
    if as_json:
        print_json(found)
        return
    rows = [
        [
            row["name"],
            str(row.get("width") or "by its weights"),
            f"{row['patch_size']} px" if row.get("patch_size") else "any",
            f"{row['mpp']:g} µm/px" if row.get("mpp") else "any",
            row.get("licence", ""),
            "yes" if row.get("present") else "no" if "present" in row else row.get("problem", "needs none"),
        ]
        for row in found
    ]
    print_table(("featurizer", "width", "patches", "made for", "licence", "weights present"), rows)
    for row in found:
        if row.get("present") is False:
            click.echo(f"{row['name']}: {row['weights']}")
