"""`slideseek bench check`: find numbers of a published table that contradict each other."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from slideseek.cli.options import json_option
from slideseek.cli.output import print_json, print_table


@click.command()
@click.argument("table", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--total", type=click.IntRange(0), help="Number of slides stated in the text; the column n must sum to it."
)
@json_option
def command(table: Path, total: int | None, as_json: bool) -> int:
    """Check a published TABLE, a CSV with one row per class or method, and print the means of its columns.

    F1 is checked against precision and recall where there are columns of these names ('AMA f1', 'AMA precision', ...).
    The exit code is 3 when numbers contradict each other.
    """
    from slideseek.cli import EXIT_FAILED_SLIDES
    from slideseek_apps.bench.published_table import check_published, read_published

    published = read_published(table)
    findings = check_published(published, total)
    means = published.means()
    if as_json:
        names = published.columns
        print_json(
            {
                "table": published.name,
                "rows": len(published.labels),
                "means": {mean: {n: v.value for n, v in zip(names, numbers)} for mean, numbers in means.items()},
                "findings": [dataclasses.asdict(finding) for finding in findings],
            }
        )
    else:
        print_table(
            ("mean", *published.columns),
            [[mean, *(number.text for number in numbers)] for mean, numbers in means.items()],
            right=range(1, len(published.columns) + 1),
        )
        for finding in findings:
            where = ", ".join(part for part in (finding.row, finding.column) if part)
            click.echo(f"wrong   {where}: {finding.message}")
        click.echo(f"{published.name}: {len(findings)} contradictions in {len(published.labels)} rows")
    return EXIT_FAILED_SLIDES if findings else 0
