"""Print sentences that fit the terminal: whole words, with later lines indented."""

from __future__ import annotations

import shutil
import sys
import textwrap

import click


def echo_wrapped(text: str, indent: str = "  ", lead: str = "") -> None:
    """Print text below a lead, such as a coloured mark. indent: before all further lines.

    Paths and other long words stay whole, so that they can be copied. A pipe has no width: nothing is wrapped there.
    """
    plain = click.unstyle(lead)
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        text = textwrap.fill(
            text,
            max(width, 40),
            initial_indent=plain,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )[len(plain) :]
    click.echo(lead + text)
