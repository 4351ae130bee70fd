"""Find the slide of a feature file by name, as rows of a manifest are matched to slide files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import unquote

from slideseek.archive.files import safe_name

Item = TypeVar("Item")


def slide_name(file: Path) -> str:
    """Return the slide name of a feature file: its stem, or the slide id if an export wrote it."""
    plain = unquote(file.stem)
    return plain if safe_name(plain) == file.stem else file.stem


class ByName(Generic[Item]):
    """Find slides, or rows of a manifest, by the name of a feature file.

    The id comes first, then the stem of the slide's file, then the part before the first dot of either, because names
    may carry a suffix such as a UUID.
    """

    def __init__(self, items: Iterable[Item], id_of: Callable[[Item], str], path_of: Callable[[Item], str]) -> None:
        self._levels: tuple[dict[str, list[Item]], ...] = tuple(defaultdict(list) for _ in range(3))
        for item in items:
            file = Path(path_of(item))
            self._levels[0][id_of(item)].append(item)
            self._levels[1][file.stem].append(item)
            for short in {id_of(item).partition(".")[0], file.name.partition(".")[0]}:
                self._levels[2][short].append(item)

    def find(self, name: str) -> Sequence[Item]:
        """Return the best match: several only when nothing distinguishes them."""
        for level in self._levels:
            if found := level.get(name):
                return found
        return self._levels[2].get(name.partition(".")[0], ())
