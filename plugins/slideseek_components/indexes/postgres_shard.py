"""One PostgreSQL server that keeps a part of the codes in a table, with the pgvector extension."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import psycopg
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

from slideseek.errors import DamagedError, UnavailableError
from slideseek.types import Code, Filter

from .cosine import cosine_distances
from .median_of_minima import Direction
from .postgres_sql import COLUMNS, conditions, copy_stream, create_table, packed, unpacked
from .shards import (
    FIX,
    FOREVER,
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
    parsed_shape,
    revision,
)

BATCH = 10_000
"""Slides that are loaded in one transaction."""

SAMPLED, SAMPLED_SHARE = 2000, 0.1
"""Rows of the sample that bounds the distance of the last hit, and the share of a table that it may be at most."""

CONNECT_SECONDS = 4
INLINE_BYTES = 7_500
"""Bytes of a code up to which a row surely fits a page of 8 kB."""

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SERVICE = "service:"


class _Binary:
    """A value that is already in PostgreSQL's binary form."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class _BinaryDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Any) -> Buffer | None:
        return obj.data  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Limits:
    """How a server is used. hnsw: candidates that an approximate search inspects, 0 for exact search."""

    schema: str
    seconds: float
    hnsw: int = 0


class PostgresShard(Shard):
    """A table on one server. source: the environment variable that holds the connection string, or `service:NAME`."""

    def __init__(self, source: str, place: str, limits: Limits, pool: Connections) -> None:
        self.source, self.limits, self.pool = source, limits, pool
        self.table = f"{limits.schema}.{place}"
        self._shape: Shape | None = None
        self._slides = 0

    @property
    def name(self) -> str:  # type: ignore[override]
        """The shard, as the configuration names it, and its host."""
        return f"shard {self.source!r}{self.pool.host}"

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        with self.reaching(psycopg.Error), self.pool.connection(self.name, self.limits) as connection:
            yield connection

    def _all(self, statement: str, parameters: Sequence[Any] = (), binary: bool = False) -> list[Any]:
        """Run a statement that only reads; a connection that the server closed meanwhile is opened again."""
        for last in (False, True):
            try:
                with self._connected() as connection, connection.cursor(binary=binary) as cursor:
                    return cursor.execute(statement.encode(), parameters).fetchall()
            except UnavailableError as error:
                lost = isinstance(error.__cause__, psycopg.OperationalError) and self.pool.reused
                if last or not lost or isinstance(error.__cause__, psycopg.errors.QueryCanceled):
                    raise
                self.pool.clear()
        raise AssertionError

    def _facts(self) -> dict[str, Any] | None:
        found = self._all("SELECT obj_description(to_regclass(%s), 'pg_class')", [self.table])[0][0]
        try:
            return dict(json.loads(found)) if found else None
        except (ValueError, TypeError):
            return {}

    def prepare(self, shape: Shape) -> None:
        """Create the table; one of another format, which an older save left under this name, is replaced."""
        facts = self._facts()
        self._shape = shape
        if facts == shape.facts():
            return
        schema = self.limits.schema
        with self._connected() as connection:
            if not connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone():
                raise UnavailableError(
                    f"{self.name}: the extension 'vector' is not installed in this database",
                    "let an administrator run CREATE EXTENSION vector",
                )
            with connection.transaction():
                if not connection.execute("SELECT to_regnamespace(%s)", [schema]).fetchone()[0]:  # type: ignore[index]
                    connection.execute(f"CREATE SCHEMA {schema}".encode())
                connection.execute(f"DROP TABLE IF EXISTS {self.table}".encode())
                inline = (1 if shape.kind == "bits" else 4) * shape.columns <= INLINE_BYTES
                for statement in create_table(self.table, shape, inline):
                    connection.execute(statement.encode())

    def open(self) -> Shape:
        """Return the format stated in the table's comment."""
        facts = self._facts()
        if facts is None:
            raise DamagedError(f"{self.name} has no table {self.table}", FIX)
        self._shape = parsed_shape(self.name, facts)
        return self._shape

    @property
    def shape(self) -> Shape:
        """The format of the table."""
        return self._shape or self.open()

    def held(self, token: int | None) -> dict[str, Seals]:
        """Return the seals of the slides under a token, or of all that no save has ended."""
        which = f"died = {FOREVER}" if token is None else conditions((), token, None, [])
        rows = self._all(f"SELECT id, code_seal, record_seal FROM {self.table} WHERE part = 0 AND {which}")
        return {slide_id: (code, record) for slide_id, code, record in rows}

    def write(self, gone: Sequence[str], rows: Iterable[Row], saved: int | None) -> int:
        """End the rows of `gone`, and load new ones by binary COPY, committed in batches."""
        table, shape = self.table, self.shape
        with self._connected() as connection:
            connection.execute("SET statement_timeout = 0")
            newest = connection.execute(f"SELECT coalesce(max(born), 0) FROM {table}".encode()).fetchone()[0]  # type: ignore[index]
            token = revision(max(saved or 0, newest))
            if saved is not None:
                old = min(saved, token - KEPT_MS)
                connection.execute(f"DELETE FROM {table} WHERE died <= {old}".encode())
            for some in batches(gone, BATCH):
                ended = f"UPDATE {table} SET died = {token} WHERE died = {FOREVER} AND id = ANY(%s)"
                connection.execute(ended.encode(), [some])
            copy = f"COPY {table} ({', '.join(COLUMNS)}) FROM STDIN (FORMAT binary)"
            for batch in batches(rows, BATCH):
                with connection.transaction(), connection.cursor() as cursor, cursor.copy(copy.encode()) as stream:
                    for part in copy_stream(batch, shape, token):
                        stream.write(part)
            if self.limits.hnsw:
                kind = "bit_hamming_ops" if shape.kind == "bits" else "vector_cosine_ops"
                index = f"CREATE INDEX IF NOT EXISTS {table.partition('.')[2]}_h ON {table} USING hnsw (code {kind})"
                connection.execute(index.encode())
            connection.execute(f"VACUUM ANALYZE {table}".encode())
            connection.execute(f"SET statement_timeout = {round(1000 * self.limits.seconds)}".encode())
        return token

    def state(self, token: int) -> State:
        """Count the slides and add up their seals, from an index that holds just these."""
        what = "count(*), mod(coalesce(sum(code_seal::numeric + record_seal), 0), 9223372036854775808)"
        where = conditions((), token, None, [])
        slides, total = self._all(f"SELECT {what} FROM {self.table} WHERE part = 0 AND {where}")[0]
        self._slides = slides
        return State(slides, int(total))

    def codes(self, slide_ids: Sequence[str], token: int) -> Iterator[Code]:
        """Yield the codes of some slides, read in batches."""
        shape = self.shape
        for some in batches(slide_ids, BATCH):
            query = f"SELECT id, space, code FROM {self.table} WHERE {conditions((), token, None, [])} AND id = ANY(%s)"
            rows = self._all(f"{query} ORDER BY id, part", [some], binary=True)
            for (slide_id, space), parts in groupby(rows, key=lambda row: row[:2]):
                yield Code(slide_id, np.stack([unpacked(part[2], shape) for part in parts]), space)

    def near(self, code: Code, k: int, where: Sequence[Filter], token: int, direction: Direction) -> Near:
        """Return the k nearest: ranked by the server for bits, and again by the local distance for floats."""
        shape, given = self.shape, list[Any]()
        if shape.many or len(code) > 1:
            return [(row[0], row[1]) for row in self._all(*self._sets(code, k, where, token, direction))]
        query = self._value(code.rows[0])
        if shape.kind == "bits":
            order = "d" if self.limits.hnsw else "d, id"
            passing = conditions(where, token, code.space, given)
            what = f"SELECT id, code <~> %s AS d FROM {self.table} WHERE {passing}"
            bound, more = self._bound(query, k, passing, given)
            return nearest(self._all(f"{what} {bound} ORDER BY {order} LIMIT {k}", [query, *given, *more]), k)
        distance = "code <=> %s" if self.limits.hnsw else "coalesce(nullif(code <=> %s, 'NaN'), 1)"
        what = f"SELECT {distance} AS d, id, code FROM {self.table} WHERE"
        what = f"{what} {conditions(where, token, code.space, given)} ORDER BY d LIMIT"

        def ask(count: int) -> list[tuple[float, Any]]:
            rows = self._all(f"{what} {count}", [query, *given], binary=True)
            return [(row[0], (row[1], row[2])) for row in rows]

        rough = completed(ask, k, slack=(shape.columns + 16) * 2.0**-22)
        if not rough:
            return []
        exact = cosine_distances(code.rows, np.stack([unpacked(value, shape) for _, (_, value) in rough]))[0]
        return nearest(((slide_id, float(d)) for (_, (slide_id, _)), d in zip(rough, exact, strict=True)), k)

    def _bound(self, query: _Binary, k: int, passing: str, given: Sequence[Any]) -> tuple[str, list[Any]]:
        """Return a condition that all k nearest pass, and its parameters; "" for a small table.

        No hit is farther than the k-th of a sample. Few rows are as near, so few are sorted: that is a third of the
        time of a search.
        """
        rows = max(SAMPLED, 50 * k)
        if self.limits.hnsw or rows > SAMPLED_SHARE * self._slides:
            return "", []
        table = f"{self.table} TABLESAMPLE SYSTEM ({100 * rows / self._slides:.6f})"
        sample = f"SELECT code <~> %s AS d FROM {table} WHERE {passing} ORDER BY d LIMIT {k}"
        last = f"SELECT CASE count(*) WHEN {k} THEN max(d) ELSE 'Infinity' END FROM ({sample}) AS sample"
        return f"AND code <~> %s <= ({last})", [query, query, *given]

    def _sets(
        self, code: Code, k: int, where: Sequence[Filter], token: int, direction: Direction
    ) -> tuple[str, list[Any]]:
        """Return the statement of the median of minima, which the server computes exactly, and its parameters."""
        given: list[Any] = [self._value(row) for row in code.rows]
        values = ", ".join(f"({number}, %s)" for number in range(len(given)))
        pairs = (
            f"q (n, row) AS (VALUES {values}), pairs AS MATERIALIZED (SELECT id, part, n, code <~> q.row AS d"
            f" FROM {self.table}, q WHERE {conditions(where, token, code.space, given)})"
        )
        median = "percentile_cont(0.5) WITHIN GROUP (ORDER BY m) AS d"
        sides = {
            side: f"SELECT id, {median} FROM (SELECT id, min(d) AS m FROM pairs GROUP BY id, {by}) AS x GROUP BY id"
            for side, by in (("query", "n"), ("target", "part"))
        }
        both = f"SELECT a.id, (a.d + b.d) / 2 AS d FROM ({sides['query']}) a JOIN ({sides['target']}) b USING (id)"
        chosen = sides.get(direction, both)
        return f"WITH {pairs} SELECT id, d FROM ({chosen}) AS found ORDER BY d, id LIMIT {k}", given

    def _value(self, row: Any) -> _Binary:
        return self.pool.value(packed(row, self.shape), self.shape)

    def count(self, where: Sequence[Filter], token: int) -> int:
        """Count slides; if filters only exclude, the excluded are counted, which indexes find at once."""
        given: list[Any] = []
        excluding = where and all(one.sign in ("!=", "not in") for one in where)
        if excluding:
            without = [Filter(one.field, one.free, "in", one.values) for one in where]
            failing = " OR ".join(f"({conditions([one], token, None, given)})" for one in without)
            every = self._all(f"SELECT count(*) FROM {self.table} WHERE part = 0 AND {conditions((), token, None, [])}")
            failed = self._all(f"SELECT count(*) FROM {self.table} WHERE part = 0 AND ({failing})", given)
            return int(every[0][0] - failed[0][0])
        passing = conditions(where, token, None, given)
        return int(self._all(f"SELECT count(*) FROM {self.table} WHERE part = 0 AND {passing}", given)[0][0])

    def destroy(self) -> None:
        """Drop the table."""
        with self._connected() as connection:
            connection.execute(f"DROP TABLE IF EXISTS {self.table}".encode())


