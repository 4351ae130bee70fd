"""`slideseek doctor`: is everything in order?"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path

import click

from slideseek.cli.options import json_option
from slideseek.cli.output import print_json

EXIT_FAIL = 1
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@click.argument("archive", required=False, type=click.Path(path_type=Path), envvar="SLIDESEEK_ARCHIVE")
@click.option("--verify", is_flag=True, help="Read all feature files of the archive instead of some.")
@json_option
def command(archive: Path | None, verify: bool, as_json: bool) -> int:
    """Check versions, device, plugins and weights and, with ARCHIVE, its catalogue, files, indexes and disk.

    Each line is ok, warn or fail, and says what to do; the exit code is 1 when one is fail. Nothing is changed.
    """
    from slideseek.config import CONFIG_NAME
    from slideseek.doctor import examine
    from slideseek.errors import UsageError

    if archive is not None and not (archive / CONFIG_NAME).is_file():
        raise UsageError(f"{archive} is not an archive (no {CONFIG_NAME})", f"run 'slideseek init {archive}'")
    counts: Counter[str] = Counter()
    found, area = [], ""
    for finding in examine(archive, verify):
        counts[finding.state] += 1
        if as_json:
            found.append(asdict(finding))
            continue
        if finding.area != area:
            area = finding.area
            click.echo(click.style(area, bold=True))
        click.echo(
            f"  {click.style(f'{finding.state:<4}', fg=_COLOURS[finding.state])}  {finding.name}: {finding.detail}"
        )
        if finding.fix:
            click.echo(f"        fix: {finding.fix}")
    if as_json:
        print_json({"findings": found, "counts": {state: counts[state] for state in _COLOURS}})
    else:
        click.echo(", ".join(f"{counts[state]} {state}" for state in _COLOURS))
    return EXIT_FAIL if counts["fail"] else 0
