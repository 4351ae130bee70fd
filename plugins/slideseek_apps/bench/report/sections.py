"""Group cells into variants (one engine with its options, all seeds) and sections (one dataset and protocol)."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from slideseek.types import Float64
from slideseek_apps.bench.bootstrap import Estimate, Resampled
from slideseek_apps.bench.class_sums import Statistic
from slideseek_apps.bench.measure_sums import ClassName, ListSums
from slideseek_apps.bench.report.settings import ReportSettings
from slideseek_apps.bench.report.table import Number
from slideseek_apps.bench.results import Cell

Tell: TypeAlias = Callable[[str], None]
"""Called with a few words on the current step."""
Sums: TypeAlias = Callable[[ListSums], Float64]
SectionKey: TypeAlias = tuple[str, str, str, bool]


@dataclass(frozen=True, slots=True)
class Cost:
    """A cost of a run. judged: whether lower is better for searching."""

    name: str
    of: Callable[[Cell], float | None]
    judged: bool = True


SEARCH_TIME = Cost("search ms", lambda cell: cell.times.get("search_ms_median"))
CODE_SIZE = Cost("bytes/slide", lambda cell: cell.bytes_per_slide)
COSTS = (
    SEARCH_TIME,
    CODE_SIZE,
    Cost("encode ms/slide", lambda cell: cell.times.get("encode_ms_per_slide")),
    Cost("fit s", lambda cell: cell.times.get("fit_s"), judged=False),
)


@dataclass(frozen=True, slots=True)
class VariantResults:
    """One engine with one choice of options: its cells, one per seed, and their lists in the same order."""

    name: str
    cells: tuple[Cell, ...]
    lists: tuple[ListSums, ...]

    @property
    def first(self) -> Cell:
        """The cell of the first seed, for what all seeds share."""
        return self.cells[0]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the cells."""
        return tuple(cell.seed for cell in self.cells)

    def stack(self, sums: Sums) -> Float64:
        """Return the sums of all seeds: float64 (seeds, patients, classes, parts)."""
        return np.stack([sums(lists) for lists in self.lists])

    def cost(self, pick: Callable[[Cell], float | None]) -> Number:
        """Return a cost: the median over seeds."""
        known = [value for value in map(pick, self.cells) if value is not None]
        return Number(statistics.median(known) if known else None, digits=-1)


@dataclass(frozen=True, slots=True)
class Section:
    """All variants of one dataset and protocol, and the classes and patients they share."""

    cells: tuple[Cell, ...]
    variants: tuple[VariantResults, ...]
    classes: tuple[ClassName, ...]
    patients: tuple[str, ...]

    @property
    def name(self) -> str:
        """Dataset and protocol, as a heading."""
        return heading(self.cells[0])

    @property
    def by_site(self) -> bool:
        """Whether a class is a label within a site."""
        return self.cells[0].protocol.mode == "vertical"

    @property
    def plain(self) -> tuple[VariantResults, ...]:
        """The variants without swept options."""
        return tuple(variant for variant in self.variants if not variant.first.sweep)


def section_key(cell: Cell) -> SectionKey:
    """Return what cells of one table have in common."""
    return cell.dataset.name, cell.dataset.fingerprint, cell.protocol.title, cell.control


def heading(cell: Cell) -> str:
    """Return the heading of a cell's section."""
    control = ": shuffled-label control" if cell.control else ""
    protocol = cell.protocol.title if cell.kind == "retrieval" else cell.protocol.name
    return f"{cell.dataset.name}, {protocol}{control}"


def silent(_: str) -> None:
    """Ignore the text."""


def make_sections(cells: Sequence[Cell], tell: Tell = silent) -> list[Section]:
    """Read the lists of retrieval cells and group them, in the order of the cells."""
    groups: dict[SectionKey, list[Cell]] = {}
    for cell in cells:
        if cell.kind == "retrieval":
            groups.setdefault(section_key(cell), []).append(cell)
    return [_make_section(group, tell) for group in groups.values()]


def _make_section(cells: Sequence[Cell], tell: Tell) -> Section:
    by_site = cells[0].protocol.mode == "vertical"
    read = []
    for number, cell in enumerate(cells, 1):
        tell(f"{heading(cell)}: reading {number} of {len(cells)}")
        read.append((cell, cell.hits()))
    alone = [ListSums(queries, by_site) for _, queries in read]
    patients = tuple(sorted({name for lists in alone for name in lists.patients}))
    classes = tuple(sorted({name for lists in alone for name in lists.classes}))
    by_name: dict[str, list[tuple[Cell, ListSums]]] = {}
    for cell, queries in read:
        by_name.setdefault(cell.name, []).append((cell, ListSums(queries, by_site, patients, classes)))
    variants = []
    for name, members in by_name.items():
        members.sort(key=lambda pair: pair[0].seed)
        variants.append(VariantResults(name, tuple(cell for cell, _ in members), tuple(lists for _, lists in members)))
    return Section(tuple(cells), tuple(variants), classes, patients)


class Estimates:
    """Numbers of one variant with intervals; each sum is resampled once, however many numbers use it."""

    def __init__(self, variant: VariantResults, settings: ReportSettings) -> None:
        self.variant = variant
        self._settings = settings
        self._resampled: dict[str, Resampled] = {}

    def number(self, key: str, sums: Sums, statistic: Statistic) -> Number:
        """Return one number in percent. key: the name of the sums, so that they are computed once."""
        return self.numbers(key, sums, lambda parts: statistic(parts)[..., None])[0]

    def resampled(self, key: str, sums: Sums) -> Resampled:
        """Return the sums of the bootstrap samples."""
        if key not in self._resampled:
            self._resampled[key] = Resampled(self.variant.stack(sums), self._settings.resamples)
        return self._resampled[key]

    def numbers(self, key: str, sums: Sums, statistic: Statistic) -> list[Number]:
        """Return one number per class in percent."""
        resampled = self.resampled(key, sums)
        found = resampled.estimate(statistic)
        each = statistic(resampled.whole)
        return [_percent(found, each[:, i], i) for i in range(len(found.value))]


def _percent(found: Estimate, each: Float64, i: int) -> Number:
    """Return one number in percent; with several seeds, its spread over them."""
    known = each[~np.isnan(each)]
    spread = 100 * float(known.std(ddof=1)) if len(known) > 1 else None
    value, low, high = (100 * float(array[i]) for array in (found.value, found.low, found.high))
    return Number(value, low, high, spread)
