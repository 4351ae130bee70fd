"""`slideseek watch`: one line per event, until a signal."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from slideseek.cli.options import archive_option, executor_options, json_option, mpp_option
from slideseek.cli.output import problem_line, say, say_problem

if TYPE_CHECKING:
    from slideseek_apps.watch.watching import WatchEvent


@click.command()
@click.argument("watched", metavar="FOLDER", type=click.Path(path_type=Path))
@archive_option
@click.option("--engine", "names", multiple=True, help="Build only this engine (may be repeated; default: all).")
@executor_options
@click.option(
    "--settle",
    default=10.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds without a change before a file is read.",
)
@click.option(
    "--poll",
    default=5.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds between looks at the folder.",
)
@click.option(
    "--manifest",
    type=click.Path(path_type=Path, dir_okay=False),
    help="CSV as in 'add', read again whenever it changes; only slides it lists are taken in.",
)
@mpp_option
@json_option
def command(
    watched: Path,
    folder: Path | None,
    names: tuple[str, ...],
    executor: str,
    workers: int | None,
    patience: float | None,
    settle: float,
    poll: float,
    manifest: Path | None,
    mpp: float | None,
    as_json: bool,
) -> int:
    """Take in the slides of FOLDER as they come, and build, until interrupted.

    A file is read only when it has stopped changing. A watch can be stopped at any time and started again.
    """
    from slideseek.api import open_archive
    from slideseek.archive.adding import StatedMpp
    from slideseek.building.build import BuildOptions
    from slideseek.cli.progress import LineReporter
    from slideseek.indexing.live_index import open_engine
    from slideseek_apps.watch.watching import Watch, WatchOptions

    options = BuildOptions(executor=executor, workers=workers, patience=patience)
    what = WatchOptions(watched, settle, poll, manifest, StatedMpp(mpp) if mpp is not None else None)
    former = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with open_archive(folder) as opened:
            config, archive = opened.archive.config, opened.archive
            chosen = [config.engine(name) for name in names] or config.engines
            engines = [open_engine(archive, one, opened.registry) for one in chosen]
            watch = Watch(archive, engines, what, options, LineReporter)
            _tell("watching", {"folder": str(watched), "archive": str(archive.root)}, as_json)
            try:
                for event in watch.run():
                    _show(event, as_json)
            except KeyboardInterrupt:
                _tell("stopped", {"slides": len(archive.catalog.slides)}, as_json)
    finally:
        signal.signal(signal.SIGTERM, former)
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _tell(event: str, data: dict[str, object], as_json: bool) -> None:
    """Print a line; a program reading it gets it at once."""
    if as_json:
        click.echo(json.dumps({"event": event, **data}, ensure_ascii=False))
    else:
        click.echo(f"{event:<8} " + ", ".join(f"{name} {value}" for name, value in data.items()))


def _show(event: WatchEvent, as_json: bool) -> None:
    data = event.data
    if as_json:
        _tell(event.event, data, True)
        return
    if event.event == "taken":
        for note in data["notes"]:
            say(f"note    {note}")
        for problem in data["problems"]:
            say_problem(problem["subject"], problem["cause"], problem["fix"])
        new = [*data["added"], *data["updated"]]
        if new:
            _tell(
                "taken", {"added": len(data["added"]), "updated": len(data["updated"]), "slides": " ".join(new)}, False
            )
    elif event.event == "built":
        counts = ", ".join(f"{count} {name}" for name, count in data["slides"].items())
        _tell("built", {"slides:": counts, "indexed": data["indexed"]}, False)
    elif event.event == "error":
        say(problem_line("watch", data["cause"], data["fix"]))
    else:
        _tell(event.event, data, False)
