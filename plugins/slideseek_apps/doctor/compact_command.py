"""`slideseek compact`: give back space, and leave no trace of removed slides."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli.options import archive_argument, archive_option, chosen_archive, open_archive, wait_option


@click.command()
@archive_argument
@archive_option
@wait_option
def command(argument: Path | None, folder: Path | None, wait: bool) -> None:
    """Save the indexes of ARCHIVE without removed slides, and rewrite its catalogue without free pages.

    Features that belong to no slide are removed. Ids of removed slides are then in no file of the archive but the log
    of queries, where they were hits.
    """
    import sqlite3
    from contextlib import closing

    from slideseek.archive.catalog import unusable, with_seals
    from slideseek.archive.files import remove
    from slideseek.building.index_saving import save_index
    from slideseek.cli.output import say
    from slideseek.indexing.live_index import index_is_fresh, open_engine
    from slideseek.indexing.stage_cache import StageCache
    from slideseek_apps.doctor.finding import in_bytes

    with open_archive(chosen_archive(argument, folder), wait) as archive, archive.writing():
        before = archive.catalog.path.stat().st_size
        stages = StageCache(archive, say)
        registry = archive.registry()
        for config in archive.config.engines:
            engine = open_engine(archive, config, registry)
            if index_is_fresh(archive, engine, stages):
                click.echo(f"engine {engine.name!r}: {save_index(archive, engine, stages, say)} slides indexed")
        for place in (archive.root / "features").glob("*/"):  # of a 'remove' that was killed after its commit
            named = set(archive.catalog.work.files(f"features/{place.name}"))
            for file in place.glob("*.h5"):
                if file.name not in named:
                    remove(file)
                    click.echo(f"removed features/{place.name}/{file.name}, which belongs to no slide")
        try:
            with closing(sqlite3.connect(archive.catalog.path, isolation_level=None, timeout=30)) as db:
                with_seals(db)
                db.execute("VACUUM")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError as error:
            raise unusable(archive.catalog.path, error) from error
        after = archive.catalog.path.stat().st_size
    click.echo(f"catalogue: {in_bytes(before)} before, {in_bytes(after)} now")
