"""Ranked lists on disk: one CSV row a hit. Every measure is computed from such a file, whoever made it.

Columns `query_id, query_label, rank, hit_id, hit_label` are required. `distance`, `query_patient`, `query_center`,
`query_site`, `hit_patient`, `hit_center` and `relevant` are optional, and other columns are left alone. A query that
found nothing is one row whose `rank` and `hit_*` fields are empty.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slideseek.errors import SlideseekError

REQUIRED = ("query_id", "query_label", "rank", "hit_id", "hit_label")
COLUMNS = (
    "query_id",
    "query_label",
    "query_patient",
    "query_center",
    "query_site",
    "rank",
    "hit_id",
    "hit_label",
    "hit_patient",
    "hit_center",
    "distance",
    "relevant",
)
_QUERY_FACTS = ("query_label", "query_patient", "query_center", "query_site", "relevant")
_HIT_FACTS = ("hit_label", "hit_patient", "hit_center")


@dataclass(frozen=True, slots=True)
class RankedHit:
    """One slide of a ranked list; "" and None mean unknown. `label` is the protocol's target (subtype or site)."""

    slide_id: str
    label: str
    patient: str = ""
    center: str = ""
    distance: float | None = None


@dataclass(frozen=True, slots=True)
class QueryHits:
    """One query with what it found, nearest first; `hits` is empty when it found nothing.

    label: the truth. relevant: how many slides that could have been found carry the query's label, None when that is
    not known; it is needed by the conventions named `min(k, relevant)` alone.
    """

    query_id: str
    label: str
    hits: tuple[RankedHit, ...]
    patient: str = ""
    center: str = ""
    site: str = ""
    relevant: int | None = None


