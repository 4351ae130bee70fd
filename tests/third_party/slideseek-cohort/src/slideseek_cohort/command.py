"""The command `slideseek cohort`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from slideseek.cli.options import archive_option, json_option, open_archive
from slideseek.cli.output import print_json, print_table
from slideseek.types import SlideRecord


@dataclass(frozen=True)
class Group:
    """The slides of one site and label; "" where an archive does not say."""

    site: str
    label: str
    slides: int
    patients: int


@click.command()
@archive_option
@json_option
def command(folder: Path | None, as_json: bool) -> None:
    """Count the slides and patients of an archive by site and label."""
    with open_archive(folder) as archive:
        groups = count_slides(slide.record for slide in archive.catalog.slides)
    if as_json:
        print_json({"groups": [asdict(group) for group in groups]})
        return
    rows = [[g.site or "(unknown)", g.label or "(unknown)", str(g.slides), str(g.patients)] for g in groups]
    print_table(("site", "label", "slides", "patients"), rows, right=(2, 3))


def count_slides(records: Iterable[SlideRecord]) -> list[Group]:
    """Return one group per site and label, in that order; a slide without a patient is a patient of its own."""
    found: dict[tuple[str, str], list[SlideRecord]] = {}
    for record in records:
        found.setdefault((record.site, record.label), []).append(record)
    return [
        Group(site, label, len(members), len({record.patient or f"\0{record.id}" for record in members}))
        for (site, label), members in sorted(found.items())
    ]
