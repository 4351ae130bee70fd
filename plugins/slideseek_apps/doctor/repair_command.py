"""`slideseek repair`: repair what is damaged in an archive, or compute it again."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli.options import archive_argument, archive_option, chosen_archive, wait_option
from slideseek.cli.output import say


@click.command()
@archive_argument
@archive_option
@click.option(
    "--backup",
    type=click.Path(path_type=Path),
    help="A backup of the archive ('slideseek backup'): records that are damaged are taken from it.",
)
@click.option(
    "--configuration", is_flag=True, help="Restore slideseek.toml as of the last build, though it was edited."
)
@wait_option
@click.pass_context
def command(
    context: click.Context,
    argument: Path | None,
    folder: Path | None,
    backup: Path | None,
    configuration: bool,
    wait: bool,
) -> int:
    """Repair ARCHIVE: restore its configuration, rebuild its catalogue from undamaged rows, compute the rest again.

    Patient, site, diagnosis and free fields of a slide cannot be computed. Where the record of a slide is damaged, it
    is taken from a backup, or the slide is listed and has to be added again. The damaged catalogue is kept under
    another name. The exit code is that of the build that follows, or 1 if slides have to be added again.
    """
    from slideseek.api import open_archive
    from slideseek.archive.archive import Archive
    from slideseek.building.build import BuildOptions
    from slideseek.cli import EXIT_FAILED_SLIDES
    from slideseek.cli.progress import make_reporter
    from slideseek_apps.doctor.repairing import repair_catalogue, repair_configuration

    root = chosen_archive(argument, folder)
    root = Archive.locate(Path.cwd()).root if root is None else root
    done = repair_catalogue(root, backup, say if wait else None)
    for line in (*done.notes, *repair_configuration(root, configuration, backup)):
        click.echo(line)
    with open_archive(root) as archive, make_reporter() as reporter:
        archive.archive.wait = say if wait else None
        summary = archive.build(options=BuildOptions(verify=True), reporter=reporter)
    for slide_id in done.lost:
        click.echo(f"lost    {slide_id}: its record is damaged; add the slide again with its manifest", err=True)
    click.echo("repaired; 'slideseek verify' checks it" if not done.lost else f"{len(done.lost)} slide(s) to add again")
    return 1 if done.lost else EXIT_FAILED_SLIDES if summary.failures else 0
