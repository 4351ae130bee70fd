"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from slideseek.archive.archive import Archive

Command = TypeVar("Command", bound=Callable[..., Any])

archive_option = click.option(
    "-a",
    "--archive",
    "folder",
    type=click.Path(path_type=Path),
    envvar="SLIDESEEK_ARCHIVE",
    help="The archive's folder (default: this folder or the nearest above it that is one).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def open_archive(folder: Path | None) -> Archive:
    """Open the archive a command is about."""
    from slideseek.archive.archive import Archive

    return Archive(folder) if folder is not None else Archive.locate(Path.cwd())
