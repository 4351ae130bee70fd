"""The command `slideseek`: one module a command, imported when the command is called."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
from typing import TYPE_CHECKING

import click

from slideseek import __version__

if TYPE_CHECKING:
    from slideseek.errors import SlideseekError

# Name of a command, and its one line of help, so that `slideseek --help` imports none of them.
COMMANDS = {
    "init": "Make an archive: a folder with a configuration and a catalogue.",
    "add": "Add slides, or folders of slides, to an archive.",
    "import": "Import features that another tool computed.",
    "build": "Do what is missing: select, featurize, fit, encode, index.",
    "search": "Find the slides most similar to a slide.",
    "session": "Search an archive in a conversation: filter, mark, explain, export.",
    "explain": "Show which patches made two slides match.",
    "report": "Write queries and their hits as one HTML page.",
    "history": "List what was asked of an archive.",
    "replay": "Ask a query of the history again: are the hits the same?",
    "export": "Write features, patches, codes or the table of slides for other tools.",
    "remove": "Take slides out of an archive; their files stay untouched.",
    "status": "Tell what is done, what failed and why.",
    "inspect": "Look at one slide: resolution, levels, tissue, patches, and a picture.",
    "featurizers": "List feature networks with licence and whether the weights are here.",
    "plugins": "List, show and check the installed components.",
    "doctor": "Check versions, device, plugins, weights and an archive.",
    "bench": "Compare engines: run a grid, score ranked lists, write the report.",
    "serve": "Browse and search an archive in the browser, on this machine only.",
    "demo": "Generate slides, build an archive of them and search it.",
}
# Commands whose module cannot have their name.
MODULES = {
    "import": "slideseek_apps.interchange.import_command",
    "export": "slideseek_apps.interchange.export_command",
    "explain": "slideseek_apps.reports.explain_command",
    "report": "slideseek_apps.reports.report_command",
    "session": "slideseek_apps.session.session_command",
    "serve": "slideseek_apps.viewer.serve_command",
    "doctor": "slideseek_apps.doctor.doctor_command",
    "bench": "slideseek_apps.bench.commands",
    "demo": "slideseek_apps.demo.demo_command",
}

EXIT_ERROR, EXIT_FAILED_SLIDES, EXIT_INTERRUPTED = 1, 3, 130
DEBUG_VARIABLE = "SLIDESEEK_DEBUG"


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = MODULES.get(cmd_name, f"slideseek.cli.{cmd_name}")
        command = importlib.import_module(module).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}.command is not a command")
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader of a pipe ('| head') has what it wants: not an error of ours
            return 0

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from slideseek.plugins import nearest

            near = nearest(args[0], COMMANDS)
            hint = f" Did you mean '{near}'?" if near else ""
            raise click.UsageError(f"No such command '{args[0]}'.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="slideseek")
def cli() -> None:
    """Search whole-slide images by what they look like.

    An archive is a folder: make one with 'init', put slides in with 'add', prepare them with 'build', then
    'search'. Try it all at once with 'slideseek demo'.
    """


def main(args: list[str] | None = None) -> None:
    """Run the command line; the one place where an error becomes a message and an exit code."""
    from slideseek.errors import SlideseekError

    try:
        code = cli.main(args, prog_name="slideseek", standalone_mode=False)
        flush_output()
    except SlideseekError as error:
        sys.exit(_tell(error))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted: what was reported done is kept; run the same command again to go on", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        from slideseek.cli.failures import explain

        known = explain(error)
        with contextlib.suppress(OSError):
            flush_output()
        if known is not None:
            sys.exit(_tell(known))
        traceback.print_exc()
        click.echo(f"error: this is a bug of slideseek {__version__}", err=True)
        click.echo("  fix: report it, with the command and the lines above", err=True)
        sys.exit(EXIT_ERROR)
    sys.exit(code if isinstance(code, int) else 0)


def flush_output() -> None:
    """Hand standard output over. If it cannot be written, what is left is dropped, now and when Python ends.

    A reader that has gone is not an error; any other failure is raised.
    """
    if sys.stdout is None:  # closed by who called us
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise


def _tell(error: SlideseekError) -> int:
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exc()
    click.echo(f"error: {error.cause}", err=True)
    if error.fix:
        click.echo(f"  fix: {error.fix}", err=True)
    return error.exit_code