@dataclass
class Connections:
    """Open connections to one server, used again; a search may run in several threads."""

    source: str
    host: str = ""
    reused: bool = False
    idle: list[psycopg.Connection[Any]] = field(default_factory=list)
    types: dict[str, type[_Binary]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def connection(self, name: str, limits: Limits) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection in autocommit mode; one that failed is closed."""
        with self.lock:
            kept = self.idle.pop() if self.idle else None
        self.reused = kept is not None
        connection = kept or self._connect(name, limits)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self.lock:
            self.idle.append(connection)

    def clear(self) -> None:
        """Close all idle connections."""
        with self.lock:
            closing, self.idle = self.idle, []
        for connection in closing:
            connection.close()

    def _connect(self, name: str, limits: Limits) -> psycopg.Connection[Any]:
        connection = psycopg.connect(
            self._conninfo(name),
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            application_name="slideseek",
        )
        self.host = f" ({connection.info.host}:{connection.info.port})"
        settings = {
            "statement_timeout": round(1000 * limits.seconds),
            "search_path": f"{limits.schema}, public",
            "jit": "off",
        }
        if limits.hnsw:
            settings |= {"hnsw.iterative_scan": "strict_order", "hnsw.ef_search": limits.hnsw}
            connection.execute("SELECT '[1]'::vector")  # loads the extension, which defines the settings
        for key, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", [key, str(value)])
        for kind in ("bit", "vector", "sparsevec"):
            oid = connection.execute("SELECT to_regtype(%s)::oid", [kind]).fetchone()
            if oid and oid[0]:
                made = self.types.setdefault(kind, type(f"_{kind.title()}", (_Binary,), {}))
                dumper = type("_Dumper", (_BinaryDumper,), {"oid": int(oid[0])})
                connection.adapters.register_dumper(made, dumper)
        return connection

    def value(self, data: bytes, shape: Shape) -> _Binary:
        """Return a code as a parameter of its type."""
        kind = "bit" if shape.kind == "bits" else "sparsevec" if shape.sparse else "vector"
        return self.types.setdefault(kind, type(f"_{kind.title()}", (_Binary,), {}))(data)

    def _conninfo(self, name: str) -> str:
        if self.source.startswith(SERVICE):
            return f"service='{self.source.removeprefix(SERVICE)}'"
        text = os.environ.get(self.source, "")
        if not text:
            raise UnavailableError(
                f"{name}: the environment variable {self.source} is not set",
                "set it to a connection string, such as postgresql://reader@db.example.org/slides",
            )
        try:
            parts = psycopg.conninfo.conninfo_to_dict(text)
        except psycopg.Error:  # its message quotes the text, which may hold a password
            raise UnavailableError(
                f"{name}: the environment variable {self.source} holds no valid connection string",
                "write postgresql://USER@HOST/DATABASE, or host=... dbname=... user=...",
            ) from None
        if parts.get("host"):
            self.host = f" ({parts['host']}:{parts.get('port') or 5432})"
        return text
