"""`slideseek demo`: from slides to hits in one command."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli.options import json_option
from slideseek.cli.output import print_answer, print_json, print_table, say


@click.command()
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default="slideseek-demo",
    show_default=True,
    help="The folder for the slides, the archive and the report.",
)
@click.option("--patients", default=6, show_default=True, type=click.IntRange(2, 50), help="Patients per diagnosis.")
@json_option
def command(folder: Path, patients: int, as_json: bool) -> None:
    """Generate H&E-like slides, build an archive of them, search it and write an HTML report.

    Nothing is downloaded. The archive is kept: search it with 'slideseek search ID -a DIR'.
    """
    import statistics

    from slideseek.cli.progress import make_reporter
    from slideseek.plugins import needs_application
    from slideseek.searching.answer_json import answer_json

    with needs_application("reports", "the demo"):
        from slideseek_apps.demo.run_demo import run_demo
    say(f"writing the demo to {folder}")
    with make_reporter() as reporter:
        result = run_demo(folder, reporter, patients, lambda slide: say(f"painted {slide}"))
    first = result.itself.found[0]
    medians = {stage: statistics.median(times) for stage, times in result.build.stage_seconds.items()}
    if as_json:
        print_json(
            {
                "answer": answer_json(result.answer),
                "itself": answer_json(result.itself),
                "accuracies": {
                    name: {"majority3": right, "constant": constant}
                    for name, (right, constant) in result.accuracies.items()
                },
                "seconds": result.seconds,
                "median_slide_seconds": medians,
                "report": str(result.report.resolve()),
            }
        )
        return
    print_answer(result.answer)
    click.echo(f"with the query itself included: {first.hit.slide_id} is first at distance {first.hit.distance:g}")
    for name, (right, constant) in result.accuracies.items():
        click.echo(
            f"engine {name!r}, vertical, leave one patient out, majority of 3: {right:.1%} correct"
            f" (always the most common diagnosis of the site: {constant:.1%})"
        )
    rows = [[name, f"{value:.2f} s"] for name, value in result.seconds.items()]
    rows += [[f"{stage}, median of slides", f"{value * 1000:.1f} ms"] for stage, value in medians.items()]
    print_table(("step", "wall time"), rows, right=(1,))
    click.echo(f"report: {result.report.resolve()}")
    click.echo(f"next: slideseek serve {folder} --open   or: slideseek search {result.answer.query.id} -a {folder}")
