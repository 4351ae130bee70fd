"""What the paper's experiment takes, before it starts: slides by subtype beside the paper's, bytes and hours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from slideseek.archive.archive import Archive
from slideseek.indexing.live_index import open_engine
from slideseek.indexing.stage_cache import StageCache
from slideseek.types import SlideRecord
from slideseek_apps.bench.paper_slides import (
    PAPER_TEST_SLIDES,
    STATED_TEST_SLIDES,
    TEST_SHARE,
    PaperSlides,
    subtypes,
)

BYTES = "bytes"
"""The free field with the size of a slide."""

LINK = 1e9 / 8
"""Bytes per second of a link of 1 Gbit/s."""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One subtype: its slides, patients and bytes here, those of the test side, and the paper's test slides."""

    site: str
    subtype: str
    slides: int
    patients: int
    bytes: int
    test_slides: int
    paper_test_slides: int


@dataclass(frozen=True, slots=True)
class Rate:
    """Slides per hour of one node, and where the number comes from; 0 if it is unknown."""

    slides_per_hour: float
    source: str


@dataclass(frozen=True, slots=True)
class PaperPlan:
    """The whole plan. hours: of all nodes at work, None without a measured rate. done: slides that need no work."""

    rows: tuple[PlanRow, ...]
    slides: int
    patients: int
    bytes: int
    sized: int
    done: int
    nodes: int
    rate: Rate
    notes: tuple[str, ...]

    @property
    def hours(self) -> float | None:
        """Hours until all slides have features."""
        todo = self.slides - self.done
        return todo / (self.rate.slides_per_hour * self.nodes) if self.rate.slides_per_hour else None

    @property
    def link_hours(self) -> float:
        """Hours that all bytes take over one link of 1 Gbit/s per node."""
        return self.bytes / LINK / 3600 / self.nodes

    def data(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return {**asdict(self), "hours": self.hours, "link_hours": self.link_hours}


def plan_paper(slides: PaperSlides, nodes: int, rate: Rate, done: int = 0) -> PaperPlan:
    """Count the slides by subtype, and say where the counts differ from the paper's."""
    rows = tuple(_row(site, code, slides.records) for site, code in subtypes())
    sizes = [int(record.fields.get(BYTES) or 0) for record in slides.records]
    patients = len({record.patient for record in slides.records})
    notes = [*slides.notes, *_differences(rows)]
    return PaperPlan(rows, len(sizes), patients, sum(sizes), sum(map(bool, sizes)), done, nodes, rate, tuple(notes))


def measured_rate(archive: Archive) -> tuple[Rate, int]:
    """Return the rate at which this archive's features were computed, and for how many slides they are there."""
    engine = open_engine(archive, archive.config.engine(None), archive.registry())
    stages = StageCache(archive, lambda _: None)
    seconds = {"select": 0.0, "featurize": 0.0}
    timed, done = 0, len(stages.ready(engine))
    for slide in archive.catalog.slides:
        records = [stages.record(engine, stage, slide) for stage in ("select", "featurize")]
        if all(record is not None and record.status == "done" and record.seconds for record in records):
            timed += 1
            for record in records:
                if record is not None:
                    seconds[record.stage] += record.seconds
    if not timed:
        return Rate(0.0, "no slide of this archive has been built yet"), done
    rate = 3600 * timed / sum(seconds.values())
    return Rate(rate, f"measured on {timed} slide(s) of this archive, one slide after the other"), done


def _row(site: str, code: str, records: Sequence[SlideRecord]) -> PlanRow:
    ours = [record for record in records if record.label == code]
    return PlanRow(
        site,
        code,
        len(ours),
        len({record.patient for record in ours}),
        sum(int(record.fields.get(BYTES) or 0) for record in ours),
        round(TEST_SHARE * len(ours)),
        PAPER_TEST_SLIDES[code],
    )


def _differences(rows: Sequence[PlanRow]) -> list[str]:
    """Return notes on where the counts differ from the paper's, and where the paper's differ from each other."""
    here, paper = sum(row.test_slides for row in rows), sum(row.paper_test_slides for row in rows)
    text, caption = STATED_TEST_SLIDES
    notes = [
        f"test side: {here:,} slides here, {paper:,} in the rows of the paper's table; its text says {text:,}, its"
        f" caption {caption:,}. Which slides it drew is not published"
    ]
    apart = Counter({row.subtype: abs(row.test_slides - row.paper_test_slides) for row in rows})
    far = [code for code, _ in apart.most_common() if _far(next(row for row in rows if row.subtype == code))]
    if far:
        counts = {row.subtype: f"{row.test_slides} for {row.paper_test_slides}" for row in rows}
        shown = ", ".join(f"{code} ({counts[code]})" for code in far[:8])
        more = f" and {len(far) - 8} more" if len(far) > 8 else ""
        notes.append(f"{len(far)} subtype(s) differ by more than a tenth: {shown}{more}")
    return notes


def _far(row: PlanRow) -> bool:
    return abs(row.test_slides - row.paper_test_slides) > 0.1 * row.paper_test_slides
