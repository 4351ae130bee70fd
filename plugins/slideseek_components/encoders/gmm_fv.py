"""The Fisher vector of a Gaussian mixture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from slideseek.errors import NotFittedError, SlideseekError
from slideseek.interfaces import Attributable, Trainable
from slideseek.types import Bag, Code, CodeSpec, Float32, Float64
from slideseek_components.encoders.attribution import directions
from slideseek_components.encoders.bags import canonical_chunks, finite_features
from slideseek_components.encoders.blas_threads import one_blas_thread
from slideseek_components.encoders.mixture import Mixture
from slideseek_components.encoders.model_file import (
    Facts,
    Layout,
    check_positive,
    deciding_options,
    read_model,
    sorted_names,
    whole_number,
    write_model,
)
from slideseek_components.encoders.normalise import signed_root, unit
from slideseek_components.encoders.sample import sample_patches

Block = Literal["weights", "means", "variances"]
_PARTS = ("shift", "scale", "axes", "weights", "means", "variances")


@dataclass
class GmmFisher(Trainable, Attributable):
    """Improved Fisher vector: the gradient of a set's likelihood under a diagonal Gaussian mixture.

    Perronnin, Sánchez, Mensink, "Improving the Fisher kernel for large-scale image classification" (ECCV 2010).
    One mixture is used for all slides. The blocks are in the order weights, means, variances.

    components: Gaussians K. pca: dimensions kept by PCA before the mixture, 0 for none. blocks: which gradients the
    code contains. power: signed square root. l2: unit length. standardise: zero mean and unit variance per feature,
    which makes features comparable for the k-means start and the variance floor. patches: most training patches to
    sample. iterations: of expectation maximisation.
    """

    code_revision: ClassVar[int] = 1

    components: int = 8
    pca: int = 0
    blocks: tuple[Block, ...] = ("means", "variances")
    power: bool = True
    l2: bool = True
    standardise: bool = True
    patches: int = 100_000
    iterations: int = 100
    seed: int = 0
    width_: int = field(init=False, repr=False, compare=False, default=0)
    mixtures_: dict[str, Mixture] = field(init=False, repr=False, compare=False, default_factory=dict)

    name: ClassVar[str] = "gmm-fv"
    by_site: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for option, least in (("components", 1), ("pca", 0), ("patches", 1), ("iterations", 1), ("seed", 0)):
            if getattr(self, option) < least:
                raise ValueError(f"{option}: at least {least}, not {getattr(self, option)}")
        self.blocks = tuple(self.blocks)
        if not self.blocks or not set(self.blocks) <= {"weights", "means", "variances"}:
            raise ValueError(f"blocks: one or more of weights, means, variances, not {self.blocks!r}")
        if len(set(self.blocks)) != len(self.blocks):
            raise ValueError(f"blocks: each at most once, not {self.blocks!r}")

    def spec(self, width: int) -> CodeSpec:
        """Return one row of K floats for the weights and K * d for the means and the variances each."""
        if self.pca > width:
            raise SlideseekError(f"pca = {self.pca} is more than the {width} features", "set pca lower")
        wide = ("means" in self.blocks) + ("variances" in self.blocks)
        return CodeSpec("float", self.components * (("weights" in self.blocks) + wide * (self.pca or width)))

    def space_of(self, bag: Bag) -> str:
        """Return the name of the mixture that encodes `bag`, which is also the space of its code."""
        return ""

    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        """Fit the mixtures on a seeded sample of the training patches; labels and groups are not used."""
        samples = sample_patches(bags, self.patches, self.seed, self.space_of)
        if not samples:
            raise SlideseekError(
                f"{self.name} cannot be fitted: no training slide has patches", "add slides with patches"
            )
        least, mixtures, width = max(self.components, self.pca), {}, 0
        for space, patches in samples.items():
            if len(patches) < least:
                where = f"the training slides of site {space!r} have" if space else "the training slides have"
                raise SlideseekError(
                    f"{where} {len(patches)} patches, {self.name} needs at least {least}",
                    "add slides, or lower components (and pca)",
                )
            width = patches.shape[1]
            self.spec(width)
            mixtures[space] = Mixture.fit(
                patches, self.components, self.pca, self.standardise, self.iterations, self.seed
            )
        self.width_, self.mixtures_ = width, mixtures

    def encode(self, bag: Bag) -> Code:
        """Return the Fisher vector as float32 (1, width of the spec), with the same bits for any patch order."""
        return self._rounded(bag, self.vector(bag))

    def vector(self, bag: Bag) -> Float64:
        """Return the Fisher vector before it is rounded to float32: float64 (width of the spec,)."""
        return self._normalised(self._raw(self._mixture(bag), finite_features(bag, self.width_)))

    def contributions(self, bag: Bag, code: Code) -> Float64:
        """Split the cosine of the bag's code and `code` over the patches; see `Attributable`."""
        mixture = self._mixture(bag)
        features = finite_features(bag, self.width_)
        raw = self._raw(mixture, features)
        mine = self._rounded(bag, self._normalised(raw))
        towards = self._blocks(mixture, directions(bag, mine, raw, code))
        parts = np.empty(len(bag))
        with one_blas_thread():
            for rows, chunk in canonical_chunks(features):
                parts[rows] = mixture.project_scores(mixture.project(chunk), towards, len(bag))
        return parts

    def save(self, folder: Path) -> None:
        """Write the mixtures into the existing empty `folder`."""
        if not self.mixtures_:
            raise NotFittedError(self.name)
        spaces = sorted(self.mixtures_)
        facts: Facts = {"width": self.width_, "spaces": spaces}
        tensors = {f"{part}.{i}": getattr(self.mixtures_[s], part) for i, s in enumerate(spaces) for part in _PARTS}
        write_model(folder, self.name, deciding_options(self), facts, tensors)

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote."""
        facts, tensors = read_model(folder, self.name, deciding_options(self), self._layout)
        divisors = ("scale", "weights", "variances")
        check_positive(folder, tensors, [f"{part}.{i}" for i in range(len(facts["spaces"])) for part in divisors])
        self.mixtures_ = {
            space: Mixture(*(tensors[f"{part}.{i}"] for part in _PARTS)) for i, space in enumerate(facts["spaces"])
        }
        self.width_ = facts["width"]

    def _layout(self, facts: Facts) -> Layout:
        width, k = whole_number(facts, "width"), self.components
        d = self.pca or width
        shapes = {"shift": (width,), "scale": (width,), "axes": (self.pca, width)}
        shapes |= {"weights": (k,), "means": (k, d), "variances": (k, d)}
        spaces = sorted_names(facts, "spaces")
        if not spaces or ("" in spaces) == self.by_site:
            raise ValueError(f"spaces is {spaces!r}")
        return {f"{part}.{i}": (shapes[part], "float64") for i in range(len(spaces)) for part in _PARTS}

    def _mixture(self, bag: Bag) -> Mixture:
        if not self.mixtures_:
            raise NotFittedError(self.name)
        space = self.space_of(bag)
        if space not in self.mixtures_:
            raise SlideseekError(
                f"slide {bag.slide_id!r} is of site {space!r}, {self.name} was fitted on {', '.join(self.mixtures_)}",
                "correct the site, or fit again with slides of that site",
            )
        return self.mixtures_[space]

    def _raw(self, mixture: Mixture, features: Float32) -> Float64:
        s0, s1, s2 = np.zeros(self.components), np.zeros(mixture.shape), np.zeros(mixture.shape)
        with one_blas_thread():
            for _, rows in canonical_chunks(features):
                for total, part in zip((s0, s1, s2), mixture.moments(mixture.project(rows))):
                    total += part
        score = mixture.score(s0, s1, s2, len(features))
        return np.concatenate([score[b].ravel() for b in ("weights", "means", "variances") if b in self.blocks])

    def _blocks(self, mixture: Mixture, row: Float64) -> dict[str, Float64]:
        k, d = mixture.shape
        shapes = {"weights": (k,), "means": (k, d), "variances": (k, d)}
        held = {b: shape for b, shape in shapes.items() if b in self.blocks}
        ends = np.cumsum([np.prod(shape) for shape in held.values()])
        return {b: part.reshape(held[b]) for b, part in zip(held, np.split(row, ends[:-1]))}

    def _normalised(self, raw: Float64) -> Float64:
        row = signed_root(raw) if self.power else raw
        return unit(row) if self.l2 else row

    def _rounded(self, bag: Bag, row: Float64) -> Code:
        return Code(bag.slide_id, row.astype(np.float32)[None], self.space_of(bag))
