"""`slideseek bench report`: the tables and figures of results folders, in any format."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from slideseek.cli.output import say
from slideseek.searching.votes import TIE_RULES
from slideseek_apps.bench.measures import DIVISORS
from slideseek_apps.bench.report.formats import FORMATS


@click.command()
@click.argument("folders", type=click.Path(path_type=Path, exists=True, file_okay=False), nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write, with the format of its suffix, or a folder for all formats.",
)
@click.option("--format", "name", type=click.Choice(FORMATS), help="The format [default: that of -o, else terminal].")
@click.option("--k", type=click.IntRange(1), default=3, show_default=True, help="Number of nearest slides that count.")
@click.option(
    "--tie", type=click.Choice(TIE_RULES), default="nearest", show_default=True, help="How a tied vote counts."
)
@click.option(
    "--ap-divisor",
    type=click.Choice(DIVISORS),
    help="The divisor of AP@k and the ideal of nDCG@k [default: min(k, relevant) where it is known, else hits].",
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
    """Report on the results in FOLDERS: all tables and figures, one section per dataset and protocol."""
    from slideseek_apps.bench.progress import telling
    from slideseek_apps.bench.report.assemble import make_report
    from slideseek_apps.bench.report.formats import as_format, formats_of, render, write_report
    from slideseek_apps.bench.report.settings import ReportSettings, as_divisor, as_tie
    from slideseek_apps.bench.results import merge_results, read_results

    chosen = as_format(name)
    names = formats_of(output, chosen) if output is not None else (chosen or "terminal",)
    results = merge_results([read_results(folder) for folder in folders])
    settings = ReportSettings(k, as_tie(tie), as_divisor(ap_divisor), against)
    with telling() as on_step:
        report = make_report(results.title, results.cells, settings, results.superseded, on_step)
    if output is None:
        colour = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if colour else 200
        click.echo(render(report, names[0], width, colour), nl=False)
        return
    for path in write_report(report, output, names, lambda text: say(f"note    {text}")):
        click.echo(f"wrote {path}")
