"""Features computed elsewhere and imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slideseek.archive.features import MAX_WIDTH
from slideseek.errors import SlideError
from slideseek.types import Float32, UInt8


@dataclass
class Imported:
    """Represents features imported with 'slideseek import'; no image can be featurized with it.

    set: name of the set, as given to 'slideseek import --set'. width: length of one feature vector.
    """

    code_revision: ClassVar[int] = 1

    set: str
    width: int

    def __post_init__(self) -> None:
        if not self.set.strip():
            raise ValueError(f"set: must be the name of an imported set, not {self.set!r}")
        if not 1 <= self.width <= MAX_WIDTH:
            raise ValueError(f"width: must be from 1 to {MAX_WIDTH}, not {self.width}")

    def featurize(self, images: UInt8) -> Float32:
        """Raise an error: the network behind the imported features is unknown. An empty batch is allowed."""
        if not len(images):
            return np.zeros((0, self.width), np.float32)
        raise SlideError(
            f"the features of set {self.set!r} were imported, so new images cannot be featurized",
            "import them with 'slideseek import'",
        )
