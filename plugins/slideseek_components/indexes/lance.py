"""Codes in a Lance table, in a folder or an object store, without a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from slideseek.errors import PluginError
from slideseek.types import CodeSpec

from .remote import RemoteIndex
from .shards import Shard

try:
    from .lance_shard import LanceShard
except ImportError as missing:
    raise PluginError("index 'lance' needs the lancedb library", "pip install 'slideseek[lance]'") from missing


@dataclass
class Lance(RemoteIndex):
    """Search bits in a Lance table: the hits of `hamming`, with equal distances by slide id.

    uri: a folder or a place in an object store (`s3://bucket/folder`, `gs://`, `az://`). endpoint: address of an
    object store that is not the provider's own. region: of the object store. Keys come from the environment
    (`AWS_ACCESS_KEY_ID` and so on), never from the configuration. seconds: time limit of a search.
    """

    name: ClassVar[str] = "lance"
    uri: str = ""
    endpoint: str = ""
    region: str = ""
    seconds: float = 60.0

    def __post_init__(self) -> None:
        if "@" in self.uri or "?" in self.uri:  # not quoted: it may hold a key
            raise ValueError("uri: an absolute folder or s3://BUCKET/FOLDER, without a key in it")
        if self.uri and "://" not in self.uri and not Path(self.uri).is_absolute():
            raise ValueError(f"uri: an absolute folder or s3://BUCKET/FOLDER, not {self.uri!r}")
        if not 0 < self.seconds <= 3600:
            raise ValueError(f"seconds: above 0, at most 3600, not {self.seconds}")

    @property
    def patience(self) -> float:
        """Seconds until a store that does not answer counts as down."""
        return self.seconds

    def refuses(self, spec: CodeSpec) -> str:
        """Accept single codes of bits, once it is known where to keep them."""
        if not self.uri:
            return "uri is not set: name an absolute folder or s3://BUCKET/FOLDER"
        if spec.kind != "bits":
            return f"lance stores bits, not {spec}: use cosine or pgvector"
        return f"lance stores one code per slide, not {spec}: use hamming or pgvector" if spec.many else ""

    def shards_of(self, place: str) -> Sequence[Shard]:
        """Return the table."""
        options = {"aws_region": self.region} if self.region else {}
        if self.endpoint:
            options |= {"aws_endpoint": self.endpoint}
            if self.endpoint.startswith("http://"):
                options |= {"allow_http": "true"}
        return [LanceShard(self.uri, place, options)]
