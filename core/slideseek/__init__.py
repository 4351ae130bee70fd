"""slideseek: a plugin-based search engine framework for whole-slide images.

    import slideseek

    archive = slideseek.open("my-archive")
    archive.search("S-001", k=5)

Importing the package loads nothing heavy: each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slideseek.version import __version__

if TYPE_CHECKING:
    from slideseek.api import OpenArchive as OpenArchive
    from slideseek.api import create_archive as create
    from slideseek.api import open_archive as open  # noqa: A004 - `slideseek.open` reads as it should
    from slideseek.searching.request import Request as Request

__all__ = ["OpenArchive", "Request", "__version__", "create", "open"]

_LAZY = {
    "OpenArchive": ("slideseek.api", "OpenArchive"),
    "create": ("slideseek.api", "create_archive"),
    "open": ("slideseek.api", "open_archive"),
    "Request": ("slideseek.searching.request", "Request"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'slideseek' has no attribute {name!r}")
    import importlib

    module, attribute = _LAZY[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return __all__
