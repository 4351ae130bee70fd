"""`slideseek status`: the state of each slide and engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from slideseek.cli.options import archive_option, json_option
from slideseek.cli.output import print_json, print_table, problem_line

MOST, MOST_GROUPS, MOST_FAILURES = 30, 18, 5
"""Slides, groups of slides and failures up to which each has its own line: more do not fit a screen."""


@click.command()
@archive_option
@click.option("--failed", "only_failed", is_flag=True, help="List only slides that failed.")
@click.option("--all", "every", is_flag=True, help=f"List every slide, also where there are more than {MOST}.")
@json_option
def command(folder: Path | None, only_failed: bool, every: bool, as_json: bool) -> None:
    """Show what is done, what failed and why, for every slide and engine.

    A large archive is summarised by site and diagnosis.
    """
    from slideseek.api import open_archive
    from slideseek.archive.file_changes import named

    with open_archive(folder) as archive:
        status = archive.status()
    if as_json:
        slides = [s for s in status["slides"] if s["failure"]] if only_failed else status["slides"]
        print_json({**status, "slides": slides})
        return
    # A field of the manifest comes before what was measured.
    stains = {s["id"]: s["fields"].get("stain") or s["measured"].get("stain", "") for s in status["slides"]}
    stained = ("stain",) if any(stains.values()) else ()
    rows = [
        [
            *(slide["id"], slide["patient"], slide["site"], slide["label"], *(stains[slide["id"]] for _ in stained)),
            *(stages["state"] for stages in slide["engines"].values()),
        ]
        for slide in status["slides"]
        if not only_failed or slide["failure"]
    ]
    names = [engine["name"] for engine in status["engines"]]
    if len(rows) > MOST and not (every or only_failed):
        _print_summary(status["slides"], names)
    else:
        print_table(("slide", "patient", "site", "diagnosis", *stained, *names), rows)
    failures = [slide for slide in status["slides"] if slide["failure"]]
    if len(rows) > MOST and len(failures) > MOST_FAILURES and not (every or only_failed):
        click.echo(
            f"{len(failures):,} slides failed; the first {MOST_FAILURES} ('slideseek status --failed' lists all):"
        )
        failures = failures[:MOST_FAILURES]
    for slide in failures:
        if failure := slide["failure"]:
            if slide["known"] is not None:
                reason = f" ({slide['known']})" if slide["known"] else ""
                click.echo(f"known   {slide['id']} ({failure['stage']}): {failure['cause']}{reason}")
                continue
            click.echo(problem_line(f"{slide['id']} ({failure['stage']})", failure["cause"], failure["fix"]))
    changed = [slide["id"] for slide in status["slides"] if slide["file"] == "changed"]
    if changed:
        click.echo(f"changed {named(changed)}: the file is not as it was added; 'slideseek build' looks at its content")
    if missing := [slide["id"] for slide in status["slides"] if slide["file"] == "missing"]:
        click.echo(f"missing {named(missing)}: the file cannot be found; searches still work")
    if away := [slide["id"] for slide in status["slides"] if slide["file"] == "unreachable"]:
        click.echo(f"unknown {named(away)}: could not be looked up where it lies; searches still work")
    patient = {slide["id"]: slide["patient"] for slide in status["slides"]}
    for copies in status["copies"]:
        patients = sorted({patient[slide_id] for slide_id in copies} - {""})
        leak = f" of the patients {', '.join(patients)}: one of them is wrong" if len(patients) > 1 else ""
        click.echo(f"copies  {', '.join(copies)} have the same content{leak}")
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


def _print_summary(slides: list[dict[str, Any]], engines: list[str]) -> None:
    """Print how many slides of each site and diagnosis are done, largest groups first."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for slide in slides:
        groups.setdefault((slide["site"], slide["label"]), []).append(slide)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    rest = [slide for _, members in ordered[MOST_GROUPS:] for slide in members]
    more = [((f"{len(ordered) - MOST_GROUPS} more", ""), rest)] if rest else []
    shown = [*ordered[:MOST_GROUPS], *more, (("all", ""), slides)]
    rows = []
    for heads, members in shown:
        patients = len({slide["patient"] or slide["id"] for slide in members})
        failed = sum(slide["failure"] is not None for slide in members)
        done = [sum(slide["engines"][name]["state"] == "done" for slide in members) for name in engines]
        rows.append([*heads, *(f"{number:,}" for number in (len(members), patients, failed, *done))])
    print_table(("site", "diagnosis", "slides", "patients", "failed", *engines), rows)
