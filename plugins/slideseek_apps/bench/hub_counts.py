"""How often slides are found, against how often they would be if every candidate were equally likely to be.

Searches leave out the query's patient, and some keep to its site, so slides differ in how many queries could find them,
and among how many candidates. `candidates.csv` of a cell counts that: one row per slide and number of candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slideseek.cli.output import csv_text
from slideseek.errors import SlideseekError
from slideseek_apps.bench.hubness import Hubness, hubness
from slideseek_apps.bench.ranked_lists import QueryHits, read_rows

COLUMNS = ("slide_id", "patches", "candidates", "queries")


@dataclass(slots=True)
class Candidates:
    """How often slides could be found.

    patches: by slide id. chances: by (slide id, number of candidates), the queries with so many candidates among which
    the slide is.
    """

    patches: dict[str, int] = field(default_factory=dict)
    chances: Counter[tuple[str, int]] = field(default_factory=Counter)

    def count(self, slide_ids: Sequence[str], queries: int) -> None:
        """Count queries that could find these slides and no others."""
        for name in slide_ids:
            self.chances[name, len(slide_ids)] += queries

    def fair(self, k: int) -> dict[str, float]:
        """Return by slide id how often it would be among k hits if these were drawn from the candidates at random."""
        shares: dict[str, float] = {}
        for (name, candidates), queries in self.chances.items():
            shares[name] = shares.get(name, 0.0) + queries * min(1.0, k / candidates)
        return shares


def hubs(queries: Sequence[QueryHits], candidates: Candidates, k: int) -> Hubness | None:
    """Measure the hubs among the first k hits of every query; None if there are not two slides."""
    found = Counter(hit.slide_id for query in queries for hit in query.hits[:k])
    return hubness(found, candidates.fair(k), candidates.patches)


def write_candidates(path: Path, candidates: Candidates) -> None:
    """Write the counts, sorted by slide id."""
    counted = sorted(candidates.chances.items())
    rows = [(name, candidates.patches[name], number, queries) for (name, number), queries in counted]
    path.write_text(csv_text(COLUMNS, rows), encoding="utf-8")


def read_candidates(path: Path) -> Candidates:
    """Read what `write_candidates` wrote."""
    found = Candidates()
    for line, row in read_rows(path, COLUMNS):
        try:
            patches, number, queries = (int(row[column]) for column in COLUMNS[1:])
        except ValueError:
            raise SlideseekError(
                f"{path}, line {line}: counts must be whole numbers", "run the benchmark again"
            ) from None
        if number < 1:
            raise SlideseekError(f"{path}, line {line}: {number} candidates", "run the benchmark again")
        found.patches[row["slide_id"]] = patches
        found.chances[row["slide_id"], number] += queries
    return found
