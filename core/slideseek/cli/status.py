"""`slideseek status`: the state of each slide and engine."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli.options import archive_option, json_option
from slideseek.cli.output import print_json, print_table, problem_line


@click.command()
@archive_option
@click.option("--failed", "only_failed", is_flag=True, help="List only slides that failed.")
@json_option
def command(folder: Path | None, only_failed: bool, as_json: bool) -> None:
    """Show what is done, what failed and why, for every slide and engine."""
    from slideseek.api import open_archive

    with open_archive(folder) as archive:
        status = archive.status()
    if as_json:
        slides = [s for s in status["slides"] if s["failure"]] if only_failed else status["slides"]
        print_json({**status, "slides": slides})
        return
    rows = [
        [
            slide["id"],
            slide["patient"],
            slide["site"],
            slide["label"],
            *(stages["state"] for stages in slide["engines"].values()),
        ]
        for slide in status["slides"]
        if not only_failed or slide["failure"]
    ]
    names = [engine["name"] for engine in status["engines"]]
    print_table(("slide", "patient", "site", "diagnosis", *names), rows)
    for slide in status["slides"]:
        if failure := slide["failure"]:
            click.echo(problem_line(f"{slide['id']} ({failure['stage']})", failure["cause"], failure["fix"]))
    for engine in status["engines"]:
        if error := engine["error"]:
            click.echo(problem_line(f"engine {engine['name']!r}", error["cause"], error["fix"]))
            continue
        fresh = "up to date" if engine["index_fresh"] else "out of date: run 'slideseek build'"
        click.echo(
            f"engine {engine['name']!r}: {engine['coded']} of {len(status['slides'])} slides have a code,"
            f" {engine['indexed']} indexed ({engine['bytes_per_slide']:.0f} bytes per slide), index {fresh}"
        )
        for change in engine["changed"]:
            click.echo(f"  {change}: run 'slideseek build' to compute again what it made")
