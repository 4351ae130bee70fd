"""`slideseek add`: put slides into an archive."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli import EXIT_FAILED_SLIDES
from slideseek.cli.options import archive_option, json_option, mag_option, mpp_option, open_archive, stated_mpp
from slideseek.cli.output import print_json, say, say_problem


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
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
@json_option
def command(
    paths: tuple[Path, ...],
    folder: Path | None,
    manifest_file: Path | None,
    mpp: float | None,
    mag: float | None,
    override_mpp: bool,
    allow_missing_patient: bool,
    as_json: bool,
) -> int:
    """Add slides to an archive: files, folders (searched recursively), or the slides listed in a manifest.

    This only records the slides; 'slideseek build' reads their pixels. Adding a slide again is safe: if it has not
    changed, nothing happens.
    """
    from dataclasses import asdict

    from slideseek.archive.adding import StatedMpp, add_slides
    from slideseek.archive.manifest import Problem, read_manifest
    from slideseek.cli.progress import counting
    from slideseek.errors import UsageError
    from slideseek.slides.discovery import find_slides

    if not paths and manifest_file is None:
        raise UsageError("nothing to add", "give slides or folders, or pass --manifest")
    stated = stated_mpp(mpp, mag)
    resolution = StatedMpp(stated, override_mpp) if stated is not None else None
    if override_mpp and stated is None:
        raise UsageError("--override-mpp without a resolution", "pass --mpp or --mag too")
    with open_archive(folder) as archive, archive.writing():
        manifest = (manifest_file, read_manifest(manifest_file, allow_missing_patient)) if manifest_file else None
        missing = [path for path in paths if not path.exists()]
        files = find_slides([path for path in paths if path.exists()])
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
