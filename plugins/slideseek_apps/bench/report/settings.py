"""The options of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from slideseek.searching.votes import TIE_RULES, TieRule
from slideseek_apps.bench.bootstrap import RESAMPLES
from slideseek_apps.bench.measures import DIVISORS, Divisor
from slideseek_apps.bench.paired_test import PERMUTATIONS


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """Options of a report.

    ap_divisor: None takes `min(k, relevant)` where the lists allow it, else `hits`. against: compare every variant with
    this one only; "" compares all pairs where there are few variants.
    """

    k: int = 3
    tie: TieRule = "nearest"
    ap_divisor: Divisor | None = None
    against: str = ""
    resamples: int = RESAMPLES
    permutations: int = PERMUTATIONS

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"k: at least 1, not {self.k}")
        if self.tie not in TIE_RULES:
            raise ValueError(f"tie: one of {', '.join(TIE_RULES)}, not {self.tie!r}")
        if self.ap_divisor is not None and self.ap_divisor not in DIVISORS:
            raise ValueError(f"ap_divisor: one of {', '.join(DIVISORS)}, not {self.ap_divisor!r}")
        if self.resamples < 100 or self.permutations < 99:
            raise ValueError(f"resamples, permutations: at least 100 and 99, not {self.resamples}, {self.permutations}")


def as_tie(name: str) -> TieRule:
    """Return a tie rule by its name, which `ReportSettings` checks."""
    return cast("TieRule", name)


def as_divisor(name: str | None) -> Divisor | None:
    """Return a divisor by its name, which `ReportSettings` checks."""
    return cast("Divisor | None", name)
