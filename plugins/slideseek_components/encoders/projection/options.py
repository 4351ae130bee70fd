"""The options of a projection and of the bits that follow it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Kind: TypeAlias = Literal["none", "whitening", "discriminant"]
By: TypeAlias = Literal["label", "site", "both"]
Binarise: TypeAlias = Literal["sign", "hyperplanes", "itq"]


@dataclass(frozen=True)
class ProjectorOptions:
    """How a float code is projected and binarised.

    kind: `none` keeps the directions in which training slides differ, `whitening` gives them equal variance,
    `discriminant` equal variance within classes and less weight where classes do not differ. by: what a class is.
    shrinkage: of the covariance within classes, 0 for the usual 0.1. unprojected: the weight that the code has as it
    was, beside the projected one; -1 chooses it by validation. dimensions: most coordinates. bits: 0 for float codes.
    binarise: how coordinates become bits. seed: of planes, rotations and validation. outside: how much the directions
    count in which no training slide differs, 1 as much as in the code as it was; `sign` and `itq` have none.
    """

    kind: Kind = "discriminant"
    by: By = "both"
    shrinkage: float = 0.0
    unprojected: float = -1.0
    dimensions: int = 512
    bits: int = 5000
    binarise: Binarise = "hyperplanes"
    seed: int = 0
    outside: float = 1.0

    def __post_init__(self) -> None:
        for name, allowed in (("kind", Kind), ("by", By), ("binarise", Binarise)):
            if getattr(self, name) not in get_args(allowed):
                option = "projection" if name == "kind" else name
                raise ValueError(f"{option}: one of {', '.join(get_args(allowed))}, not {getattr(self, name)!r}")
        if not 0 <= self.shrinkage <= 1:
            raise ValueError(f"shrinkage: above 0 and at most 1, or 0 for the usual one, not {self.shrinkage}")
        if self.unprojected != -1 and not 0 <= self.unprojected < math.inf:
            raise ValueError(f"unprojected: at least 0, or -1 to choose it by validation, not {self.unprojected}")
        if not 0 <= self.outside < math.inf:
            raise ValueError(f"outside: at least 0, not {self.outside}")
        for name, least in (("dimensions", 1), ("bits", 0), ("seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: at least {least}, not {getattr(self, name)}")
        if self.binarise == "sign" and self.bits > self.dimensions:
            raise ValueError(
                f"bits: at most dimensions = {self.dimensions} with binarise = 'sign', not {self.bits}; "
                "'hyperplanes' and 'itq' make any number"
            )
