"""Several float codes side by side."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from slideseek.errors import NotFittedError, SlideseekError
from slideseek.interfaces import Encoder, Trainable, implements
from slideseek.types import Bag, Code, CodeSpec, Float64
from slideseek_components.encoders.attribution import check_comparable
from slideseek_components.encoders.bags import finite_features
from slideseek_components.encoders.composite import Composite, Training
from slideseek_components.encoders.deep.training_set import Moments
from slideseek_components.encoders.gmm_fv import GmmFisher
from slideseek_components.encoders.mean import Mean
from slideseek_components.encoders.model_file import (
    Facts,
    Layout,
    check_positive,
    read_model,
    whole_number,
    write_model,
)
from slideseek_components.encoders.normalise import length
from slideseek_components.encoders.projection.float_codes import (
    encode_all,
    float_spec,
    share_rest,
    split_product,
    title,
    training_batches,
    values_of,
)


@dataclass
class Joined(Composite):
    """Put the codes of several encoders side by side, so that each has its say in a cosine.

    The mean code of the training slides is subtracted from every part, and the part is divided by its root mean squared
    length over the training slides. Every step is linear, so a similarity splits over patches if every part's does.

    of: the encoders, each with one row of floats per slide. Each is copied and fitted on the same training slides.
    weights: of the parts, one each and above 0: a part's say in an inner product is the square of its weight. None
    given: all the same.
    """

    of: tuple[Encoder, ...] = field(default_factory=lambda: (Mean(), GmmFisher()))
    weights: tuple[float, ...] = ()
    width_: int = field(init=False, repr=False, compare=False, default=0)
    centres_: tuple[Float64, ...] = field(init=False, repr=False, compare=False, default=())
    lengths_: tuple[float, ...] = field(init=False, repr=False, compare=False, default=())

    name: ClassVar[str] = "joined"
    code_revision: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not self.of:
            raise ValueError("of: one or more encoders")
        self.weights = tuple(self.weights)
        if self.weights and len(self.weights) != len(self.of):
            raise ValueError(f"weights: one for each of the {len(self.of)} encoders, not {len(self.weights)}")
        if not all(0 < weight < math.inf for weight in self.weights):
            raise ValueError(f"weights: numbers above 0, not {self.weights!r}")
        self.of = tuple(copy.deepcopy(part) for part in self.of)

    def spec(self, width: int) -> CodeSpec:
        """Return one row with the floats of all parts."""
        return CodeSpec("float", sum(float_spec(part, width, self.name).width for part in self.of))

    def encode_many(self, bags: Sequence[Bag]) -> list[Code]:
        """Return the codes of many bags; parts that take several at once get them together."""
        self._check(bags)
        return [self._code(list(own)) for own in zip(*(encode_all(part, bags) for part in self.of))] if bags else []

    def contributions(self, bag: Bag, code: Code) -> Float64:
        """Split the cosine of the bag's code and `code` over the patches; see `Attributable`."""
        self._check([bag])
        own = [encode_all(part, [bag])[0] for part in self.of]
        mine = self._code(own)
        check_comparable(bag, mine, code)
        a, b = values_of(mine), values_of(code)
        scale = length(a) * length(b)
        if scale == 0:
            return np.zeros(len(bag))
        parts, start = np.zeros(len(bag)), 0
        for part, found, factor in zip(self.of, own, self._factors()):
            weights = b[start : start + found.rows.shape[1]]
            parts += split_product(part, bag, found, weights * (factor / scale))
            start += len(weights)
        return share_rest(parts, float((a * b).sum()) / scale)

    def save(self, folder: Path) -> None:
        """Write every part that learns into a folder of its own below `folder`, and what was learnt from its codes."""
        self._check([])
        facts: Facts = {"width": self.width_, "parts": [len(centre) for centre in self.centres_]}
        tensors = {f"centre.{i}": centre for i, centre in enumerate(self.centres_)}
        write_model(folder, self.name, self._deciding(), facts, tensors | {"lengths": np.array(self.lengths_)})
        for i, part in enumerate(self.of):
            if implements(part, Trainable):
                (folder / _part_name(i)).mkdir()
                part.save(folder / _part_name(i))

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote."""
        facts, tensors = read_model(folder, self.name, self._deciding(), self._layout)
        check_positive(folder, tensors, ["lengths"])
        parts = tuple(copy.deepcopy(part) for part in self.of)
        for i, part in enumerate(parts):
            if implements(part, Trainable):
                part.load(folder / _part_name(i))
        self.of, self.width_ = parts, facts["width"]
        self.centres_ = tuple(tensors[f"centre.{i}"] for i in range(len(parts)))
        self.lengths_ = tuple(tensors["lengths"].tolist())

    def _inner(self) -> Sequence[Encoder]:
        return self.of

    def _learn(self, training: Training) -> None:
        """Fit every part, then learn its mean and its length from the codes of the training slides."""
        parts = tuple(copy.deepcopy(part) for part in self.of)
        for i, part in enumerate(parts):
            try:
                training.fit(part, _part_name(i))
            except SlideseekError as error:
                raise SlideseekError(
                    f"part {i + 1} of {self.name} ({title(part)}) cannot be fitted: {error.cause}", error.fix
                ) from error
        widths: set[int] = set()
        moments = [Moments() for _ in parts]
        for batch in training_batches(training.bags, range(len(training.bags)), self._size):
            bags = [bag for _, bag in batch]
            widths |= {bag.width for bag in bags}
            if len(widths) > 1:
                raise SlideseekError(
                    f"the training slides have features of widths {', '.join(map(str, sorted(widths)))}",
                    "compute all features with one featurizer",
                )
            for part, own in zip(parts, moments):
                for code in encode_all(part, bags):
                    values = values_of(code)
                    own.merge(1, values, np.zeros_like(values))
        if not widths:
            raise SlideseekError(f"{self.name} cannot be fitted: no training slide has patches", "add slides")
        self.of, self.width_ = parts, widths.pop()
        self.centres_ = tuple(own.mean for own in moments)
        # A part with the same code for every slide says nothing: it stays zero for these, whatever the divisor.
        self.lengths_ = tuple(math.sqrt(float(own.m2.sum()) / own.count) or 1.0 for own in moments)

    def _size(self, width: int) -> int:
        return self.spec(width).width

    def _layout(self, facts: Facts) -> Layout:
        width, parts = whole_number(facts, "width"), facts["parts"]
        if parts != [float_spec(part, width, self.name).width for part in self.of]:
            raise ValueError(f"parts is {parts!r}")
        layout: dict[str, tuple[tuple[int, ...], str]] = {"lengths": ((len(parts),), "float64")}
        return layout | {f"centre.{i}": ((size,), "float64") for i, size in enumerate(parts)}

    def _check(self, bags: Sequence[Bag]) -> None:
        if not self.centres_:
            raise NotFittedError(self.name)
        for bag in bags:
            finite_features(bag, self.width_)

    def _deciding(self) -> dict[str, object]:
        """Return the options stored with what was learnt; the parts store theirs."""
        return {"weights": list(self.weights)} if self.weights else {}

    def _factors(self) -> list[float]:
        """Return what each part is multiplied by: the mean squared length of the whole is 1 over training slides."""
        weights = self.weights or (1.0,) * len(self.of)
        whole = math.sqrt(sum(weight**2 for weight in weights))
        return [weight / (own * whole) for weight, own in zip(weights, self.lengths_)]

    def _code(self, own: Sequence[Code]) -> Code:
        """Put the codes of one slide by each part side by side."""
        rows = [
            (values_of(code) - centre) * factor for code, centre, factor in zip(own, self.centres_, self._factors())
        ]
        spaces = sorted({code.space for code in own} - {""})
        return Code(own[0].slide_id, np.concatenate(rows).astype(np.float32)[None], ", ".join(spaces))


def _part_name(number: int) -> str:
    return f"part-{number}"
