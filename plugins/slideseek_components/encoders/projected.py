"""A float code projected on what separates the classes, as floats or bits."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

from slideseek.errors import NotFittedError
from slideseek.interfaces import Encoder, Trainable, implements
from slideseek.types import Bag, Code, CodeSpec, Float64
from slideseek_components.encoders.attribution import check_comparable
from slideseek_components.encoders.bags import finite_features
from slideseek_components.encoders.blas_threads import one_blas_thread
from slideseek_components.encoders.composite import Composite, Training
from slideseek_components.encoders.mean import Mean
from slideseek_components.encoders.model_file import deciding_options
from slideseek_components.encoders.projection.float_codes import (
    batches,
    encode_all,
    float_spec,
    split_product,
    training_codes,
    values_of,
)
from slideseek_components.encoders.projection.options import Binarise, By, Kind, ProjectorOptions
from slideseek_components.encoders.projection.projector import Projector, TrainingCode, projected_spec


@dataclass
class Projected(Composite):
    """Project the float code of another encoder, and turn it into bits that keep its angles.

    Codes are centred on the training slides and projected on the directions in which these differ. A discriminant gives
    these directions equal variance within classes and less weight where class means do not differ. Slides without a
    label still define the directions; without classes to learn from, the projection is `none`. The code as it was
    stands beside the projected one, for what classes do not tell.

    of: the encoder, with one row of floats per slide. projection: `none`, `whitening` (equal variance) or
    `discriminant`. by: classes are the labels, the sites, or `both`, averaged. shrinkage: of the covariance within
    classes towards a multiple of the identity, at most 1; 0 stands for 0.1. unprojected: the weight of the code as it
    was beside the projected one, -1 to choose it on training patients that were left out. dimensions: most coordinates
    of a projected code. bits: 0 for floats of unit length. binarise: `sign` (of the coordinates, at most `dimensions`
    bits), `hyperplanes` (random) or `itq` (learnt rotations). seed: of planes, rotations and validation. outside: the
    weight, times `unprojected`, of the directions in which no training slide differs; `sign` and `itq` have none.
    """

    of: Encoder = field(default_factory=Mean)
    projection: Kind = "discriminant"
    by: By = "both"
    shrinkage: float = 0.0
    unprojected: float = -1.0
    dimensions: int = 512
    bits: int = 5000
    binarise: Binarise = "hyperplanes"
    seed: int = 0
    outside: float = 1.0
    width_: int = field(init=False, repr=False, compare=False, default=0)
    projector_: Projector | None = field(init=False, repr=False, compare=False, default=None)

    name: ClassVar[str] = "projected"
    code_revision: ClassVar[int] = 3

    def __post_init__(self) -> None:
        self._options()
        self.of = copy.deepcopy(self.of)

    def spec(self, width: int) -> CodeSpec:
        """Return one row of `bits` bits, or of at most `dimensions` floats."""
        return projected_spec(self._options(), float_spec(self.of, width, self.name).width)

    def encode_many(self, bags: Sequence[Bag]) -> list[Code]:
        """Return the codes of many bags; an inner encoder that takes several at once gets some together."""
        projector = self._projector(bags)
        with one_blas_thread():
            together = batches(bags, lambda bag: float_spec(self.of, bag.width, self.name).width)
            inner = (code for some in together for code in encode_all(self.of, some))
            return [Code(code.slide_id, projector.rows(values_of(code)), code.space) for code in inner]

    def contributions(self, bag: Bag, code: Code) -> Float64:
        """Split the cosine, or the share of equal bits, of the bag's code and `code` over the patches.

        See `Attributable`, and `Projector.attribute` for how bits are attributed.
        """
        projector = self._projector([bag])
        inner = encode_all(self.of, [bag])[0]
        mine = Code(bag.slide_id, projector.rows(values_of(inner)), inner.space)
        check_comparable(bag, mine, code)
        return projector.attribute(values_of(inner), mine.rows, code.rows, partial(split_product, self.of, bag, inner))

    def save(self, folder: Path) -> None:
        """Write the projection into `folder`, and the inner encoder, if it learns, into a folder below it."""
        projector = self._projector([])
        projector.save(folder, self._deciding(), self.width_)
        if implements(self.of, Trainable):
            (folder / "of").mkdir()
            self.of.save(folder / "of")

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote."""
        projector, width = Projector.load(folder, self._options(), self._deciding())
        of = copy.deepcopy(self.of)
        if implements(of, Trainable):
            of.load(folder / "of")
        self.of, self.projector_, self.width_ = of, projector, width

    def _inner(self) -> Sequence[Encoder]:
        return (self.of,)

    def _learn(self, training: Training) -> None:
        """Fit the inner encoder, then learn the projection from its codes of the training slides."""
        of = copy.deepcopy(self.of)
        training.fit(of, "of")
        width = 0

        def codes(which: Sequence[int]) -> Iterator[TrainingCode]:
            nonlocal width
            for number, bag, code in training_codes(of, training.bags, which):
                finite_features(bag, width or None)
                width = bag.width
                yield TrainingCode(number, values_of(code), bag.site)

        projector = Projector.learn(self._options(), codes, training.labels, training.groups)
        self.of, self.projector_, self.width_ = of, projector, width

    def _options(self) -> ProjectorOptions:
        return ProjectorOptions(
            self.projection,
            self.by,
            self.shrinkage,
            self.unprojected,
            self.dimensions,
            self.bits,
            self.binarise,
            self.seed,
            self.outside,
        )

    def _deciding(self) -> dict[str, object]:
        """Return the options of the projection; the inner encoder's are stored with it."""
        return {key: value for key, value in deciding_options(self).items() if key != "of"}

    def _projector(self, bags: Sequence[Bag]) -> Projector:
        if self.projector_ is None:
            raise NotFittedError(self.name)
        for bag in bags:
            finite_features(bag, self.width_)
        return self.projector_
