"""Codes in PostgreSQL with the pgvector extension, on one server or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from slideseek.errors import PluginError
from slideseek.interfaces import MeasuresSets
from slideseek.types import CodeSpec, Float64

from .hamming import Hamming
from .median_of_minima import DIRECTIONS, Direction
from .remote import RemoteIndex
from .shards import Shard

try:
    from .postgres_shard import SERVICE, VARIABLE, Connections, Limits, PostgresShard
except ImportError as missing:
    raise PluginError("index 'pgvector' needs the psycopg library", "pip install 'slideseek[pgvector]'") from missing

MOST_FLOATS = 16_000
MOST_HNSW_BITS = 64_000
MOST_HNSW_FLOATS = 2_000


@dataclass
class PgVector(RemoteIndex, MeasuresSets):
    """Search codes in PostgreSQL: the hits of `hamming` and `cosine`, with equal distances by slide id.

    shards: one per server, the environment variable that holds its connection string or `service:NAME` of a service
    file; never the string itself. Slides are spread over them; all are asked at once. schema: where tables are
    created. seconds: time limit of a statement of a search. hnsw: candidates an approximate search inspects; 0, the
    default, compares all codes. direction: as in `hamming`, for sets of barcodes.
    """

    name: ClassVar[str] = "pgvector"
    shards: tuple[str, ...] = ("SLIDESEEK_POSTGRES",)
    schema: str = "slideseek"
    seconds: float = 30.0
    hnsw: int = 0
    direction: Direction = field(default="query", metadata={"at_query": True})
    pools_: dict[str, Connections] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.shards or len(set(self.shards)) != len(self.shards):
            raise ValueError(f"shards: at least one, and each once, not {len(self.shards)}")
        for number, source in enumerate(self.shards, start=1):
            if not VARIABLE.fullmatch(source.removeprefix(SERVICE)):  # not quoted: it may hold a password
                raise ValueError(
                    f"shards: number {number} is not the name of an environment variable, nor service:NAME; a"
                    " connection string belongs into the environment"
                )
        if not VARIABLE.fullmatch(self.schema) or self.schema != self.schema.lower():
            raise ValueError(f"schema: small letters, digits and underscores, not {self.schema!r}")
        if not 0 < self.seconds <= 3600:
            raise ValueError(f"seconds: above 0, at most 3600, not {self.seconds}")
        if not 0 <= self.hnsw <= 1000:
            raise ValueError(f"hnsw: 0 to 1000, not {self.hnsw}")
        if self.direction not in DIRECTIONS:
            raise ValueError(f"direction: one of {', '.join(DIRECTIONS)}, not {self.direction!r}")

    @property
    def exact(self) -> bool:
        """Whether all codes are compared."""
        return not self.hnsw

    @property
    def taken_over(self) -> Direction:
        """Which set the median of minima is taken over."""
        return self.direction

    @property
    def patience(self) -> float:
        """Seconds until a server that does not answer at all counts as down."""
        return self.seconds + 2

    def refuses(self, spec: CodeSpec) -> str:
        """Accept bits, single or sets, and single floats, dense or sparse."""
        if spec.many and (spec.kind != "bits" or self.hnsw):
            return f"pgvector compares sets of bits, without hnsw, not {spec}: use {_local(spec)}"
        if spec.kind == "float" and spec.width > MOST_FLOATS:
            return f"PostgreSQL stores vectors of at most {MOST_FLOATS} floats, not {spec}: use cosine"
        most = MOST_HNSW_BITS if spec.kind == "bits" else MOST_HNSW_FLOATS
        if self.hnsw and (spec.kind == "sparse" or spec.width > most):
            return f"hnsw takes at most {MOST_HNSW_BITS} bits or {MOST_HNSW_FLOATS} floats, not {spec}: set hnsw = 0"
        return ""

    def set_distance(self, between: Float64) -> float:
        """Return the median of minima of the row distances `between`, float64 (query rows, target rows)."""
        return Hamming(direction=self.direction).set_distance(between)

    def shards_of(self, place: str) -> Sequence[Shard]:
        """Return the table of each server."""
        limits = Limits(self.schema, self.seconds, self.hnsw)
        pools = [self.pools_.setdefault(source, Connections(source)) for source in self.shards]
        return [PostgresShard(pool.source, place, limits, pool) for pool in pools]


def _local(spec: CodeSpec) -> str:
    return "hamming" if spec.kind == "bits" else "cosine"
