"""`slideseek remove`: remove slides from an archive."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli.options import archive_option, wait_option


@click.command()
@click.argument("slides", nargs=-1, required=True)
@archive_option
@wait_option
def command(slides: tuple[str, ...], folder: Path | None, wait: bool) -> None:
    """Remove SLIDES (ids) from an archive, with everything computed for them. The slide files are not touched.

    Searches exclude them immediately; the next 'slideseek build' saves the indexes without them, or
    'slideseek compact' without computing anything.
    """
    from slideseek.archive.removing import remove_slides
    from slideseek.cli.options import open_archive

    with open_archive(folder, wait) as archive, archive.writing():
        remove_slides(archive, slides)
        left = len(archive.catalog.slides)
    click.echo(f"removed {len(slides)} slide(s); the archive has {left} left")
