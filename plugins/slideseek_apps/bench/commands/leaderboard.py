"""`slideseek bench leaderboard`: several results folders in one page that can be sorted and filtered."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.searching.votes import TIE_RULES


@click.command()
@click.argument("folders", type=click.Path(path_type=Path, exists=True, file_okay=False), nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The HTML page to write.")
@click.option("--title", default="Leaderboard", show_default=True, help="The heading of the page.")
@click.option("--k", type=click.IntRange(1), default=3, show_default=True, help="Number of nearest slides that count.")
@click.option(
    "--tie", type=click.Choice(TIE_RULES), default="nearest", show_default=True, help="How a tied vote counts."
)
def command(folders: tuple[Path, ...], output: Path, title: str, k: int, tie: str) -> None:
    """Merge the results in FOLDERS into one page that needs no other file."""
    from slideseek.archive.files import write_text
    from slideseek_apps.bench.report.leaderboard import make_standings, render_leaderboard
    from slideseek_apps.bench.report.settings import ReportSettings, as_tie
    from slideseek_apps.bench.results import read_results

    settings = ReportSettings(k, as_tie(tie))
    standings = make_standings([read_results(folder) for folder in folders], settings)
    write_text(output, render_leaderboard(title, standings, settings))
    click.echo(f"wrote {output}: {len(standings)} rows of {len(folders)} results")