def write_hits(path: Path, queries: Iterable[QueryHits]) -> None:
    """Write ranked lists with all columns; distances are written so that they are read back exactly."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for query in queries:
            head = (query.query_id, query.label, query.patient, query.center, query.site)
            relevant = "" if query.relevant is None else query.relevant
            if not query.hits:
                writer.writerow((*head, "", "", "", "", "", "", relevant))
            for rank, hit in enumerate(query.hits, 1):
                distance = "" if hit.distance is None else repr(float(hit.distance))
                writer.writerow((*head, rank, hit.slide_id, hit.label, hit.patient, hit.center, distance, relevant))


def read_hits(path: Path) -> list[QueryHits]:
    """Read ranked lists and check them; queries come in the order of their first row.

    A wrong file is a SlideseekError that names the line: a slide found twice by a query, ranks that are not 1, 2, 3 and
    so on, distances that go down, a slide with two labels, or a query among its own hits.
    """
    reading = _Reading(path)
    for line, row in read_rows(path, REQUIRED):
        reading.take(line, row)
    if not reading.hits:
        raise SlideseekError(
            f"{path}: no rows under the heading", "write one row a hit, or one row for a query without hits"
        )
    return reading.finish()


def read_rows(path: Path, required: Sequence[str], lower_case: bool = True) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line number, row) of a CSV with a heading, cells stripped; wanted columns must be there.

    lower_case: make the names of columns so; else they are kept as written.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            names = [name.strip().lower() if lower_case else name.strip() for name in next(reader, [])]
            missing = [name for name in required if name not in names]
            if missing:
                raise SlideseekError(
                    f"{path}: no column {', '.join(missing)}; the heading has {', '.join(names) or 'nothing'}",
                    f"name the columns {', '.join(required)} in the first line",
                )
            for row in reader:
                cells = [cell.strip() for cell in row]
                if not any(cells):
                    continue
                if len(cells) != len(names):
                    raise SlideseekError(
                        f"{path}, line {reader.line_num}: {len(cells)} fields, the heading has {len(names)}",
                        "quote fields that contain a comma",
                    )
                yield reader.line_num, dict(zip(names, cells))
    except (UnicodeDecodeError, csv.Error) as error:
        raise SlideseekError(f"{path} is not a CSV file ({error})", "save it as comma-separated UTF-8 text") from error


class _Reading:
    """The state of reading one file: the hits of each query so far, and what is known of every slide, with its line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hits: dict[str, list[RankedHit]] = {}
        self.found: dict[str, set[str]] = {}
        self.last: tuple[str, list[str]] = ("", [])
        self.empty: set[str] = set()
        self.known: dict[tuple[str, str], tuple[str, int]] = {}

    def take(self, line: int, row: Mapping[str, str]) -> None:
        """Check one row against all before it, and keep it."""
        query = row["query_id"]
        if not query:
            raise self._error(line, "the query has no id", "fill in query_id")
        if not row["query_label"]:
            raise self._error(
                line, f"query {query!r} has no label", "a query without a truth cannot be scored: leave it out"
            )
        facts = [row.get(column, "") for column in _QUERY_FACTS]
        if (query, facts) != self.last:  # most rows repeat what the row before said of the query
            for column, value in zip(_QUERY_FACTS, facts):
                self._agree(line, query, column.removeprefix("query_"), value, column)
            self.last = (query, facts)
        hits = self.hits.setdefault(query, [])
        if not row["rank"] and not row["hit_id"]:
            if hits or query in self.empty:
                raise self._error(
                    line, f"query {query!r} has a row without a hit among other rows", "leave that row out"
                )
            self.empty.add(query)
            return
        if query in self.empty:
            raise self._error(line, f"query {query!r} has a row without a hit among other rows", "leave that row out")
        hits.append(self._hit(line, query, row, hits))

    def _hit(self, line: int, query: str, row: Mapping[str, str], before: Sequence[RankedHit]) -> RankedHit:
        slide, wanted = row["hit_id"], len(before) + 1
        if not slide:
            raise self._error(
                line, f"rank {row['rank']} of query {query!r} has no hit_id", "fill it in or leave the row out"
            )
        if row["rank"] != str(wanted):
            raise self._error(
                line,
                f"rank {row['rank'] or '(empty)'} of query {query!r} where {wanted} is next",
                "ranks count 1, 2, 3 and so on within a query, nearest first",
            )
        if slide == query:
            raise self._error(line, f"query {query!r} is among its own hits", "leave the query out of its list")
        found = self.found.setdefault(query, set())
        if slide in found:
            raise self._error(line, f"query {query!r} finds {slide!r} twice", "list every slide once a query")
        found.add(slide)
        for column in _HIT_FACTS:
            self._agree(line, slide, column.removeprefix("hit_"), row.get(column, ""), column)
        distance = self._number(line, row.get("distance", ""))
        last = before[-1].distance if before else None
        if distance is not None and last is not None and distance < last:
            raise self._error(
                line,
                f"distance {distance:g} of query {query!r} is below {last:g} of the rank before",
                "smaller is more similar: turn a similarity into a distance, and sort",
            )
        return RankedHit(slide, row["hit_label"], row.get("hit_patient", ""), row.get("hit_center", ""), distance)

    def _agree(self, line: int, slide: str, name: str, value: str, column: str) -> None:
        """Check that a slide has one value of each kind, as a query and as a hit; unknown agrees with all."""
        if not value:
            return
        seen, where = self.known.setdefault((slide, name), (value, line))
        if seen != value:
            cause = f"{column} of {slide!r} is {value!r}, in line {where} it is {seen!r}"
            raise self._error(line, cause, "make the two the same")

    def _number(self, line: int, text: str) -> float | None:
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self._error(line, f"distance {text!r} is not a finite number", "write a number or leave it empty")
        return value

    def finish(self) -> list[QueryHits]:
        """Return the queries with their hits; what one row leaves unknown may be known from another."""
        return [
            QueryHits(
                query,
                self._fact(query, "label"),
                tuple(hits),
                self._fact(query, "patient"),
                self._fact(query, "center"),
                self._fact(query, "site"),
                self._relevant(query),
            )
            for query, hits in self.hits.items()
        ]

    def _fact(self, slide: str, name: str) -> str:
        return self.known.get((slide, name), ("", 0))[0]

    def _relevant(self, query: str) -> int | None:
        text, line = self.known.get((query, "relevant"), ("", 0))
        if text and not text.isdecimal():
            raise self._error(line, f"relevant {text!r} of query {query!r} is not a count", "write a whole number")
        found = sum(hit.label == self._fact(query, "label") for hit in self.hits[query])
        if text and int(text) < found:
            raise self._error(
                line,
                f"relevant is {text} for query {query!r}, which finds {found} slides of its label",
                "count every slide that the query could have found and that has its label",
            )
        return int(text) if text else None

    def _error(self, line: int, cause: str, fix: str) -> SlideseekError:
        return SlideseekError(f"{self.path}, line {line}: {cause}", fix)
