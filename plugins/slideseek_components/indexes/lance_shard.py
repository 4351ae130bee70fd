"""One Lance table that keeps codes in a folder or an object store, each row with a checksum.

Lance does not notice flipped bits in its files. Every row is therefore compared with its checksum when a table is
opened, and every hit again when it is found.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa

from slideseek.digests import canonical_json
from slideseek.errors import DamagedError, message
from slideseek.types import Code, Filter

from .fact_sql import fact_condition, facts_of
from .median_of_minima import Direction
from .shards import (
    FIX,
    KEPT_MS,
    Near,
    Row,
    Seals,
    Shape,
    Shard,
    State,
    batches,
    completed,
    nearest,
    numbers,
    parsed_shape,
    seal_code,
    total_of,
)

BATCH = 10_000
ERRORS = (OSError, RuntimeError, ValueError, pa.ArrowException)
FACTS = b"slideseek"


class LanceShard(Shard):
    """A table in a folder or bucket. options: of the object store, such as its endpoint; secrets are in the
    environment."""

    def __init__(self, uri: str, place: str, options: Mapping[str, str]) -> None:
        self.uri, self.place, self.options = uri, place, dict(options)
        self.name = f"lance table {uri}/{place}"
        self._opened: dict[int, Any] = {}
        self._shape: Shape | None = None

    @cached_property
    def _database(self) -> Any:
        with self.reaching(*ERRORS):
            return lancedb.connect(self.uri, storage_options=self.options or None)

    def _exists(self) -> bool:
        with self.reaching(*ERRORS):
            return self.place in self._database.list_tables(limit=100_000).tables

    def _table(self, token: int | None = None) -> Any:
        """Return the table as it was saved under a token, or as it is now."""
        if token is not None and token in self._opened:
            return self._opened[token]
        if not self._exists():
            raise DamagedError(f"{self.name}: there is no such table", FIX)
        with self.reaching(*ERRORS):
            table = self._database.open_table(self.place)
            if token is not None:
                try:
                    table.checkout(token)
                except ERRORS as error:
                    raise DamagedError(f"{self.name}: version {token} is missing ({message(error)})", FIX) from error
                self._opened[token] = table
            return table

    def prepare(self, shape: Shape) -> None:
        """Create the table; one of another format, which an older save left under this name, is replaced."""
        self._shape = shape
        if self._exists():
            if self._facts() == shape.facts():
                return
            self.destroy()
        metadata = {FACTS: json.dumps(shape.facts()).encode()}
        with self.reaching(*ERRORS):
            self._database.create_table(self.place, schema=_schema(shape, ()).with_metadata(metadata))

    def _facts(self) -> dict[str, Any]:
        with self.reaching(*ERRORS):
            return dict(json.loads((self._table().schema.metadata or {}).get(FACTS, b"{}")))

    def open(self) -> Shape:
        """Return the format stated in the schema."""
        self._shape = parsed_shape(self.name, self._facts())
        return self._shape

    @property
    def shape(self) -> Shape:
        """The format of the table."""
        return self._shape or self.open()

    def held(self, token: int | None) -> dict[str, Seals]:
        """Return the seals of the slides of a version, or of the last one."""
        with self.reaching(*ERRORS):
            found = self._table(token).search().select(["id", "code_seal", "record_seal"]).to_arrow()
        columns = (found[name].to_pylist() for name in ("id", "code_seal", "record_seal"))
        return {slide_id: (code, record) for slide_id, code, record in zip(*columns, strict=True)}

    def write(self, gone: Sequence[str], rows: Iterable[Row], saved: int | None) -> int:
        """Delete and append rows; each is a version of the table, and the last one is the token."""
        table = self._table()
        with self.reaching(*ERRORS):
            for some in batches(gone, 1000):
                table.delete(fact_condition(Filter("id", False, "in", tuple(some)), frozenset()))
            for batch in batches(rows, BATCH):
                known = [numbers(row.record) for row in batch]
                new = {name for one in known for name in one} - set(table.schema.names)
                if new:
                    table.add_columns(dict.fromkeys(sorted(new), "cast(NULL as double)"))
                names = tuple(name for name in table.schema.names if name.startswith("n"))
                table.add(_batch(batch, known, self.shape, names))
            table.optimize(cleanup_older_than=timedelta(milliseconds=KEPT_MS))
            return int(table.version)

    def state(self, token: int) -> State:
        """Read all rows and compare each with its checksum."""
        seals, damaged = [], []
        with self.reaching(*ERRORS):
            try:
                reader = self._table(token).search().select(_READ).to_batches()
                for batch in reader:
                    for code, code_seal, record_seal, facts_seal, facts in _unpacked(batch, self.shape):
                        seals.append((code_seal, record_seal))
                        sealed = seal_code(code.slide_id, code.space, code.rows)
                        if sealed != code_seal or _facts_seal(code.slide_id, facts) != facts_seal:
                            damaged.append(code.slide_id)
            except ERRORS as error:
                raise DamagedError(f"{self.name}: cannot be read ({message(error)})", FIX) from error
        return State(len(seals), total_of(seals), tuple(damaged))

    def codes(self, slide_ids: Sequence[str], token: int) -> Iterator[Code]:
        """Yield the codes of some slides."""
        for some in batches(slide_ids, 1000):
            where = fact_condition(Filter("id", False, "in", tuple(some)), frozenset())
            with self.reaching(*ERRORS):
                found = self._table(token).search().where(where).select(_READ).to_arrow()
            for batch in found.to_batches():
                for code, *_ in _unpacked(batch, self.shape):
                    yield code

    def _where(self, where: Sequence[Filter], token: int, space: str | None) -> str:
        numeric = frozenset(name for name in self._table(token).schema.names if name.startswith("n"))
        parts = [fact_condition(one, numeric) for one in where]
        if space is not None:
            doubled = space.replace("'", "''")
            parts.append(f"space = '{doubled}'")
        return " AND ".join(parts)

    def near(self, code: Code, k: int, where: Sequence[Filter], token: int, direction: Direction) -> Near:
        """Return the k nearest by Hamming distance, each compared with its checksum."""
        table, condition = self._table(token), self._where(where, token, code.space)

        def ask(count: int) -> list[tuple[float, Any]]:
            query = table.search(code.rows[0], vector_column_name="code").distance_type("hamming")
            with self.reaching(*ERRORS):
                found = query.where(condition, prefilter=True).limit(count).select([*_READ, "_distance"]).to_arrow()
            hits = [one for batch in found.to_batches() for one in _unpacked(batch, self.shape)]
            return list(zip(found["_distance"].to_pylist(), hits, strict=True))

        kept = []
        for distance, (hit, code_seal, *_) in completed(ask, k):
            kept.append((hit.slide_id, float(distance)))
            if seal_code(hit.slide_id, hit.space, hit.rows) != code_seal:
                raise DamagedError(f"{self.name}: the code of {hit.slide_id!r} was damaged after it was opened", FIX)
        return nearest(kept, k)

    def count(self, where: Sequence[Filter], token: int) -> int:
        """Count slides."""
        with self.reaching(*ERRORS):
            return int(self._table(token).count_rows(self._where(where, token, None) or None))

    def destroy(self) -> None:
        """Drop the table."""
        if self._exists():
            with self.reaching(*ERRORS):
                self._database.drop_table(self.place)


_READ = ["id", "space", "code", "code_seal", "record_seal", "facts_seal", "facts"]


def _schema(shape: Shape, numeric: Iterable[str]) -> pa.Schema:
    fields = [
        pa.field("id", pa.string()),
        pa.field("space", pa.string()),
        pa.field("code", pa.list_(pa.uint8(), shape.columns)),
        pa.field("code_seal", pa.int64()),
        pa.field("record_seal", pa.int64()),
        pa.field("facts_seal", pa.int64()),
        pa.field("facts", pa.list_(pa.string())),
    ]
    return pa.schema([*fields, *(pa.field(name, pa.float64()) for name in numeric)])


def _batch(rows: Sequence[Row], known: Sequence[Mapping[str, float]], shape: Shape, numeric: Sequence[str]) -> Any:
    facts = [facts_of(row.record) for row in rows]
    codes = np.concatenate([row.code.rows for row in rows])
    ids = [row.code.slide_id for row in rows]
    columns = [
        pa.array(ids),
        pa.array([row.code.space for row in rows]),
        pa.FixedSizeListArray.from_arrays(pa.array(codes.ravel()), shape.columns),
        pa.array([row.seals[0] for row in rows], pa.int64()),
        pa.array([row.seals[1] for row in rows], pa.int64()),
        pa.array([_facts_seal(slide_id, one) for slide_id, one in zip(ids, facts, strict=True)], pa.int64()),
        pa.array(facts, pa.list_(pa.string())),
        *(pa.array([one.get(name) for one in known], pa.float64()) for name in numeric),
    ]
    return pa.table(columns, schema=_schema(shape, numeric))


def _unpacked(batch: Any, shape: Shape) -> Iterator[tuple[Code, int, int, int, list[str]]]:
    """Yield the code of each row, its seals and its facts."""
    packed = batch.column("code").flatten().to_numpy(zero_copy_only=False).reshape(-1, 1, shape.columns)
    names = ("id", "space", "code_seal", "record_seal", "facts_seal", "facts")
    columns = [batch.column(name).to_pylist() for name in names]
    for rows, slide_id, space, *rest in zip(packed, *columns, strict=True):
        yield Code(slide_id, rows, space), rest[0], rest[1], rest[2], rest[3]


def _facts_seal(slide_id: str, facts: Sequence[str]) -> int:
    """Return the checksum of what filters see of a row."""
    return seal_code(slide_id, "facts", np.frombuffer(canonical_json(list(facts)).encode(), np.uint8)[None])
