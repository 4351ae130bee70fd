"""The search report as one HTML file: the content of the page, and how it is rendered.

The values are plain arrays and text. Nothing here opens a slide or an archive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Literal

import numpy as np
from jinja2 import Environment, StrictUndefined, Template

from slideseek.searching.evidence import EvidenceKind
from slideseek.types import UInt8
from slideseek_apps.reports.heat_colours import HeatScale
from slideseek_apps.reports.page_images import jpeg_data_uri, length_label, scale_bar

NUMBER = re.compile(r"(?=.*\d)[\d\s.,%+−±×()\[\]–-]*(s|ms|µs|min|h|bits?|bytes?|B|[kMG]i?B)?|[–-]?")
"""Cells aligned to the right: a number with optional sign, interval and unit, a dash, or an empty cell."""


@dataclass(frozen=True, slots=True)
class Panel:
    """What is shown for one slide.

    facts: name and value, in display order. thumbnail: RGB uint8 (h, w, 3), None when the slide cannot be
    read. boxes: (x, y, width, height) of the mosaic's patches in thumbnail pixels. mosaic: patches, RGB uint8.
    mpp_thumbnail: µm per thumbnail pixel. heat: one fill colour per box, RGB uint8 (n, 3); None for outlines only.
    """

    slide_id: str
    facts: Mapping[str, str] = field(default_factory=dict)
    thumbnail: UInt8 | None = None
    boxes: Sequence[tuple[float, float, float, float]] = ()
    mosaic: Sequence[UInt8] = ()
    mpp_thumbnail: float = 0.0
    heat: UInt8 | None = None

    def fill(self, box: int) -> str:
        """Return the CSS colour of a box, "" when boxes are not filled."""
        return "#" + bytes(self.heat[box].tolist()).hex() if self.heat is not None else ""


@dataclass(frozen=True, slots=True)
class Match:
    """Patches that made a hit similar, RGB uint8: one of the query and one of the hit, or a single one."""

    pictures: Sequence[UInt8]
    caption: str


@dataclass(frozen=True, slots=True)
class EvidencePanel:
    """Why a slide was found. summary: one line of text. groups: heading and matches, strongest first."""

    summary: str
    groups: Sequence[tuple[str, Sequence[Match]]]


@dataclass(frozen=True, slots=True)
class Legend:
    """The colour scale of filled patches. low, high: what stands at its ends. gradient: CSS colours, low to high."""

    low: str
    high: str
    gradient: str

    @classmethod
    def of(cls, kind: EvidenceKind, heat: HeatScale) -> Legend:
        """Return the legend of a scale."""
        stops = heat.ramp(np.linspace(0, 1, 9))
        return cls(*heat.ends(kind), ", ".join("#" + bytes(stop.tolist()).hex() for stop in stops))


@dataclass(frozen=True, slots=True)
class HitPanel:
    """One answer: rank counts from 1, smaller distance is more similar.

    agrees: whether its label equals the query's; None when one of the two is unknown.
    """

    rank: int
    distance: float
    agrees: bool | None
    panel: Panel
    evidence: EvidencePanel | None = None


@dataclass(frozen=True, slots=True)
class QuerySection:
    """One query and its answers, nearest first.

    votes: what the hits vote for, such as {"site": "colon (3 of 3)"}. notes: remarks for the reader. asked: date, user
    and filters. legend: the scale that all heat maps of the hits share.
    """

    query: Panel
    engine: str
    mode: Literal["vertical", "horizontal"]
    votes: Mapping[str, str]
    hits: Sequence[HitPanel]
    notes: Sequence[str] = ()
    milliseconds: float = 0.0
    asked: str = ""
    legend: Legend | None = None

    @property
    def agreement(self) -> str:
        """How many hits share the query's label; empty when unknown for all of them."""
        known = [hit.agrees for hit in self.hits if hit.agrees is not None]
        return f"{sum(known)} of {len(known)}" if known else ""

    def bar(self, hit: HitPanel) -> float:
        """Return the distance of a hit in percent of the section's largest."""
        largest = max((other.distance for other in self.hits), default=0.0)
        return round(100 * max(hit.distance, 0.0) / largest, 1) if largest > 0 else 0.0


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of text, for times, sizes and accuracy."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(
                    f"TextTable {self.caption!r}: {len(self.header)} cells per row, not {len(row)}: {row!r}"
                )

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Whether each column contains only numbers, and is aligned to the right."""
        columns = list(zip(*self.rows)) or [()] * len(self.header)
        return tuple(bool(cells) and all(NUMBER.fullmatch(cell.strip()) for cell in cells) for cells in columns)


@dataclass(frozen=True, slots=True)
class Report:
    """The whole page. facts: archive, slides, version and settings, shown in the footer."""

    title: str
    subtitle: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    tables: Sequence[TextTable] = ()
    sections: Sequence[QuerySection] = ()


def render_report(report: Report) -> str:
    """Render a report as one HTML page without any reference to another file or host."""
    return _template().render(report=report)


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"jpeg": jpeg_data_uri, "micrometres": length_label}
    environment.globals["scale_bar"] = scale_bar
    source = resources.files("slideseek_apps.reports").joinpath("search.html.jinja").read_text(encoding="utf-8")
    return environment.from_string(source)
