"""`slideseek duplicates`: find copies and rescans."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli.options import archive_option, json_option
from slideseek.cli.output import print_json, print_table, say


@click.command()
@archive_option
@click.option("--engine", "name", help="The engine whose features suggest candidates (default: the first configured).")
@json_option
def command(folder: Path | None, name: str | None, as_json: bool) -> None:
    """Find slides that show the same tissue: copies of a file, and rescans.

    Nothing is excluded or changed. Two patients with the same tissue are named: one of the two is wrong, and each slide
    is found for the other as if it were evidence.
    """
    from dataclasses import asdict

    from slideseek.api import open_archive
    from slideseek.cli.progress import counting
    from slideseek.indexing.live_index import open_engine
    from slideseek_apps.doctor.duplicates import copies, leaking, rescans

    with open_archive(folder) as opened:
        archive = opened.archive
        engine = open_engine(archive, archive.config.engine(name), opened.registry)
        with counting("comparing", archive.catalog.work.count("featurize", engine.feature_digest)) as advance:
            found = [*copies(archive), *rescans(archive, engine, advance)]
        compared, slides = archive.catalog.work.count("featurize", engine.feature_digest), len(archive.catalog.slides)
    leaks = leaking(found)
    if as_json:
        print_json({"duplicates": [asdict(one) for one in found], "leaks": len(leaks), "compared": compared})
    else:
        rows = [
            [one.first, one.second, one.kind, f"{one.likeness:.2f}", " | ".join(dict.fromkeys(one.patients))]
            for one in found
        ]
        if rows:
            print_table(("slide", "slide", "what", "likeness", "patients"), rows, right=(3,))
        click.echo(f"{len(found)} pair(s) of slides show the same tissue, {len(leaks)} of them of two patients")
    if compared < slides:
        say(f"note    pictures of {slides - compared} slide(s) were not compared: they have no features yet")
    if leaks:
        say("note    correct the patients with a manifest and 'slideseek add', or remove one slide of each pair")
