"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from slideseek.cli.output import say

if TYPE_CHECKING:
    from slideseek.archive.archive import Archive

Command = TypeVar("Command", bound=Callable[..., Any])

archive_option = click.option(
    "-a",
    "--archive",
    "folder",
    type=click.Path(path_type=Path),
    envvar="SLIDESEEK_ARCHIVE",
    help="The archive's folder (default: the current folder or the nearest archive above it).",
)
archive_argument = click.argument("argument", metavar="[ARCHIVE]", required=False, type=click.Path(path_type=Path))
wait_option = click.option("--wait", is_flag=True, help="Wait while another slideseek writes to the archive.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

mpp_option = click.option(
    "--mpp", type=click.FloatRange(0.05, 5), help="µm per pixel, for a slide whose own resolution is missing or wrong."
)
mag_option = click.option(
    "--mag", type=click.FloatRange(min=0, min_open=True), help="The same as a nominal magnification: 20 is 0.5 µm/px."
)


def executor_options(command: Command) -> Command:
    """Add the options that say what runs a build."""
    for option in (
        click.option("--patience", type=float, help="Give up on a slide after so many seconds without progress."),
        click.option("--workers", type=int, help="Option of the executor; of 'local', slides to read ahead."),
        click.option("--executor", default="", metavar="NAME", help="What runs the work (default: as configured)."),
    ):
        command = option(command)
    return command


HOW_TO_GIVE = {
    "k": "pass -k 1 or more",
    "kind": "pass one of --region, --patch and --case",
    "region": "pass --region FILE.geojson",
    "site": "pass --site",
    "patient": "pass --patient",
    "center": "pass --center",
    "mpp": "pass --mpp",
    "options": "pass --set NAME=VALUE; 'slideseek plugins show' lists the options of a component",
}
"""How to pass each search parameter on the command line, for error messages."""


def stated_mpp(mpp: float | None, mag: float | None) -> float | None:
    """Return the resolution the user states; a magnification is converted, and the conversion is shown."""
    if mag is None:
        return mpp
    from slideseek.errors import UsageError
    from slideseek.slides.magnification import describe_magnification, nominal_mpp

    if mpp is not None:
        raise UsageError("--mpp and --mag both set the resolution", "pass one of them")
    say(f"note    {describe_magnification(mag)}")
    return nominal_mpp(mag)


def chosen_archive(argument: Path | None, option: Path | None) -> Path | None:
    """Return the archive of a command that accepts it both as an argument and, like all commands, with -a."""
    source = click.get_current_context().get_parameter_source("folder")
    if argument is not None and option is not None and source is click.core.ParameterSource.COMMANDLINE:
        from slideseek.errors import UsageError

        raise UsageError(f"two archives are given, {argument} and {option}", "give only one")
    return argument if argument is not None else option


def open_archive(folder: Path | None, wait: bool = False) -> Archive:
    """Open the archive a command works on. wait: for its lock, if another command has it."""
    from slideseek.archive.archive import Archive

    archive = Archive(folder) if folder is not None else Archive.locate(Path.cwd())
    archive.wait = say if wait else None
    return archive


def run_application(name: str, option: str, /, **given: Any) -> int:
    """Run the command of an application that an option of a core command stands for, and return its exit code."""
    from slideseek.errors import PluginError

    context = click.get_current_context()
    group = context.find_root().command
    command = group.get_command(context, name) if isinstance(group, click.Group) else None
    if command is None:
        raise PluginError(f"{option} needs the application {name!r}, which is not installed", "install slideseek again")
    return int(context.invoke(command, **given) or 0)
