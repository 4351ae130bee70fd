"""`slideseek bench submit`: ranked lists and encoder cards in a folder that a leaderboard accepts."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli.options import json_option
from slideseek.cli.output import print_json


@click.command()
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The folder to write.")
@click.option(
    "--cards",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="TOML with one [[card]] per engine: training cohorts, weights, licence, whether it has seen this cohort.",
)
@click.option("--engine", "engines", multiple=True, help="Submit these engines only (may be repeated).")
@click.option(
    "--like",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="For ranked lists of another system: results of the benchmark that they answer.",
)
@click.option("--protocol", help="Which protocol of --like the lists answer, if it has several.")
@click.option("--name", help="For ranked lists of another system: its name.")
@json_option
def command(
    source: Path,
    output: Path,
    cards: Path,
    engines: tuple[str, ...],
    like: Path | None,
    protocol: str | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Submit SOURCE: a folder that 'bench run' wrote, or the ranked lists of another system (see 'bench score').

    The ranked lists are checked and written with the cards of their engines into a new folder.
    """
    from slideseek.errors import UsageError
    from slideseek_apps.bench.results import read_results
    from slideseek_apps.bench.submission import submit_lists, submit_results

    if output.exists():
        raise UsageError(f"{output} already exists", "name a new folder")
    if source.is_dir():
        if like or name or protocol:
            raise UsageError("--like, --name and --protocol are for ranked lists of another system", "leave them out")
        cells = submit_results(read_results(source), engines, cards, output)
        names = list(dict.fromkeys(cell.engine for cell in cells))
        said = {"cells": len(cells), "engines": names}
    else:
        if like is None or not name:
            raise UsageError("ranked lists need --like RESULTS and --name NAME", "pass both")
        fitting = [c for c in read_results(like).cells if c.kind == "retrieval" and not c.control]
        titles = list(dict.fromkeys(cell.protocol.title for cell in fitting))
        if (protocol is None and len(titles) != 1) or (protocol is not None and protocol not in titles):
            raise UsageError(f"{like} has the protocols {', '.join(titles) or 'none'}", "pass one with --protocol")
        chosen = next(cell for cell in fitting if cell.protocol.title == (protocol or titles[0]))
        names = [name]
        said = {"cells": 1, "engines": names, "queries": submit_lists(source, chosen, name, cards, output)}
    if as_json:
        print_json({"folder": str(output), **said})
    else:
        click.echo(f"wrote {output}: {said['cells']} ranked lists of {', '.join(names)}")
