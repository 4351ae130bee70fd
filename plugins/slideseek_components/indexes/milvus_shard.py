"""One Milvus collection that keeps codes of bits, with the records of their slides as JSON."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pymilvus import DataType, MilvusClient, MilvusException

from slideseek.errors import DamagedError, UnavailableError
from slideseek.types import NUMERIC_SIGNS, Code, Filter

from .hamming import differing_bits
from .median_of_minima import Direction
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
    number_name,
    numbers,
    parsed_shape,
    revision,
    texts,
    total_of,
)

BATCH_BYTES = 8_000_000
"""Bytes of codes that are sent at once: the server takes messages of at most 64 MB."""

MOST_HITS = 16_384
"""Hits that Milvus returns at most."""

CONNECT_SECONDS = 4.0
SETTLED_MS = 10_000
"""After this time a save is visible to all nodes at every level of consistency that Milvus bounds."""

LARGEST = sys.float_info.max
"""What stands for infinity, which JSON does not have."""

ERRORS = (MilvusException, OSError, ValueError)

logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it prints every error with a traceback before raising it


@dataclass(frozen=True)
class Access:
    """How a server is reached. uri, token: environment variables that hold its address and the user and password."""

    uri: str
    token: str
    seconds: float
    consistency: str


class MilvusShard(Shard):
    """A collection of one server or cluster."""

    def __init__(self, access: Access, place: str) -> None:
        self.access, self.place = access, place
        self.name = f"milvus {access.uri!r}"
        self._shape: Shape | None = None

    @cached_property
    def _client(self) -> Any:
        uri = os.environ.get(self.access.uri, "")
        if not uri:
            raise UnavailableError(
                f"{self.name}: the environment variable {self.access.uri} is not set",
                "set it to the address of the server, such as http://db.example.org:19530",
            )
        token = os.environ.get(self.access.token, "")
        with self.reaching(*ERRORS):
            return MilvusClient(uri=uri, token=token, timeout=CONNECT_SECONDS)

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        with self.reaching(*ERRORS):
            return getattr(self._client, method)(self.place, *args, **{"timeout": self.access.seconds, **kwargs})

    def _exists(self) -> bool:
        return bool(self._call("has_collection"))

    def _facts(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self._call("describe_collection").get("description") or "{}"))
        except (ValueError, TypeError):
            return {}

    def prepare(self, shape: Shape) -> None:
        """Create the collection; one of another format, which an older save left under this name, is replaced."""
        self._shape = shape
        if self._exists():
            if self._facts() == shape.facts():
                return
            self.destroy()
        schema = MilvusClient.create_schema(auto_id=False, description=json.dumps(shape.facts()))
        schema.add_field("pk", DataType.VARCHAR, max_length=4096, is_primary=True)
        for name in ("id", "space"):
            schema.add_field(name, DataType.VARCHAR, max_length=4096)
        for name in ("born", "died", "code_seal", "record_seal"):
            schema.add_field(name, DataType.INT64)
        schema.add_field("facts", DataType.JSON)
        schema.add_field("code", DataType.BINARY_VECTOR, dim=8 * shape.columns)
        index = MilvusClient.prepare_index_params()
        index.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
        self._call("create_collection", schema=schema, index_params=index, timeout=60)

    def open(self) -> Shape:
        """Return the format stated in the description, and make the collection ready to search."""
        if not self._exists():
            raise DamagedError(f"{self.name} has no collection {self.place}", FIX)
        self._shape = parsed_shape(self.name, self._facts())
        self._call("load_collection", timeout=60)
        return self._shape

    @property
    def shape(self) -> Shape:
        """The format of the collection."""
        return self._shape or self.open()

    def _consistency(self, token: int) -> str:
        """Return the level to search with: what was just saved is always seen."""
        return "Strong" if time.time() * 1000 < token + SETTLED_MS else self.access.consistency

    def _every(self, expression: str, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield all rows that pass, as the server holds them now."""
        most = max(1, min(MOST_HITS, BATCH_BYTES // (self.shape.columns if "code" in fields else 64)))
        self._call("query", filter=expression, output_fields=["count(*)"], consistency_level="Strong")
        with self.reaching(*ERRORS):
            found = self._client.query_iterator(
                self.place,
                batch_size=most,
                filter=expression,
                output_fields=list(fields),
                consistency_level="Strong",
                timeout=self.access.seconds,
            )
            try:
                while rows := found.next():
                    yield from rows
            finally:
                found.close()

    def held(self, token: int | None) -> dict[str, Seals]:
        """Return the seals of the slides under a token, or of all that no save has ended."""
        which = f"died == {FOREVER}" if token is None else _visible(token)
        rows = self._every(which, ["id", "code_seal", "record_seal"])
        return {row["id"]: (row["code_seal"], row["record_seal"]) for row in rows}

    def write(self, gone: Sequence[str], rows: Iterable[Row], saved: int | None) -> int:
        """End the rows of `gone`, and insert new ones in batches."""
        token = revision(saved)
        some = max(1, BATCH_BYTES // self.shape.columns)
        if saved is not None:
            self._call("delete", filter=f"died <= {min(saved, token - KEPT_MS)}")
        every = ["pk", "id", "space", "born", "died", "code_seal", "record_seal", "facts", "code"]
        for names in batches(gone, 1000):
            ended = [
                {**row, "died": token, "code": row["code"][0]}
                for row in self._every(f"died == {FOREVER} and id in {json.dumps(names)}", every)
            ]
            if ended:
                self._call("upsert", ended)
        for batch in batches(rows, min(some, 5000)):
            self._call("insert", [_entity(row, token) for row in batch], timeout=60)
        return token

    def state(self, token: int) -> State:
        """Count the slides and add up their seals."""
        held = self.held(token)
        return State(len(held), total_of(held.values()))

    def codes(self, slide_ids: Sequence[str], token: int) -> Iterator[Code]:
        """Yield the codes of some slides."""
        for names in batches(slide_ids, 1000):
            expression = f"{_visible(token)} and id in {json.dumps(names, ensure_ascii=False)}"
            yield from map(_code, self._every(expression, ["id", "space", "code"]))

    def near(self, code: Code, k: int, where: Sequence[Filter], token: int, direction: Direction) -> Near:
        """Return the k nearest by Hamming distance."""
        expression = _expression(where, token, code.space)

        def ask(count: int) -> list[tuple[float, Any]]:
            if count > MOST_HITS:  # more than Milvus returns: all that pass are compared here
                return self._compared(code, expression)
            found = self._call(
                "search",
                [code.rows[0].tobytes()],
                limit=count,
                filter=expression,
                search_params={"metric_type": "HAMMING"},
                output_fields=["id"],
                consistency_level=self._consistency(token),
            )[0]
            return [(float(hit["distance"]), hit["entity"]["id"]) for hit in found]

        return nearest(((slide_id, distance) for distance, slide_id in completed(ask, k)), k)

    def _compared(self, code: Code, expression: str) -> list[tuple[float, Any]]:
        found: list[tuple[float, Any]] = []
        for batch in batches(map(_code, self._every(expression, ["id", "space", "code"])), 10_000):
            distances = differing_bits(code.rows, np.concatenate([one.rows for one in batch]))[0].tolist()
            found.extend(zip(distances, (one.slide_id for one in batch), strict=True))
        return sorted(found)

    def count(self, where: Sequence[Filter], token: int) -> int:
        """Count slides."""
        expression = _expression(where, token, None)
        level = self._consistency(token)
        found = self._call("query", filter=expression, output_fields=["count(*)"], consistency_level=level)
        return int(found[0]["count(*)"])

    def destroy(self) -> None:
        """Drop the collection."""
        if self._exists():
            self._call("drop_collection")


def _visible(token: int) -> str:
    return f"born <= {token} and died > {token}"


def _entity(row: Row, token: int) -> dict[str, Any]:
    record = row.record
    named = {_key(name, False): text for name, text in texts(record).items() if text}
    free = {_key(name, True): text for name, text in record.columns.items() if text}
    return {
        "pk": f"{token}:{row.code.slide_id}",
        "id": row.code.slide_id,
        "space": row.code.space,
        "born": token,
        "died": FOREVER,
        "code_seal": row.seals[0],
        "record_seal": row.seals[1],
        "facts": {**named, **free, **{name: min(max(one, -LARGEST), LARGEST) for name, one in numbers(record).items()}},
        "code": row.code.rows[0].tobytes(),
    }


def _code(row: dict[str, Any]) -> Code:
    return Code(row["id"], np.frombuffer(row["code"][0], np.uint8)[None], row["space"])


def _expression(where: Sequence[Filter], token: int, space: str | None) -> str:
    parts = [_visible(token), *(() if space is None else (f"space == {_text(space)}",)), *map(_condition, where)]
    return " and ".join(parts)


def _condition(one: Filter) -> str:
    """Return a filter as an expression of Milvus; a field that is missing or empty has no key."""
    if one.sign in NUMERIC_SIGNS:
        return f'(facts["{number_name(one.field, one.free)}"] {one.sign} {float(one.values[0])!r})'
    values = [value for value in one.values if value]
    if one.field == "id" and not one.free:
        parts = [f"id in [{', '.join(map(_text, one.values))}]"]
    else:
        key = f"facts[{_text(_key(one.field, one.free))}]"
        parts = [f"{key} in [{', '.join(map(_text, values))}]"] if values else []
        parts += [f"not (exists {key})"] if "" in one.values else []
    equal = f"({' or '.join(f'({part})' for part in parts)})"
    return f"(not {equal})" if one.sign in ("!=", "not in") else equal


def _key(name: str, free: bool) -> str:
    """Return the key of a field: letters and digits only, whatever the manifest calls it."""
    return f"t{int(free)}{name.encode().hex()}"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
