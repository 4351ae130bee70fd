"""Ranked lists on disk: one CSV row per hit. Every measure is computed from such a file, whichever system made it.

Columns `query_id, query_label, rank, hit_id, hit_label` are required. `distance`, `query_patient`, `query_center`,
`query_site`, `hit_patient`, `hit_center` and `relevant` are optional; other columns are ignored. A query that found
nothing is one row whose `rank` and `hit_*` fields are empty. Rows may come in any order, since ranks give it. Fields
are separated by commas, semicolons or tabs.
"""

from __future__ import annotations

import contextlib
import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from slideseek.cli.output import csv_text
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
_DELIMITERS = ",;\t"
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
    """One query with its hits, nearest first; `hits` is empty when it found nothing.

    label: the true one. relevant: number of candidates with the query's label, None when unknown; only the conventions
    named `min(k, relevant)` need it.
    """

    query_id: str
    label: str
    hits: tuple[RankedHit, ...]
    patient: str = ""
    center: str = ""
    site: str = ""
    relevant: int | None = None


_Ranked: TypeAlias = tuple[int, int, RankedHit | None]
"""Rank, line, and the hit; None for a hit that is missing."""


def write_hits(path: Path, queries: Iterable[QueryHits]) -> None:
    """Write ranked lists with all columns; distances read back exactly."""
    path.write_text(csv_text(COLUMNS, _rows(queries)), encoding="utf-8")


def _rows(queries: Iterable[QueryHits]) -> Iterator[tuple[Any, ...]]:
    for query in queries:
        head = (query.query_id, query.label, query.patient, query.center, query.site)
        relevant = "" if query.relevant is None else query.relevant
        if not query.hits:
            yield (*head, "", "", "", "", "", "", relevant)
        for rank, hit in enumerate(query.hits, 1):
            distance = "" if hit.distance is None else repr(float(hit.distance))
            yield (*head, rank, hit.slide_id, hit.label, hit.patient, hit.center, distance, relevant)


def read_hits(path: Path) -> list[QueryHits]:
    """Read ranked lists and check them; queries come in the order of their first row.

    An invalid file is a `SlideseekError` that names the line: a slide found twice by a query, ranks that are not 1, 2,
    3 and so on, distances that decrease, a slide with two labels, or a query among its own hits.
    """
    reading = _Reading(path)
    for line, row in read_rows(path, REQUIRED):
        reading.take(line, row)
    if not reading.rows:
        raise SlideseekError(
            f"{path}: no rows under the heading", "write one row per hit, or one row for a query without hits"
        )
    return reading.finish()


def read_rows(path: Path, required: Sequence[str], lower_case: bool = True) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line number, row) of a CSV with a heading, cells stripped; required columns must be there.

    lower_case: convert the names of columns to lower case.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            heading = stream.readline()
            stream.seek(0)
            reader = csv.reader(stream, delimiter=max(_DELIMITERS, key=heading.count))
            names = [name.strip().lower() if lower_case else name.strip() for name in next(reader, [])]
            missing = [name for name in required if name not in names]
            if missing:
                raise SlideseekError(
                    f"{path}: no column {', '.join(missing)}; the heading has {', '.join(names) or 'nothing'}",
                    f"name the columns {', '.join(required)} in the first line",
                )
            for row in reader:
                cells = [plain_cell(cell).strip() for cell in row]
                if not any(cells):
                    continue
                if len(cells) != len(names):
                    raise SlideseekError(
                        f"{path}, line {reader.line_num}: {len(cells)} fields, the heading has {len(names)}",
                        "quote fields that hold the delimiter",
                    )
                yield reader.line_num, dict(zip(names, cells))
    except (UnicodeDecodeError, csv.Error) as error:
        raise SlideseekError(f"{path} is not a CSV file ({error})", "save it as comma-separated UTF-8 text") from error


def plain_cell(cell: str) -> str:
    """Return the text that `csv_text` wrote as a cell: without the apostrophe and the escapes that make it harmless."""
    if not cell.startswith("'"):
        return cell
    return re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), cell[1:])


