"""`slideseek import`: import features computed by another tool."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli import EXIT_FAILED_SLIDES
from slideseek.cli.options import archive_option, json_option, open_archive, wait_option
from slideseek.cli.output import print_json, say, say_problem


@click.command()
@click.argument("features", metavar="FOLDER...", type=click.Path(path_type=Path), nargs=-1, required=True)
@archive_option
@click.option("--set", "name", help="Name of the set (default: the encoder's name, or the folder's name).")
@click.option("--encoder", help="Which features to import, where FOLDER has those of several encoders.")
@click.option(
    "--manifest",
    "manifest_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="CSV with one row per slide, as for 'slideseek add': metadata of slides that are not in the archive yet.",
)
@click.option("--allow-missing-patient", is_flag=True, help="As for 'slideseek add'.")
@click.option(
    "--patch-size",
    "extent",
    type=click.IntRange(1, 100_000),
    help="Side of a patch in level-0 pixels, for files that do not state it.",
)
@click.option(
    "--patch-mpp",
    type=click.FloatRange(0, 1000, min_open=True),
    help="µm per pixel at which patches were read, for files with positions in such pixels (TIAToolbox).",
)
@click.option("--without-coords", is_flag=True, help="Also import files without patch coordinates.")
@wait_option
@json_option
def command(
    features: tuple[Path, ...],
    folder: Path | None,
    name: str | None,
    encoder: str | None,
    manifest_file: Path | None,
    allow_missing_patient: bool,
    extent: int | None,
    patch_mpp: float | None,
    without_coords: bool,
    wait: bool,
    as_json: bool,
) -> int:
    """Import the features in FOLDER: a job of TRIDENT, STAMP, AtlasPatch, slide2vec or CLAM, Zarr stores of LazySlide
    or TIAToolbox, or one .h5, .npz, .npy or .pt file per slide. The layout is found by looking into the files.

    Vectors of whole slides (TITAN, PRISM, CHIEF) are imported in the same way; those of several folders are put side by
    side in one set. The file name without its suffix is the slide's id. Slides already in the archive keep their
    record; others are added. 'slideseek build' then only encodes and indexes. Files that cannot be imported are listed
    with their cause, the others are imported, and the exit code is 3.
    """
    from dataclasses import asdict

    from slideseek.archive.manifest import read_manifest
    from slideseek.cli.progress import counting
    from slideseek.config import CONFIG_NAME
    from slideseek.errors import UsageError
    from slideseek_apps.interchange.feature_folders import find_feature_set, join_sets
    from slideseek_apps.interchange.import_features import Importer, ImportOptions
    from slideseek_apps.interchange.imported_engine import engine_block, engines_of

    with open_archive(folder, wait) as archive, archive.writing():
        sets = [find_feature_set(one, name, encoder) for one in features]
        if len(sets) > 1 and name is None:
            raise UsageError("the vectors of several folders need a name", "pass --set NAME")
        found = join_sets(sets, sets[0].name) if len(sets) > 1 else sets[0]
        manifest = (manifest_file, read_manifest(manifest_file, allow_missing_patient)) if manifest_file else None
        importer = Importer(archive, archive.registry(), ImportOptions(without_coords, extent, patch_mpp))
        with counting("importing", len(found.files)) as advance:
            summary = importer.run(found, manifest, advance)
        config = archive.config
        block = None
        if summary.width is not None and not engines_of(config, summary.set):
            block = engine_block(config, summary.set, summary.width, summary.whole, summary.parts)
        config_path = archive.root / CONFIG_NAME
    if as_json:
        print_json({**asdict(summary), "engine": block})
        return EXIT_FAILED_SLIDES if summary.problems else 0
    for note in summary.notes:
        say(f"note    {note}")
    for problem in summary.problems:
        say_problem(problem.subject, problem.cause, problem.fix)
    click.echo(
        f"set {summary.set!r}: {len(summary.imported)} imported, {len(summary.replaced)} replaced,"
        f" {len(summary.unchanged)} unchanged, {len(summary.problems)} failed; {len(summary.added)} new slides"
    )
    if block and summary.imported:
        click.echo(f"no engine uses this set yet. Add one to {config_path}, for example:\n\n{block}")
    return EXIT_FAILED_SLIDES if summary.problems else 0
