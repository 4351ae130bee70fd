"""A codebook of visual words, which BoVW and VLAD learn, save and load in the same way."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from slideseek.errors import NotFittedError, SlideseekError
from slideseek.interfaces import Trainable
from slideseek.types import Bag, Float32, Float64, Int64
from slideseek_components.encoders.blas_threads import one_blas_thread
from slideseek_components.encoders.model_file import (
    Facts,
    Layout,
    check_positive,
    deciding_options,
    read_model,
    whole_number,
    write_model,
)
from slideseek_components.encoders.sample import sample_patches


@dataclass
class Codebook(Trainable):
    """Words found by k-means among standardised training patches.

    words: number of words, K. standardise: zero mean and unit variance per feature. patches: most training patches
    to sample. power: signed square root. l2: unit length.
    """

    code_revision: ClassVar[int] = 1

    words: int = 16
    standardise: bool = True
    patches: int = 100_000
    power: bool = True
    l2: bool = True
    seed: int = 0
    shift_: Float64 = field(init=False, repr=False, compare=False, default_factory=lambda: np.empty(0))
    scale_: Float64 = field(init=False, repr=False, compare=False, default_factory=lambda: np.empty(0))
    centres_: Float64 = field(init=False, repr=False, compare=False, default_factory=lambda: np.empty((0, 0)))

    name: ClassVar[str]

    def __post_init__(self) -> None:
        for option, least in (("words", 1), ("patches", 1), ("seed", 0)):
            if getattr(self, option) < least:
                raise ValueError(f"{option}: at least {least}, not {getattr(self, option)}")

    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        """Find the words in a seeded sample of the training patches; labels and groups are not used."""
        found = sample_patches(bags, self.patches, self.seed)
        if not found or len(found[""]) < self.words:
            raise SlideseekError(
                f"the training slides have {len(found.get('', ()))} patches, {self.name} needs at least {self.words}",
                "add slides, or lower words",
            )
        patches = found[""].astype(np.float64)
        shift, scale = np.zeros(patches.shape[1]), np.ones(patches.shape[1])
        if self.standardise:
            shift, scale = patches.mean(axis=0), patches.std(axis=0)
            scale[scale == 0] = 1.0
        with one_blas_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct patches than words is allowed
            model = KMeans(self.words, n_init=4, random_state=self.seed).fit((patches - shift) / scale)
        self.shift_, self.scale_, self.centres_ = shift, scale, model.cluster_centers_

    @property
    def width(self) -> int:
        """Width of the features."""
        if not len(self.centres_):
            raise NotFittedError(self.name)
        return int(self.centres_.shape[1])

    def nearest(self, features: Float32) -> tuple[Float64, Int64]:
        """Return the standardised points, float64 (n, width), and the number of each one's nearest word, (n,)."""
        y = (features.astype(np.float64) - self.shift_) / self.scale_
        with one_blas_thread():
            return y, (np.square(self.centres_).sum(axis=1) - 2.0 * (y @ self.centres_.T)).argmin(axis=1)

    def save(self, folder: Path) -> None:
        """Write the words into the existing empty `folder`."""
        facts: Facts = {"width": self.width}
        tensors = {"shift": self.shift_, "scale": self.scale_, "centres": self.centres_}
        write_model(folder, self.name, deciding_options(self), facts, tensors)

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote."""
        _, tensors = read_model(folder, self.name, deciding_options(self), self._layout)
        check_positive(folder, tensors, ["scale"])
        self.shift_, self.scale_, self.centres_ = tensors["shift"], tensors["scale"], tensors["centres"]

    def _layout(self, facts: Facts) -> Layout:
        width = whole_number(facts, "width")
        return {
            "shift": ((width,), "float64"),
            "scale": ((width,), "float64"),
            "centres": ((self.words, width), "float64"),
        }
