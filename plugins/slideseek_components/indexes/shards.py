"""What a remote index keeps per slide, and what every place that keeps it can do: one shard of the index.

A shard answers (slide id, distance) pairs; `RemoteIndex` asks all shards at once and merges by distance and id. What
was saved is named by a *token*: a shard keeps what earlier tokens name while it writes, so a search never sees half a
save, and nothing has to be undone after a crash.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from slideseek.digests import canonical_json
from slideseek.errors import DamagedError, SlideseekError, UnavailableError, message
from slideseek.types import Code, Filter, Float64, SlideRecord

from .median_of_minima import Direction

FORMAT = 1
"""Version of the tables. A table of another version is not read."""

KEPT_MS = 3_600_000
"""How long rows that a later save replaced stay readable, in ms: longer than any search that still uses them."""

FOREVER = 2**62
"""When a row that is in use ends."""

FIX = "run 'slideseek build' to save the index again"

Seals: TypeAlias = tuple[int, int]
"""64-bit digests of a slide's code and of its record."""

Near: TypeAlias = list[tuple[str, float]]
"""Slide ids and distances."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Shape:
    """The format of the stored codes. columns: of `Code.rows`. many: several rows per slide. sparse: few non-zeros."""

    kind: str
    columns: int
    many: bool
    sparse: bool = False

    def facts(self) -> dict[str, Any]:
        """Return the format as plain data, with the version of the tables."""
        return {
            "slideseek": FORMAT,
            "kind": self.kind,
            "columns": self.columns,
            "many": self.many,
            "sparse": self.sparse,
        }


@dataclass(frozen=True, slots=True)
class Row:
    """What is kept for one slide: its code, the record that filters are compared with, and the digests of both."""

    code: Code
    record: SlideRecord
    seals: Seals


@dataclass(frozen=True, slots=True)
class State:
    """What a shard holds under a token. total: sum of all seals modulo 2**63. damaged: slides whose code is damaged."""

    slides: int
    total: int
    damaged: tuple[str, ...] = ()


class Shard(ABC):
    """One place that keeps a part of the slides. name: for messages, without secrets."""

    name: str

    @abstractmethod
    def prepare(self, shape: Shape) -> None:
        """Create what is written to, or check that what exists has this format."""

    @abstractmethod
    def open(self) -> Shape:
        """Return the format of what exists; a `DamagedError` if there is nothing."""

    @abstractmethod
    def held(self, token: int | None) -> dict[str, Seals]:
        """Return the seals of the slides under a token; None for those written last, finished or not."""

    @abstractmethod
    def write(self, gone: Sequence[str], rows: Iterable[Row], saved: int | None) -> int:
        """Replace or remove the slides `gone`, add rows, and return the token. saved: token that stays readable."""

    @abstractmethod
    def state(self, token: int) -> State:
        """Return what is held under a token."""

    @abstractmethod
    def codes(self, slide_ids: Sequence[str], token: int) -> Iterator[Code]:
        """Yield the codes of some slides."""

    @abstractmethod
    def near(self, code: Code, k: int, where: Sequence[Filter], token: int, direction: Direction) -> Near:
        """Return the k nearest slides of the code's space that pass all filters, ordered by distance and id."""

    @abstractmethod
    def count(self, where: Sequence[Filter], token: int) -> int:
        """Return how many slides pass all filters."""

    @abstractmethod
    def destroy(self) -> None:
        """Delete everything that is kept, if it exists."""

    def check_shape(self, facts: Mapping[str, Any], shape: Shape) -> None:
        """Raise an error if what exists has another format."""
        if facts.get("slideseek") != FORMAT:
            raise DamagedError(
                f"{self.name}: written by another version of slideseek (table format {facts.get('slideseek')!r}, this"
                f" one reads {FORMAT})",
                FIX,
            )
        if facts != shape.facts():
            raise DamagedError(f"{self.name}: holds {facts}, not {shape.facts()}", FIX)

    @contextmanager
    def reaching(self, *errors: type[Exception]) -> Iterator[None]:
        """Turn errors of a library into one that names the shard."""
        try:
            yield
        except SlideseekError:
            raise
        except errors as error:
            raise UnavailableError(
                f"{self.name}: {message(error)}", "check that it runs and can be reached, and the access it grants"
            ) from error


def parsed_shape(name: str, facts: Mapping[str, Any]) -> Shape:
    """Return the format that a table states about itself."""
    if facts.get("slideseek") != FORMAT:
        raise DamagedError(
            f"{name}: written by another version of slideseek (table format {facts.get('slideseek')!r}, this one reads"
            f" {FORMAT})",
            FIX,
        )
    return Shape(facts["kind"], facts["columns"], facts["many"], facts["sparse"])


def seal_code(slide_id: str, space: str, rows: NDArray[Any]) -> int:
    """Return a digest of a code: 63 bits, so that every database can keep it as a number."""
    head = f"{slide_id}\0{space}\0{rows.shape[0]}\0".encode()
    return int.from_bytes(blake2b(head + np.ascontiguousarray(rows).tobytes(), digest_size=8).digest(), "big") >> 1


def seal_record(record: SlideRecord) -> int:
    """Return a digest of the facts that filters see."""
    facts = canonical_json([texts(record), dict(record.columns)])
    return int.from_bytes(blake2b(facts.encode(), digest_size=8).digest(), "big") >> 1


def texts(record: SlideRecord) -> dict[str, str]:
    """Return the named fields as filters see them, apart from the id."""
    mpp = "" if record.mpp is None else str(record.mpp)
    return {
        "patient": record.patient,
        "site": record.site,
        "label": record.label,
        "center": record.center,
        "mpp": mpp,
    }


def numbers(record: SlideRecord) -> dict[str, float]:
    """Return the fields that a numeric comparison can pass, under the names of `number_name`, as Python reads them."""
    found = {}
    named = {(name, False): text for name, text in {"id": record.id, **texts(record)}.items()}
    for (name, free), text in {**named, **{(name, True): text for name, text in record.columns.items()}}.items():
        try:
            value = float(text)
        except ValueError:
            continue
        if value == value:  # no comparison with NaN holds
            found[number_name(name, free)] = value
    return found


def number_name(name: str, free: bool) -> str:
    """Return the name of a numeric field: letters and digits only, whatever the manifest calls it."""
    return f"n{int(free)}{name.encode().hex()}"


def revision(after: int | None) -> int:
    """Return the token of a new save: the time in ms, later than the saved one whatever the clock says."""
    return max(int(time.time() * 1000), (after or 0) + 1)


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield items in lists of at most `size`."""
    several = iter(items)
    while batch := list(islice(several, size)):
        yield batch


def completed(ask: Any, k: int, slack: float = 0.0) -> list[tuple[float, Any]]:
    """Return candidates that include the k nearest and all that may be as near as the k-th.

    ask: from a number n to the n nearest as (distance, item), ordered by distance alone. slack: error of a distance.
    """
    count = k + 16
    while True:
        found: list[tuple[float, Any]] = ask(count)
        if len(found) < count or found[-1][0] > found[k - 1][0] + slack:
            return found
        count *= 4


def nearest(pairs: Iterable[tuple[str, float]], k: int) -> Near:
    """Return the k nearest pairs, equal distances by id."""
    return sorted(pairs, key=lambda pair: (pair[1], pair[0]))[:k]


def total_of(seals: Iterable[Seals]) -> int:
    """Return the sum that stands for the seals of all slides."""
    return sum(code + record for code, record in seals) % 2**63


def as_float64(values: Any) -> Float64:
    """Return distances as an array."""
    return np.asarray(values, np.float64)
