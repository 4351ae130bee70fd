"""The URL of a slide that lies elsewhere, such as `s3://bucket/slide.svs`, as a path."""

from __future__ import annotations

import re
from pathlib import Path, PosixPath
from typing import Any, Self

_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]+:", re.IGNORECASE)


class RemotePath(PosixPath):
    """A URL as a path: `name`, `stem` and `suffix` are those of its last part, and its text is the URL."""

    def __str__(self) -> str:
        # A path has no double slash: after the scheme it is put back. `idc:tcga_brca` has none.
        scheme, slash, rest = super().__str__().partition(":/")
        return f"{scheme}://{rest}" if slash else scheme

    def exists(self, **_: Any) -> bool:
        """Return True: only a look-up can tell, and it is made when the slide is used."""
        return True

    def resolve(self, strict: bool = False) -> Self:
        """Return the path itself."""
        return self


def located(text: str | Path) -> Path:
    """Return what a user names: a file, or with a scheme (`s3://...`, `idc:...`) something elsewhere."""
    if isinstance(text, RemotePath):
        return text
    path = Path(str(text).removeprefix("file://"))
    return RemotePath(str(text).rstrip("/*")) if _SCHEME.match(str(path)) and not path.exists() else path