class _Reading:
    """The state of reading one file: the rows of each query so far, and the facts of every slide with their lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, list[_Ranked]] = {}
        self.found: dict[str, set[str]] = {}
        self.empty: set[str] = set()
        self.known: dict[tuple[str, str], tuple[str, int]] = {}
        self.agreed: set[tuple[str, ...]] = set()

    def take(self, line: int, row: Mapping[str, str]) -> None:
        """Check one row against all before it, and keep it."""
        query = row["query_id"]
        if not query:
            raise self._error(line, "the query has no id", "fill in query_id")
        if not row["query_label"]:
            raise self._error(
                line, f"query {query!r} has no label", "a query without a label cannot be scored: leave it out"
            )
        self._agree(line, query, row, _QUERY_FACTS)
        rows = self.rows.setdefault(query, [])
        hitless = not row["rank"] and not row["hit_id"]
        if query in self.empty or (hitless and rows):
            raise self._error(line, f"query {query!r} has a row without a hit among other rows", "leave that row out")
        if hitless:
            self.empty.add(query)
        else:
            rows.append((self._rank(line, query, row["rank"]), line, self._hit(line, query, row)))

    def _rank(self, line: int, query: str, text: str) -> int:
        """Return a rank. 2.0 is 2: spreadsheets write a column with empty cells this way."""
        if text.isdecimal():
            return int(text)
        with contextlib.suppress(ValueError):
            if float(text).is_integer():
                return int(float(text))
        raise self._error(
            line,
            f"rank {text or '(empty)'} of query {query!r} is not a whole number",
            "ranks count 1, 2, 3 and so on within a query, nearest first",
        )

    def _hit(self, line: int, query: str, row: Mapping[str, str]) -> RankedHit | None:
        """Return the hit of a row; None for a row with only a rank, which stands for a missing hit."""
        slide = row["hit_id"]
        if not slide:
            if row["hit_label"] or row.get("distance"):
                raise self._error(
                    line, f"rank {row['rank']} of query {query!r} has no hit_id", "fill it in or leave the row out"
                )
            return None
        if slide == query:
            raise self._error(line, f"query {query!r} is among its own hits", "leave the query out of its list")
        found = self.found.setdefault(query, set())
        if slide in found:
            raise self._error(line, f"query {query!r} finds {slide!r} twice", "list every slide once a query")
        found.add(slide)
        self._agree(line, slide, row, _HIT_FACTS)
        distance = self._number(line, row.get("distance", ""))
        return RankedHit(slide, row["hit_label"], row.get("hit_patient", ""), row.get("hit_center", ""), distance)

    def _agree(self, line: int, slide: str, row: Mapping[str, str], columns: Sequence[str]) -> None:
        """Check that a slide has one value of each kind, as a query and as a hit; unknown agrees with all."""
        facts = (columns[0], slide, *[row.get(column, "") for column in columns])
        if facts in self.agreed:  # most rows repeat the facts of an earlier one
            return
        self.agreed.add(facts)
        for column, value in zip(columns, facts[2:]):
            if not value:
                continue
            name = column.removeprefix("query_").removeprefix("hit_")
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
        """Return the queries with their hits; a fact missing in one row may come from another."""
        found = []
        for query, rows in self.rows.items():
            hits = self._ordered(query, rows)
            label = self._fact(query, "label")
            patient, center, site = (self._fact(query, name) for name in ("patient", "center", "site"))
            found.append(QueryHits(query, label, hits, patient, center, site, self._relevant(query, label, hits)))
        return found

    def _ordered(self, query: str, rows: list[_Ranked]) -> tuple[RankedHit, ...]:
        """Return the hits of a query by rank, whatever the order of its rows."""
        rows.sort(key=lambda row: row[0])
        while rows and rows[-1][2] is None:
            rows.pop()
        hits: list[RankedHit] = []
        for wanted, (rank, line, hit) in enumerate(rows, 1):
            if rank != wanted:
                raise self._error(
                    line,
                    f"rank {rank} of query {query!r} where {wanted} is next",
                    "ranks count 1, 2, 3 and so on within a query, nearest first",
                )
            if hit is None:
                raise self._error(
                    line, f"rank {rank} of query {query!r} has no hit_id, later ranks have", "close the gap"
                )
            last = hits[-1].distance if hits else None
            if hit.distance is not None and last is not None and hit.distance < last:
                raise self._error(
                    line,
                    f"distance {hit.distance:g} of query {query!r} is below {last:g} of the rank before",
                    "smaller means more similar: convert a similarity to a distance, and sort",
                )
            hits.append(hit)
        return tuple(hits)

    def _fact(self, slide: str, name: str) -> str:
        return self.known.get((slide, name), ("", 0))[0]

    def _relevant(self, query: str, label: str, hits: Sequence[RankedHit]) -> int | None:
        text, line = self.known.get((query, "relevant"), ("", 0))
        if not text:
            return None
        count = text.removesuffix(".0")
        if not count.isdecimal():
            raise self._error(line, f"relevant {text!r} of query {query!r} is not a count", "write a whole number")
        found = sum(hit.label == label for hit in hits)
        if int(count) < found:
            raise self._error(
                line,
                f"relevant is {text} for query {query!r}, which found {found} slides with its label",
                "count every candidate of the query that has its label",
            )
        return int(count)

    def _error(self, line: int, cause: str, fix: str) -> SlideseekError:
        return SlideseekError(f"{self.path}, line {line}: {cause}", fix)
