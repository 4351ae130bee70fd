"""The command `slideseek`: a group of registered commands, each imported when it is called."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import traceback
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING

import click

from slideseek.hookspecs import PROJECT, Register, hookimpl
from slideseek.version import __version__

if TYPE_CHECKING:
    from slideseek.errors import SlideseekError
    from slideseek.plugins import Registration, Registry

EXIT_ERROR, EXIT_FAILED_SLIDES, EXIT_INTERRUPTED = 1, 3, 130
INTERRUPTED = "interrupted: finished work is kept; run the same command again to continue"
ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command as an interrupt does: what is finished is kept, what is temporary is removed."""
DEBUG_VARIABLE = "SLIDESEEK_DEBUG"
_REGISTRY = "slideseek.cli.registry"


@hookimpl
def register_commands(register: Register) -> None:
    """Register the built-in commands, in the order a user needs them."""
    here = "slideseek.cli"
    register("init", f"{here}.init:command", "Make an archive: a folder with a configuration and a catalogue.")
    register("add", f"{here}.add:command", "Add slides, or folders of slides, to an archive.")
    register("build", f"{here}.build:command", "Run the missing steps: select, featurize, fit, encode, index.")
    register("search", f"{here}.search:command", "Find the slides most similar to a slide.")
    register("status", f"{here}.status:command", "Show what is done, what failed and why.")
    register("remove", f"{here}.remove:command", "Remove slides from an archive; their files are not touched.")


class CommandGroup(click.Group):
    """A group of registered commands; each is imported when it is called.

    running: the registration of the last command called; a crash report names its owner.
    """

    running: Registration | None = None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.registered(ctx))

    def registered(self, ctx: click.Context) -> dict[str, Registration]:
        """Return every command that can be called, by name: those of core first, then those of plugins."""
        core = _core()
        return core | {
            entry.name: entry for entry in _installed(ctx).registrations("command") if entry.name not in core
        }

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from slideseek.errors import PluginError
        from slideseek.plugins import import_target

        entry = _core().get(cmd_name)
        if entry is None:
            registry = _installed(ctx)
            if not any(one.name == cmd_name for one in registry.registrations("command")):
                return None
            entry = registry.find("command", cmd_name)
        command = import_target(entry)
        if not isinstance(command, click.Command):
            raise PluginError(f"command {cmd_name!r} of {entry.owner}: {entry.target!r} is not a click command")
        self.running = entry
        _add_examples(cmd_name, command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader of the pipe ('| head') has closed it: not an error
            return 0

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        core, registry = _core(), _installed(ctx)
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, entry.summary) for entry in core.values()])
        entries = registry.registrations("command")
        ours = [(entry.name, entry.summary) for entry in entries if entry.distribution == PROJECT]
        theirs = [(e.name, f"{e.summary} (from {e.owner})") for e in entries if e.distribution != PROJECT]
        lost = [
            (broken.plugin, f"of {broken.distribution} {broken.version}: {broken.reason}") for broken in registry.broken
        ]
        taken = [(e.name, f"of {e.owner}: slideseek has a command of this name") for e in entries if e.name in core]
        for title, rows in (
            ("Applications", ours),
            ("From other plugins", [row for row in theirs if row[0] not in core]),
            ("Broken plugins", lost + taken),
        ):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _core() and not args[0].startswith("-"):
            known = self.registered(ctx)
            if args[0] not in known:
                raise click.UsageError(_no_command(args[0], known, _installed(ctx)), ctx)
        return super().resolve_command(ctx, args)


@cache
def _examples() -> dict[str, list[str]]:
    """Return example calls by command, from the file beside this module."""
    import tomllib
    from importlib.resources import files

    return tomllib.loads(files(__name__).joinpath("examples.toml").read_text(encoding="utf-8"))


def _add_examples(name: str, command: click.Command) -> None:
    """Show the examples of a command, and of those inside it, at the end of its help."""
    for inner, part in command.commands.items() if isinstance(command, click.Group) else ():
        _add_examples(f"{name} {inner}", part)
    if not command.epilog and (lines := _examples().get(name)):
        command.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def _core() -> dict[str, Registration]:
    """Return the core commands by name, without looking at installed plugins."""
    from slideseek.plugins import collect

    entries = collect(PROJECT, PROJECT, __version__, sys.modules[__name__], ("command",))
    return {entry.name: entry for entry in entries}


