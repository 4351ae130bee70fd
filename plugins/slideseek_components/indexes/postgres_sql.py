"""Filters, codes and rows as PostgreSQL takes them: conditions with parameters, binary values, a binary COPY stream."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slideseek.types import NUMERIC_SIGNS, Filter

from .shards import FOREVER, Row, Shape, number_name, numbers, texts

COLUMNS = (
    *("born", "died", "part", "space", "id", "code", "code_seal", "record_seal"),
    *("patient", "site", "label", "center", "mpp", "fields", "numbers"),
)
COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
COPY_END = struct.pack(">h", -1)


def code_type(shape: Shape) -> str:
    """Return the type of the column of codes."""
    if shape.kind == "bits":
        return f"bit({8 * shape.columns})"
    return f"sparsevec({shape.columns})" if shape.sparse else f"vector({shape.columns})"


def create_table(table: str, shape: Shape, inline: bool) -> list[str]:
    """Return the statements that create a table. inline: a row fits a page, so codes are never moved out of it.

    By default PostgreSQL moves values above 2 kB to another table, which more than doubles the time of a scan.
    """
    name = table.partition(".")[2]
    comment = json.dumps(shape.facts())
    return [
        f"CREATE TABLE {table} (born int8 NOT NULL, died int8 NOT NULL, part int4 NOT NULL, space text NOT NULL,"
        f' id text COLLATE "C" NOT NULL, code {code_type(shape)} NOT NULL, code_seal int8 NOT NULL,'
        " record_seal int8 NOT NULL, patient text NOT NULL, site text NOT NULL, label text NOT NULL,"
        " center text NOT NULL, mpp text NOT NULL, fields jsonb NOT NULL, numbers jsonb NOT NULL,"
        " PRIMARY KEY (id, part, born))",
        f"ALTER TABLE {table} ALTER COLUMN code SET STORAGE {'PLAIN' if inline else 'EXTERNAL'}",
        f"CREATE INDEX {name}_p ON {table} (patient)",
        f"CREATE INDEX {name}_c ON {table} (center)",
        f"CREATE INDEX {name}_s ON {table} (born, died, code_seal, record_seal) WHERE part = 0",
        f"COMMENT ON TABLE {table} IS '{comment}'",
    ]


def condition(one: Filter, parameters: list[Any]) -> str:
    """Return a filter as SQL; its values are appended to the parameters, never written into the statement."""
    if one.sign in NUMERIC_SIGNS:
        parameters.extend([number_name(one.field, one.free), float(one.values[0])])
        return f"coalesce((numbers->>%s)::float8 {one.sign} %s, false)"
    what = "coalesce(fields->>%s, '')" if one.free else f'"{one.field}"'
    if one.free:
        parameters.append(one.field)
    parameters.append(list(one.values))
    equal = f"{what} = ANY(%s)"
    return f"NOT ({equal})" if one.sign in ("!=", "not in") else equal


def conditions(where: Sequence[Filter], token: int, space: str | None, parameters: list[Any]) -> str:
    """Return what a row under a token has to pass."""
    parts = [f"born <= {int(token)} AND died > {int(token)}"]
    if space is not None:
        parts.append("space = %s")
        parameters.append(space)
    return " AND ".join([*parts, *(condition(one, parameters) for one in where)])


def packed(row: NDArray[Any], shape: Shape) -> bytes:
    """Return one row of a code in PostgreSQL's binary form."""
    if shape.kind == "bits":
        return struct.pack(">i", 8 * len(row)) + row.tobytes()
    if not shape.sparse:
        return struct.pack(">hh", len(row), 0) + row.astype(">f4").tobytes()
    present = np.flatnonzero(row)
    head = struct.pack(">iii", len(row), len(present), 0)
    return head + present.astype(">i4").tobytes() + row[present].astype(">f4").tobytes()


def unpacked(value: bytes, shape: Shape) -> NDArray[Any]:
    """Return one row of a code from PostgreSQL's binary form: uint8 or float32 (columns,)."""
    if shape.kind == "bits":
        return np.frombuffer(value, np.uint8, offset=4)
    if not shape.sparse:
        return np.frombuffer(value, ">f4", offset=4).astype(np.float32)
    count = int.from_bytes(value[4:8], "big")
    row: NDArray[Any] = np.zeros(shape.columns, np.float32)
    row[np.frombuffer(value, ">i4", count, 12)] = np.frombuffer(value, ">f4", count, 12 + 4 * count)
    return row


def copy_stream(rows: Iterable[Row], shape: Shape, token: int) -> Iterator[bytes]:
    """Yield the rows of a batch as binary COPY, in the order of `COLUMNS`."""
    yield COPY_HEAD
    for row in rows:
        code, record = row.code, row.record
        named = texts(record)
        known = json.dumps({name: repr(value) for name, value in numbers(record).items()})
        tail = [
            *(struct.pack(">q", seal) for seal in row.seals),
            *(named[name].encode() for name in ("patient", "site", "label", "center", "mpp")),
            b"\1" + json.dumps(dict(record.columns)).encode(),
            b"\1" + known.encode(),
        ]
        for part, values in enumerate(code.rows):
            head = [struct.pack(">q", token), struct.pack(">q", FOREVER), struct.pack(">i", part)]
            fields = [*head, code.space.encode(), code.slide_id.encode(), packed(values, shape), *tail]
            yield struct.pack(">h", len(fields)) + b"".join(struct.pack(">i", len(one)) + one for one in fields)
    yield COPY_END
