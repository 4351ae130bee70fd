"""`slideseek verify`: is everything stored in an archive as it was written?"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import click

from slideseek.cli.options import archive_argument, archive_option, chosen_archive, json_option


@click.command()
@archive_argument
@archive_option
@click.option("--slides", "whole", is_flag=True, help="Also read every slide file from beginning to end.")
@json_option
def command(argument: Path | None, folder: Path | None, whole: bool, as_json: bool) -> int:
    """Check everything stored in ARCHIVE: catalogue, rows, configuration, features, codes, models and indexes.

    All files are read and compared with their checksums; nothing is changed. The exit code is 1 if anything is damaged,
    and 'slideseek repair' then repairs it. With --slides, slide files are read whole too: a slide of over 64 MiB is
    otherwise known by samples. Its checksum is kept at the first time, and compared at every later one.
    """
    from slideseek.cli.options import open_archive
    from slideseek_apps.doctor.archive_health import look_at_archive
    from slideseek_apps.doctor.doctor_command import show
    from slideseek_apps.doctor.slide_checksums import look_at_slides

    root = chosen_archive(argument, folder)
    if root is None:
        with open_archive(None) as archive:
            root = archive.root
    stored = look_at_archive(root, everything=True, stored_only=True)
    return show(chain(stored, look_at_slides(root)) if whole else stored, as_json)
