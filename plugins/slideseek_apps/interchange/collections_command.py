"""`slideseek collections`: what a catalogue of slides elsewhere has, before anything is added."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import click

from slideseek.cli.options import json_option
from slideseek.cli.output import print_json, print_table


@click.command()
@click.argument("catalogue")
@click.option(
    "--where",
    multiple=True,
    metavar="TEXT",
    help="Only slides with FIELD=VALUE, or with these words in their fields (may be repeated).",
)
@json_option
def command(catalogue: str, where: tuple[str, ...], as_json: bool) -> None:
    """List the collections of a CATALOGUE such as 'idc:' with their slides, patients, bytes and licences.

    Nothing is downloaded. 'slideseek add CATALOGUE' with the same --where adds the slides to an archive.
    """
    from slideseek.errors import UsageError
    from slideseek.slides.remote_path import RemotePath, located
    from slideseek.slides.remote_slides import find_remote
    from slideseek.types import SlideRecord

    path = located(catalogue)
    if not isinstance(path, RemotePath):
        raise UsageError(f"{catalogue!r} is not a catalogue", "name one, such as idc: or idc:tcga_brca")
    groups: dict[str, list[SlideRecord]] = defaultdict(list)
    for record in find_remote(path, where):
        groups[record.fields.get("collection", str(path))].append(record)
    found: list[dict[str, Any]] = [
        {
            "collection": name,
            "slides": len(records),
            "patients": len({record.patient for record in records}),
            "bytes": sum(int(record.fields.get("bytes") or 0) for record in records),
            "sites": sorted({record.site for record in records} - {""}),
            "licenses": sorted({record.fields.get("license", "") for record in records} - {""}),
        }
        for name, records in groups.items()
    ]
    if as_json:
        print_json(found)
        return
    rows = [
        [
            *(one["collection"], str(one["slides"]), str(one["patients"]), f"{one['bytes'] / 1e9:,.0f}"),
            *(", ".join(one["sites"]), ", ".join(one["licenses"])),
        ]
        for one in found
    ]
    print_table(("collection", "slides", "patients", "GB", "site", "licence"), rows, right=range(1, 4))
    every = [record for records in groups.values() for record in records]
    size = sum(one["bytes"] for one in found)
    patients = len({(record.fields.get("collection"), record.patient) for record in every})
    click.echo(f"{len(every):,} slides of {patients:,} patients in {len(found)} collections, {size / 1e12:.2f} TB")
