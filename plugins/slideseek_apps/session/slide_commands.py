"""Session commands that show slides: show, compare, explain."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from slideseek.cli.evidence_table import print_evidence
from slideseek.cli.output import print_table
from slideseek.errors import SlideseekError, UsageError
from slideseek.plugins import needs_application
from slideseek.slides.reader import open_slide
from slideseek.types import SlideRecord, UInt8
from slideseek_apps.session.command_spec import Command, exactly, split_words
from slideseek_apps.session.search_session import Session
from slideseek_apps.session.terminal_pictures import Pictures

THUMBNAIL_SIDE = 360
PICTURE = "a picture of the evidence"


class SlideCommands:
    """The commands of this module, for a terminal that may show pictures."""

    def __init__(self, pictures: Pictures) -> None:
        self._pictures = pictures

    def show(self, session: Session, text: str) -> None:
        """Show the metadata and the picture of a slide."""
        (word,) = exactly(split_words(text), 1, "show N")
        record = session.record(word)
        self._show_pictures(session, [record])
        print_table(("", record.id), _facts(record))

    def compare(self, session: Session, text: str) -> None:
        """Show two slides side by side, and their distance."""
        first, second = (session.record(word) for word in exactly(split_words(text), 2, "compare N M"))
        self._show_pictures(session, [first, second])
        left, right = dict(_facts(first)), dict(_facts(second))
        names = list(dict.fromkeys([*left, *right]))
        rows = [[name, left.get(name, ""), right.get(name, ""), _equal(name, left, right)] for name in names]
        print_table(("", first.id, second.id, ""), rows)
        searcher = session.searcher
        searcher.queries.stored(second.id)  # a slide without a code is an error that says so
        distance = searcher.distance(searcher.queries.stored(first.id), second.id)
        click.echo("not comparable" if distance is None else f"distance {distance:.6g} (engine {session.engine})")

    def explain(self, session: Session, text: str) -> None:
        """Show which patches made the query and a hit match. With a file name, draw them."""
        words = split_words(text)
        if len(words) not in (1, 2):
            raise UsageError("explain what?", "write: explain N [FILE.png]")
        target = Path(words[1]) if len(words) == 2 else None
        if target is not None:
            with needs_application("reports", PICTURE):
                from slideseek_apps.reports.picture_files import require_format, save_picture
            require_format(target)
        record = session.record(words[0])
        last = session.last()
        query = last.query
        evidence = session.explainer.explain(query, record.id, last.request.options)
        print_evidence(evidence, query.record.id, record.id, 10)
        if target is None and not self._pictures.can_show:
            return
        with needs_application("reports", PICTURE):
            from slideseek_apps.reports.evidence_pictures import evidence_panel
            from slideseek_apps.reports.explained_match import explained
            from slideseek_apps.reports.picture_sheet import PRINT_DPI, UNITS_PER_INCH
        found = explained(session.archive, query, record, evidence)
        panel = evidence_panel(found, session.engine, dpi=UNITS_PER_INCH if target is None else PRINT_DPI)
        if target is not None:
            save_picture(panel, target)
            click.echo(f"wrote {target}")
        else:
            self._pictures.show(panel.pixels())

    def commands(self) -> tuple[Command, ...]:
        """Return the commands, bound to this terminal."""
        return (
            Command(
                "show", "show N", "show a slide: N is a hit's rank, 0 for the query, or an id", self.show, ("rank",)
            ),
            Command(
                "compare", "compare N M", "show two slides side by side, and their distance", self.compare, ("rank",)
            ),
            Command(
                "explain", "explain N [FILE.png]", "show which patches made it match", self.explain, ("rank", "file")
            ),
        )

    def _show_pictures(self, session: Session, records: list[SlideRecord]) -> None:
        if not self._pictures.can_show:
            return
        thumbnails = []
        for record in records:
            try:
                with open_slide(session.archive.slide_path(record), record.id, record.mpp) as slide:
                    thumbnails.append(slide.thumbnail(THUMBNAIL_SIDE))
            except SlideseekError as error:
                session.notify(f"note    no picture of {record.id!r}: {error.cause}")
        if thumbnails:
            self._pictures.show(beside(thumbnails))


def beside(images: list[UInt8], gap: int = 12) -> UInt8:
    """Put images, RGB uint8, side by side on white, aligned at the top."""
    height = max(image.shape[0] for image in images)
    width = sum(image.shape[1] for image in images) + gap * (len(images) - 1)
    sheet = np.full((height, width, 3), 255, np.uint8)
    left = 0
    for image in images:
        sheet[: image.shape[0], left : left + image.shape[1]] = image
        left += image.shape[1] + gap
    return sheet


def _facts(record: SlideRecord) -> list[list[str]]:
    known = {**record.readable_facts(), **record.columns, "file": record.path}
    return [[name, value] for name, value in known.items() if value]


def _equal(name: str, left: dict[str, str], right: dict[str, str]) -> str:
    return "" if name == "file" else "=" if left.get(name) == right.get(name) else "differs"
