"""`slideseek acknowledge`: accept known failures, so that builds end well and do not try them again."""

from __future__ import annotations

from pathlib import Path

import click

from slideseek.cli.options import archive_option, json_option, open_archive
from slideseek.cli.output import print_json


@click.command()
@click.argument("slides", nargs=-1)
@archive_option
@click.option("--all", "every", is_flag=True, help="All slides that failed.")
@click.option("--reason", default="", help="Why the failure is accepted; builds and 'status' show it.")
@click.option("--undo", is_flag=True, help="Try these slides again, and report their failures.")
@json_option
def command(slides: tuple[str, ...], folder: Path | None, every: bool, reason: str, undo: bool, as_json: bool) -> None:
    """Accept that SLIDES cannot be used: builds list them as known, do not try them again, and exit with 0.

    This holds for the slide's present content and the present settings: when either changes, the slide is tried again.
    """
    from slideseek.did_you_mean import near_names
    from slideseek.errors import UsageError

    if bool(slides) == every:
        raise UsageError("name slides, or pass --all", "'slideseek status --failed' lists the slides that failed")
    with open_archive(folder) as archive, archive.writing():
        catalog, done = archive.catalog, {}
        if every:
            slides = tuple(dict.fromkeys(one.slide_id for one in catalog.stages() if one.status != "done" or undo))
        if unknown := [slide_id for slide_id in slides if catalog.slides.get(slide_id) is None]:
            near = near_names(unknown[0], catalog.slides.ids())
            hint = f"did you mean {near[0]!r}?" if near else "'slideseek status' lists the slides"
            raise UsageError(f"{unknown[0]!r} is not a slide of this archive", hint)
        with catalog.transaction():
            for slide_id in slides:
                if undo:
                    if catalog.disown(slide_id):
                        done[slide_id] = "will be tried again"
                elif failed := catalog.acknowledge(slide_id, reason):
                    done[slide_id] = failed[0].cause
                elif not every:
                    raise UsageError(
                        f"slide {slide_id!r} has not failed", "'slideseek status --failed' lists those that have"
                    )
    if as_json:
        print_json({"undone" if undo else "known": done})
        return
    for slide_id, cause in done.items():
        click.echo(f"{'undone' if undo else 'known':<7} {slide_id}: {cause}")
    click.echo(f"{len(done)} slide(s) {'will be tried again by the next build' if undo else 'acknowledged'}")
