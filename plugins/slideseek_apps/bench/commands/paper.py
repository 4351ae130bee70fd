"""`slideseek bench paper`: the paper's experiment on TCGA diagnostic slides, from the manifest to the page."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slideseek.cli.options import json_option
from slideseek.cli.output import print_json, print_table, say, say_problem

if TYPE_CHECKING:
    from slideseek_apps.bench.paper_plan import PaperPlan

CONFIG = "table1-tcga"


@click.command()
@click.option(
    "-a", "--archive", "folder", type=click.Path(path_type=Path), help="The archive to make or to go on with."
)
@click.option("--plan", "only_plan", is_flag=True, help="Only print what it takes: slides, bytes and hours.")
@click.option("--nodes", type=click.IntRange(1), default=1, show_default=True, help="Nodes that the plan reckons with.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Slides per hour of one node, for the plan.")
@click.option(
    "--manifest",
    "listed",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Take the slides of this CSV, with the project as diagnosis, instead of those of the Imaging Data Commons.",
)
@click.option("--each", type=click.IntRange(1), help="At most so many slides of each subtype: a trial, not a result.")
@click.option("--set", "given", multiple=True, metavar="KEY=VALUE", help="Change the configuration (may be repeated).")
@click.option("--quick", "short", is_flag=True, help="2 epochs, 2 folds, one seed: a trial, not a result.")
@click.option(
    "--report", type=click.Path(path_type=Path), default=Path("table1.html"), show_default=True, help="The page."
)
@json_option
@click.pass_context
def command(
    context: click.Context,
    folder: Path | None,
    only_plan: bool,
    nodes: int,
    rate: float | None,
    listed: Path | None,
    each: int | None,
    given: tuple[str, ...],
    short: bool,
    report: Path,
    as_json: bool,
) -> int:
    """Repeat the paper's Table 1 on TCGA diagnostic slides where they lie, with the recommended engine beside it.

    Makes the archive, adds the slides, builds their mosaics and features, runs the grid 'table1-tcga' and writes the
    page. Every step goes on where it was stopped; 'slideseek build' does the second, with any executor.
    """
    from slideseek.config import CONFIG_NAME
    from slideseek.errors import UsageError
    from slideseek_apps.bench.paper_plan import Rate, measured_rate, plan_paper
    from slideseek_apps.bench.paper_slides import paper_slides

    if folder is None and not only_plan:
        raise UsageError("no archive given", "pass -a FOLDER, or --plan to see what it takes")
    slides = paper_slides(listed, each or 0)
    known, done = Rate(0.0, "not measured"), 0
    if folder is not None and (folder / CONFIG_NAME).is_file():
        from slideseek.archive.archive import Archive

        with Archive(folder) as archive:
            known, done = measured_rate(archive)
    plan = plan_paper(slides, nodes, Rate(rate, "as given") if rate else known, done)
    for problem in slides.problems:
        say_problem(problem.subject, problem.cause, problem.fix)
    if only_plan and as_json:
        print_json(plan.data())
    elif not as_json:
        _print(plan)
    if only_plan or folder is None:
        return 0
    from slideseek_apps.bench.commands.run import command as run
    from slideseek_apps.bench.paper_run import build_archive

    failed = build_archive(folder, slides)
    code = context.invoke(
        run,
        config=CONFIG,
        folder=folder / f"bench-{CONFIG}",
        data=(folder,),
        kind="archive",
        only=(),
        given=given,
        control=False,
        short=short,
        report=report,
        listed=False,
        as_json=as_json,
    )
    return int(code or failed)


def _print(plan: PaperPlan) -> None:
    table = [
        [row.site, row.subtype, row.slides, row.patients, _gb(row.bytes), row.test_slides, row.paper_test_slides]
        for row in plan.rows
    ]
    total = [sum(row.test_slides for row in plan.rows), sum(row.paper_test_slides for row in plan.rows)]
    table.append(["total", "", plan.slides, plan.patients, _gb(plan.bytes), *total])
    head = ("site", "subtype", "slides", "patients", "GB", "40 %", "paper's test side")
    with contextlib.suppress(BrokenPipeError):
        print_table(head, [[str(cell) for cell in row] for row in table], right=range(2, 7))
    for note in plan.notes:
        say(f"note    {note}")
    if plan.sized < plan.slides:
        say(f"note    the size of {plan.slides - plan.sized} slide(s) is not stated")
    click.echo(
        f"bytes   at most {plan.bytes / 1e12:.2f} TB (whole slides; mosaics of 15 % need a part of it):"
        f" {plan.link_hours:,.1f} h at 1 Gbit/s for each of {plan.nodes} node(s)"
    )
    todo = plan.slides - plan.done
    if plan.hours is None:
        click.echo(
            f"hours   unknown for {todo} slides: {plan.rate.source}. --rate states it;"
            " 'slideseek bench paper -a FOLDER --each 1' measures it on one slide of each subtype"
        )
    else:
        click.echo(
            f"hours   {plan.hours:,.1f} for {todo} slides on {plan.nodes} node(s), at {plan.rate.slides_per_hour:,.1f}"
            f" slides per hour for each ({plan.rate.source}), without training and search"
        )


def _gb(size: int) -> str:
    return f"{size / 1e9:,.0f}" if size else "?"
