"""`slideseek add`: put slides into an archive."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli import EXIT_FAILED_SLIDES
from slideseek.cli.options import (
    archive_option,
    json_option,
    mag_option,
    mpp_option,
    open_archive,
    stated_mpp,
    wait_option,
)
from slideseek.cli.output import print_json, say, say_problem


@click.command()
@click.argument("paths", nargs=-1, type=click.Path())
@archive_option
@click.option(
    "--manifest",
    "manifest_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="CSV with one row per slide: slide_id, case_id, primary_site, diagnosis, center, mpp and any other columns.",
)
@mpp_option
@mag_option
@click.option("--override-mpp", is_flag=True, help="Use --mpp even for slides that state their own resolution.")
@click.option(
    "--allow-missing-patient", is_flag=True, help="Add slides whose row has no patient; each counts as its own patient."
)
@click.option(
    "--where",
    multiple=True,
    metavar="TEXT",
    help="Of a catalogue, only slides with FIELD=VALUE, or with these words in their fields (may be repeated).",
)
@wait_option
@json_option
def command(
    paths: tuple[str, ...],
    folder: Path | None,
    manifest_file: Path | None,
    mpp: float | None,
    mag: float | None,
    override_mpp: bool,
    allow_missing_patient: bool,
    where: tuple[str, ...],
    wait: bool,
    as_json: bool,
) -> int:
    """Add slides to an archive: files, folders (searched recursively), or the slides listed in a manifest.

    A slide may lie elsewhere: give its URL (s3://, gs://, https://), that of a folder, or a catalogue (idc:tcga_brca).
    This only records the slides; 'slideseek build' reads their pixels. Adding a slide again is safe: if it has not
    changed, nothing happens.
    """
    from dataclasses import asdict

    from slideseek.archive.adding import StatedMpp, add_slides
    from slideseek.archive.manifest import Problem, manifest_of, read_manifest
    from slideseek.cli.progress import counting
    from slideseek.errors import UsageError
    from slideseek.slides.discovery import find_slides
    from slideseek.slides.remote_path import RemotePath, located
    from slideseek.slides.remote_slides import find_remote

    if not paths and manifest_file is None:
        raise UsageError("nothing to add", "give slides or folders, or pass --manifest")
    stated = stated_mpp(mpp, mag)
    resolution = StatedMpp(stated, override_mpp) if stated is not None else None
    if where and not any(isinstance(located(path), RemotePath) for path in paths):
        raise UsageError("--where chooses slides of a catalogue", "name one, such as idc:tcga_brca, or omit --where")
    if override_mpp and stated is None:
        raise UsageError("--override-mpp without a resolution", "pass --mpp or --mag too")
    with open_archive(folder, wait) as archive, archive.writing():
        manifest = (manifest_file, read_manifest(manifest_file, allow_missing_patient)) if manifest_file else None
        given = [located(path) for path in paths]
        missing = [path for path in given if not path.exists()]
        remote = [path for path in given if isinstance(path, RemotePath)]
        listed = [record for path in remote for record in find_remote(path, where)]
        files = find_slides([path for path in given if path.exists() and path not in remote])
        if manifest is None and any(record.id for record in listed):
            if files or not all(record.id for record in listed):
                raise UsageError("a catalogue and single slides at once", "add them one after the other")
            manifest = manifest_of(str(remote[0]), listed)
        else:
            files += [located(record.path) for record in listed]
        count = len(manifest[1].rows) if manifest else len(files)
        with counting("reading", count) as advance:
            summary = add_slides(archive, files, manifest, resolution, advance)
        total = len(archive.catalog.slides)
    summary.problems.extend(Problem(str(path), "no such file or folder", "check the path") for path in missing)
    if as_json:
        print_json(asdict(summary))
    else:
        for note in summary.notes:
            say(f"note    {note}")
        for problem in summary.problems:
            say_problem(problem.subject, problem.cause, problem.fix)
        click.echo(
            f"{len(summary.added)} added, {len(summary.updated)} updated, {len(summary.unchanged)} unchanged,"
            f" {len(summary.problems)} failed; the archive has {total} slides"
        )
        if not (summary.added or summary.updated or summary.unchanged or summary.problems):
            say("note    no slide files found there")
    return EXIT_FAILED_SLIDES if summary.problems else 0
