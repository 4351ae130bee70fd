"""`slideseek doctor`: check the installation and an archive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slideseek.cli.options import archive_argument, archive_option, chosen_archive, json_option
from slideseek.cli.output import print_json
from slideseek_apps.doctor.wrapped_text import echo_wrapped

if TYPE_CHECKING:
    from slideseek_apps.doctor.finding import Finding

EXIT_FAIL = 1
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@archive_argument
@archive_option
@click.option("--verify", is_flag=True, help="Read all feature files of the archive, not only a sample.")
@json_option
def command(argument: Path | None, folder: Path | None, verify: bool, as_json: bool) -> int:
    """Check versions, device, plugins and weights, and the catalogue, files, indexes and disk of ARCHIVE.

    Without ARCHIVE, the current folder is checked if it is an archive, or the nearest parent that is. Each line is ok,
    warn or fail, with the fix. The exit code is 1 if any line is fail. Nothing is changed.
    """
    from slideseek.config import CONFIG_NAME
    from slideseek.errors import UsageError
    from slideseek_apps.doctor.examine import examine

    archive = chosen_archive(argument, folder)
    if archive is None:
        here = Path.cwd()
        archive = next((above for above in (here, *here.parents) if (above / CONFIG_NAME).is_file()), None)
    elif not (archive / CONFIG_NAME).is_file():
        raise UsageError(
            f"{archive} is not an archive (no {CONFIG_NAME})", f"check the path, or run 'slideseek init {archive}'"
        )
    return show(examine(archive, verify), as_json)


def show(findings: Iterable[Finding], as_json: bool) -> int:
    """Print findings as they are found, with their fixes; return 1 if any is fail, else 0."""
    counts: Counter[str] = Counter()
    found, area = [], ""
    for finding in findings:
        counts[finding.state] += 1
        if as_json:
            found.append(asdict(finding))
            continue
        if finding.area != area:
            area = finding.area
            click.echo(click.style(area, bold=True))
        state = click.style(f"{finding.state:<4}", fg=_COLOURS[finding.state])
        echo_wrapped(f"{finding.name}: {finding.detail}", indent=" " * 10, lead=f"  {state}  ")
        if finding.fix:
            echo_wrapped(f"fix: {finding.fix}", indent=" " * 10, lead=" " * 8)
    if as_json:
        print_json({"findings": found, "counts": {state: counts[state] for state in _COLOURS}})
    else:
        click.echo(", ".join(f"{counts[state]} {state}" for state in _COLOURS))
    return EXIT_FAIL if counts["fail"] else 0
