"""Prototypes: a Gaussian mixture adapted to each slide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from slideseek.errors import NotFittedError, SlideseekError
from slideseek.interfaces import Trainable
from slideseek.types import Bag, Code, CodeSpec, Float32, Float64
from slideseek_components.encoders.bags import canonical_chunks, finite_features
from slideseek_components.encoders.blas_threads import one_blas_thread
from slideseek_components.encoders.mixture import Mixture
from slideseek_components.encoders.model_file import (
    Facts,
    Layout,
    check_positive,
    deciding_options,
    read_model,
    whole_number,
    write_model,
)
from slideseek_components.encoders.normalise import unit
from slideseek_components.encoders.sample import sample_patches

_PARTS = ("shift", "scale", "axes", "weights", "means", "variances")


@dataclass
class Prototypes(Trainable):
    """Adapt a Gaussian mixture of all slides to each slide; the code is its weights, means and variances.

    After Song, Chen, Ding, Williams, Jaume and Mahmood, "Morphological prototyping for unsupervised slide
    representation learning in computational pathology" (CVPR 2024, PANTHER). The prototypes are the Gaussians of a
    mixture fitted to the training patches, without labels. For each slide a few steps of expectation maximisation start
    from them; the prototypes count as `prior` patches each, so a Gaussian that no patch of the slide belongs to stays
    as it was.

    components: prototypes K. pca: dimensions kept by PCA before the mixture, 0 for none. steps: of expectation
    maximisation per slide. prior: weight of the prototypes, in patches. centre: subtract the prototypes' own weights,
    means and variances, which all slides have in common; false as in the paper. l2: unit length. standardise: zero mean
    and unit variance per feature. patches: most training patches to sample. iterations: of the mixture's fit.
    """

    code_revision: ClassVar[int] = 1

    components: int = 16
    pca: int = 0
    steps: int = 1
    prior: float = 10.0
    centre: bool = True
    l2: bool = True
    standardise: bool = True
    patches: int = 100_000
    iterations: int = 100
    seed: int = 0
    mixture_: Mixture | None = field(init=False, repr=False, compare=False, default=None)

    name: ClassVar[str] = "prototypes"

    def __post_init__(self) -> None:
        for option, least in (("components", 1), ("pca", 0), ("steps", 1), ("patches", 1), ("iterations", 1)):
            if getattr(self, option) < least:
                raise ValueError(f"{option}: at least {least}, not {getattr(self, option)}")
        if self.seed < 0:
            raise ValueError(f"seed: at least 0, not {self.seed}")
        if not 0 < self.prior < float("inf"):
            raise ValueError(f"prior: a number above 0, not {self.prior}")

    def spec(self, width: int) -> CodeSpec:
        """Return one row of K * (1 + 2 d) floats, d the number of features or of PCA dimensions."""
        if self.pca > width:
            raise SlideseekError(f"pca = {self.pca} is more than the {width} features", "set pca lower")
        return CodeSpec("float", self.components * (1 + 2 * (self.pca or width)))

    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        """Fit the mixture on a seeded sample of the training patches; labels and groups are not used."""
        found = sample_patches(bags, self.patches, self.seed).get("")
        least = max(self.components, self.pca)
        if found is None or len(found) < least:
            raise SlideseekError(
                f"the training slides have {0 if found is None else len(found)} patches, {self.name} needs at least "
                f"{least}",
                "add slides, or lower components (and pca)",
            )
        self.spec(found.shape[1])
        self.mixture_ = Mixture.fit(found, self.components, self.pca, self.standardise, self.iterations, self.seed)

    def encode(self, bag: Bag) -> Code:
        """Return the slide's mixture as float32 (1, width of the spec): K weights, K * d means, K * d variances."""
        if self.mixture_ is None:
            raise NotFittedError(self.name)
        features = finite_features(bag, len(self.mixture_.shift))
        own = self.mixture_
        for _ in range(self.steps):
            own = self._step(self.mixture_, own, features)
        row = _vector(own) - _vector(self.mixture_) if self.centre else _vector(own)
        return Code(bag.slide_id, (unit(row) if self.l2 else row).astype(np.float32)[None])

    def _step(self, prior: Mixture, own: Mixture, features: Float32) -> Mixture:
        """Return `own` after one step on the slide's patches, towards `prior` where there are few of them."""
        s0, s1, s2 = np.zeros(self.components), np.zeros(own.shape), np.zeros(own.shape)
        with one_blas_thread():
            for _, rows in canonical_chunks(features):
                for total, part in zip((s0, s1, s2), own.moments(own.project(rows))):
                    total += part
        count, tau = s0[:, None], self.prior
        means = (tau * prior.means + s1) / (tau + count)
        spread = tau * (prior.variances + prior.means**2) + s2 - (tau + count) * means**2
        # The prior keeps variances above 0; rounding may not.
        variances = np.maximum(spread / (tau + count), 1e-6 * prior.variances)
        weights = (tau * self.components * prior.weights + s0) / (tau * self.components + len(features))
        return replace(own, weights=weights, means=means, variances=variances)

    def save(self, folder: Path) -> None:
        """Write the prototypes into the existing empty `folder`."""
        if self.mixture_ is None:
            raise NotFittedError(self.name)
        tensors = {part: getattr(self.mixture_, part) for part in _PARTS}
        write_model(folder, self.name, deciding_options(self), {"width": len(self.mixture_.shift)}, tensors)

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote."""
        _, tensors = read_model(folder, self.name, deciding_options(self), self._layout)
        check_positive(folder, tensors, ("scale", "weights", "variances"))
        self.mixture_ = Mixture(*(tensors[part] for part in _PARTS))

    def _layout(self, facts: Facts) -> Layout:
        width, k = whole_number(facts, "width"), self.components
        d = self.pca or width
        shapes = {"shift": (width,), "scale": (width,), "axes": (self.pca, width)}
        shapes |= {"weights": (k,), "means": (k, d), "variances": (k, d)}
        return {part: (shapes[part], "float64") for part in _PARTS}


def _vector(mixture: Mixture) -> Float64:
    return np.concatenate([mixture.weights, mixture.means.ravel(), mixture.variances.ravel()])
