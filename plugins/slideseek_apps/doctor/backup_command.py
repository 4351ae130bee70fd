"""`slideseek backup`: copy an archive, also while it is written to."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli.options import archive_option


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@archive_option
def command(target: Path, folder: Path | None) -> None:
    """Copy an archive to the folder TARGET, which may be an earlier backup of it: what it has is not copied again.

    The copy is one state of the archive, even if a build runs meanwhile, and every file of it is checked. It is an
    archive itself: search it, or copy it back. Slides are not part of it.
    """
    from slideseek.cli.options import open_archive
    from slideseek_apps.doctor.backing_up import back_up
    from slideseek_apps.doctor.finding import counted, in_bytes

    with open_archive(folder) as archive:
        done = back_up(archive, target)
    click.echo(f"{counted(done.copied, 'file')} copied ({in_bytes(done.bytes)}), {done.kept} kept of an earlier backup")
    click.echo(f"backup of {counted(done.slides, 'slide')} in {target}")
