"""The rules of a benchmark protocol: queries, candidates, targets, and what an encoder may learn from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

LeaveOut: TypeAlias = Literal["patient", "center"]
Fit: TypeAlias = Literal["folds", "split", "none"]
Candidates: TypeAlias = Literal["auto", "all", "training", "test"]


@dataclass(frozen=True, slots=True)
class Protocol:
    """One `[[protocol]]` table.

    mode: `vertical` searches for the label among slides of the query's site, `horizontal` for the site among all
    slides; bags then come without their site, which is the answer. leave_out: a hit is never of the query's patient;
    `center` leaves the query's acquisition centre out as well, also in fitting. fit: `folds` deals patients into
    `folds` parts (0: one part per patient) and fits one model per part on all the others; `split` fits on the training
    side of a fixed split; `none` fits nothing and refuses encoders that learn. split: a CSV with `slide_id` and `split`
    (`train`, `test`), instead of the split of the dataset. test: share of the patients drawn as the test side, instead
    of a fixed split. candidates: `all` slides, those on the `training` side, or those on the `test` side; `auto` is all
    with folds and the training side with a split. k: hits kept per query.
    """

    name: str
    mode: Literal["vertical", "horizontal"] = "vertical"
    leave_out: LeaveOut = "patient"
    fit: Fit = "folds"
    folds: int = 5
    split: Path | None = None
    test: float = 0.0
    candidates: Candidates = "auto"
    k: int = 10

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name: one or more characters, not ''")
        if self.folds < 0 or self.folds == 1:
            raise ValueError(f"folds: 0 (one per patient) or at least 2, not {self.folds}")
        if self.k < 1:
            raise ValueError(f"k: at least 1, not {self.k}")
        if not 0 <= self.test < 1:
            raise ValueError(f"test: at least 0 and below 1, not {self.test}")
        if (self.test or self.split) and self.fit != "split":
            raise ValueError(f"fit: 'split' where test or split is set, not {self.fit!r}")
        if self.test and self.split:
            raise ValueError("test: not together with split, which already gives the sides")
        if self.fit == "none" and self.candidates not in ("auto", "all"):
            raise ValueError(f"candidates: all where fit is 'none', not {self.candidates!r}")

    @property
    def target(self) -> Literal["label", "site"]:
        """The field of a slide that hits should share with the query."""
        return "label" if self.mode == "vertical" else "site"

    @property
    def among(self) -> Literal["all", "training", "test"]:
        """The candidates, with `auto` resolved."""
        if self.candidates != "auto":
            return self.candidates
        return "training" if self.fit == "split" else "all"
