"""`slideseek completion`: the script that makes a shell complete commands and options."""

from __future__ import annotations

import click

WHERE = {
    "bash": "~/.bashrc",
    "zsh": "~/.zshrc",
    "fish": "~/.config/fish/config.fish",
}
VARIABLE = "_SLIDESEEK_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(tuple(WHERE)))
def command(shell: str) -> None:
    """Print the script that makes SHELL complete commands, options and file names of slideseek.

    Add the line of the example to the file that your shell reads when it starts: ~/.bashrc, ~/.zshrc or
    ~/.config/fish/config.fish.
    """
    from click.shell_completion import get_completion_class

    from slideseek.cli import cli

    found = get_completion_class(shell)
    if found is None:  # click.Choice allows only those it knows
        raise click.UsageError(f"click has no completion for {shell}")
    # The source of bash's asks bash for its version, which may be absent where the script is only printed.
    complete = found(cli, {}, "slideseek", VARIABLE)
    click.echo(complete.source_template % complete.source_vars())
