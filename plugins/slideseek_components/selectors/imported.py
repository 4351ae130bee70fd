"""Patches selected elsewhere and imported with their features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slideseek.errors import SlideError
from slideseek.interfaces import ImportedPatches, Slide
from slideseek.types import Patches


@dataclass
class Imported(ImportedPatches):
    """Represents patches imported with 'slideseek import'; nothing can be selected with it.

    set: name of the set, as given to 'slideseek import --set'.
    """

    code_revision: ClassVar[int] = 1

    set: str

    def __post_init__(self) -> None:
        if not self.set.strip():
            raise ValueError(f"set: must be the name of an imported set, not {self.set!r}")

    @property
    def imported_set(self) -> str:
        """Name of the imported set."""
        return self.set

    def select(self, slide: Slide) -> Patches:
        """Raise an error: a slide with imported patches is never selected again."""
        raise SlideError(
            f"the features of set {self.set!r} were imported; slide {slide.id!r} has none",
            "import them with 'slideseek import'",
        )
