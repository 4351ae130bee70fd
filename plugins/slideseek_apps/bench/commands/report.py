"""`slideseek bench report`: the tables and figures of a results folder, in any format."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

FORMATS = ("terminal", "markdown", "csv", "latex", "json", "html")
TIES = ("nearest", "correct", "strict")
DIVISORS = ("hits", "k", "min(k, relevant)")


@click.command()
@click.argument("folders", type=click.Path(path_type=Path, exists=True, file_okay=False), nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write, its format by the suffix, or a folder for all.",
)
@click.option("--format", "name", type=click.Choice(FORMATS), help="The format [default: by -o, else terminal].")
@click.option("--k", type=click.IntRange(1), default=3, show_default=True, help="How many of the nearest count.")
@click.option("--tie", type=click.Choice(TIES), default="nearest", show_default=True, help="How a tied vote counts.")
@click.option(
    "--ap-divisor",
    type=click.Choice(DIVISORS),
    help="What AP@k and the ideal of nDCG@k count [default: min(k, relevant) where it is known, else hits].",
)
@click.option(
    "--against", default="", metavar="ENGINE", help="Compare every engine with this one [default: all pairs]."
)
def command(
    folders: tuple[Path, ...],
    output: Path | None,
    name: str | None,
    k: int,
    tie: str,
    ap_divisor: str | None,
    against: str,
) -> None:
    """Report on the results in FOLDERS: every table and figure their cells allow, a section a dataset."""
    from slideseek.cli.progress import telling
    from slideseek_apps.bench.report.assemble import make_report
    from slideseek_apps.bench.report.formats import as_format, formats_of, render, write_report
    from slideseek_apps.bench.report.settings import ReportSettings, as_divisor, as_tie
    from slideseek_apps.bench.results import merge_results, read_results

    asked = as_format(name)
    names = formats_of(output, asked) if output is not None else (asked or "terminal",)
    results = merge_results([read_results(folder) for folder in folders])
    settings = ReportSettings(k, as_tie(tie), as_divisor(ap_divisor), against)
    with telling() as tell:
        report = make_report(results.title, results.cells, settings, results.superseded, tell)
    if output is None:
        colour = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if colour else 200
        click.echo(render(report, names[0], width, colour), nl=False)
        return
    for path in write_report(report, output, names):
        click.echo(f"wrote {path}")
