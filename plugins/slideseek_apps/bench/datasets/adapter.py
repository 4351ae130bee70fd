"""What a kind of data implements."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from slideseek.plugins import Registry
from slideseek_apps.bench.datasets.dataset import Source


@runtime_checkable
class Adapter(Protocol):
    """Read one kind of data. An adapter is a dataclass whose fields are its options.

    The field `path` is where the data is. An adapter may also implement `RecognisingAdapter`, so that `--dataset` can
    be left out.
    """

    def load(self, registry: Registry) -> Source:
        """Find the slides, what is true of them, and their features.

        registry: the installed plugins, for data that names components, as the engines of an archive do. A file or row
        that cannot be used is a `Problem` of the source; data that cannot be used at all is a `SlideseekError`.
        """
        ...


@runtime_checkable
class RecognisingAdapter(Adapter, Protocol):
    """An adapter that can say whether data is of its kind."""

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Say whether the file or folder at `path` is of this kind.

        Look at names only, or at the first bytes of a file: every adapter is asked before any data is read. Say no when
        in doubt: a path that two adapters recognise needs `--dataset`.
        """
        ...