def _installed(ctx: click.Context) -> Registry:
    """Return the commands of installed plugins, looked up once per invocation."""
    from slideseek.plugins import load_registry

    meta = ctx.find_root().meta
    if _REGISTRY not in meta:
        meta[_REGISTRY] = load_registry(kinds=("command",))
    found: Registry = meta[_REGISTRY]
    return found


def _no_command(name: str, known: dict[str, Registration], registry: Registry) -> str:
    from slideseek.did_you_mean import nearest

    lost = [one for one in registry.broken if one.plugin == name]
    if lost:
        return f"The plugin '{name}' of {lost[0].distribution} {lost[0].version} is broken: {lost[0].reason}"
    if name in registry.disabled:
        return f"The plugin '{name}' is disabled by SLIDESEEK_DISABLED_PLUGINS."
    near = nearest(name, known)
    hint = f" Did you mean '{near}'?" if near else ""
    broken = "; ".join(f"{one.plugin} ({one.reason})" for one in registry.broken)
    off = f" Plugins disabled by SLIDESEEK_DISABLED_PLUGINS may have it: {', '.join(registry.disabled)}."
    hint += (f" Broken plugins may have it: {broken}." if broken else "") + (off if registry.disabled else "")
    return f"No such command '{name}'.{hint}"


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="slideseek")
def cli() -> None:
    """Search whole-slide images by what they look like.

    An archive is a folder: make one with 'init', put slides in with 'add', prepare them with 'build', then
    'search'. Try it all at once with 'slideseek demo'.
    """


class Ended(BaseException):
    """A signal of `ENDING` has come; its number is the argument."""


def _end(number: int, frame: FrameType | None) -> None:
    raise Ended(number)


def main(args: list[str] | None = None) -> None:
    """Run the command line; the only place where an error becomes a message and an exit code."""
    from slideseek.errors import SlideseekError

    for number in ENDING if args is None else ():
        if signal.getsignal(number) is signal.SIG_DFL:  # not with nohup
            signal.signal(number, _end)
    try:
        code = cli.main(args, prog_name="slideseek", standalone_mode=False)
        flush_output()
    except SlideseekError as error:
        sys.exit(_report(error, args))
    except click.ClickException as error:
        error.show()
        _report_json(args, error.format_message(), "see --help", error.exit_code)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort, Ended) as error:
        if args is None:
            _leave(128 + error.args[0] if isinstance(error, Ended) else EXIT_INTERRUPTED)
        click.echo(INTERRUPTED, err=True)
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        from slideseek.cli.failures import explain

        known = explain(error)
        with contextlib.suppress(OSError):
            flush_output()
        if known is not None:
            sys.exit(_report(known, args))
        traceback.print_exc()
        owner = cli.running.owner if cli.running else f"slideseek {__version__}"
        click.echo(f"error: this is a bug in {owner}", err=True)
        click.echo("  fix: report it with the command and the lines above", err=True)
        sys.exit(EXIT_ERROR)
    sys.exit(code if isinstance(code, int) else 0)


def _leave(code: int) -> None:
    """End this process now: the interpreter would wait for threads in a slow read, or abort if they hold a stream."""
    for number in (signal.SIGINT, *ENDING):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
        os.write(2, f"{INTERRUPTED}\n".encode())
        flush_output()
    os._exit(code)


def flush_output() -> None:
    """Flush standard output. If it cannot be written, the rest is dropped, now and when Python exits.

    A closed pipe is not an error; any other failure is raised.
    """
    if sys.stdout is None:  # closed by the caller
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise


def _report_json(args: list[str] | None, cause: str, fix: str, code: int) -> None:
    """Print an error as JSON, where a program reads the output: with --json."""
    if "--json" in (sys.argv[1:] if args is None else args):
        from slideseek.cli.output import print_json

        print_json({"error": {"cause": cause, "fix": fix, "exit_code": code}})


def _report(error: SlideseekError, args: list[str] | None) -> int:
    """Print an error with its fix and return the exit code."""
    from slideseek.cli.options import HOW_TO_GIVE
    from slideseek.errors import ParameterError

    if isinstance(error, ParameterError):
        error = error.in_words_of(HOW_TO_GIVE)
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exc()
    click.echo(f"error: {error.cause}", err=True)
    if error.fix:
        click.echo(f"  fix: {error.fix}", err=True)
    _report_json(args, error.cause, error.fix, error.exit_code)
    return error.exit_code
