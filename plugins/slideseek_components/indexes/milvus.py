"""Codes of bits in Milvus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

from slideseek.errors import PluginError
from slideseek.types import CodeSpec

from .remote import RemoteIndex
from .shards import Shard

try:
    from .milvus_shard import Access, MilvusShard
except ImportError as missing:
    raise PluginError("index 'milvus' needs the pymilvus library", "pip install 'slideseek[milvus]'") from missing

Consistency: TypeAlias = Literal["Strong", "Bounded", "Eventually"]

MOST_BITS = 32_768


@dataclass
class Milvus(RemoteIndex):
    """Search bits in Milvus: the hits of `hamming`, with equal distances by slide id; at most 32,768 bits.

    server: the environment variable that holds the address of the server. token: the one that holds `user:password`,
    if the server asks for it. consistency: of a search. `Bounded` may lag seconds behind on a cluster, so what was
    saved within the last ten seconds is searched with `Strong`, which waits for the server's clock (about 0.2 s).
    seconds: time limit of a search.
    """

    name: ClassVar[str] = "milvus"
    server: str = "SLIDESEEK_MILVUS"
    token: str = "SLIDESEEK_MILVUS_TOKEN"
    consistency: Consistency = "Bounded"
    seconds: float = 4.0

    def __post_init__(self) -> None:
        for option in ("server", "token"):
            if not getattr(self, option).isidentifier():  # not quoted: it may hold a password
                raise ValueError(f"{option}: the name of an environment variable; what it holds stays there")
        if self.consistency not in get_args(Consistency):
            raise ValueError(f"consistency: one of {', '.join(get_args(Consistency))}, not {self.consistency!r}")
        if not 0 < self.seconds <= 3600:
            raise ValueError(f"seconds: above 0, at most 3600, not {self.seconds}")

    @property
    def patience(self) -> float:
        """Seconds until a server that does not answer counts as down."""
        return 2 * self.seconds + 65 if self.saved_ is None else self.seconds + 1

    def refuses(self, spec: CodeSpec) -> str:
        """Accept single codes of at most 32,768 bits."""
        if spec.kind != "bits":
            return f"milvus stores bits here, not {spec}: use cosine or pgvector"
        if spec.many:
            return f"milvus stores one code per slide, not {spec}: use hamming or pgvector"
        return f"Milvus stores at most {MOST_BITS} bits, not {spec.width}" if spec.width > MOST_BITS else ""

    def shards_of(self, place: str) -> Sequence[Shard]:
        """Return the collection."""
        return [MilvusShard(Access(self.server, self.token, self.seconds, self.consistency), place)]
