"""Learn a projection from the codes of training slides, and turn codes into projected floats or bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from slideseek.errors import SlideseekError
from slideseek.types import CodeSpec, Float32, Float64, UInt8
from slideseek_components.encoders.blas_threads import one_blas_thread
from slideseek_components.encoders.model_file import Facts, Layout, Tensors, read_model, whole_number, write_model
from slideseek_components.encoders.normalise import length, unit
from slideseek_components.encoders.projection.binariser import Binariser
from slideseek_components.encoders.projection.discriminant import (
    beside,
    class_numbers,
    discriminant,
    usable,
    whitening,
)
from slideseek_components.encoders.projection.float_codes import share_rest
from slideseek_components.encoders.projection.options import ProjectorOptions
from slideseek_components.encoders.projection.sketch import WIDEST, Sketch
from slideseek_components.encoders.projection.span import Span, span_of
from slideseek_components.encoders.projection.validation import ALONE, SHRINKAGE, choose_unprojected, searches_of

_SAMPLE = 8192
"""Most training slides whose codes are held in memory to find the span (256 MiB); the others are projected as they
come."""

_NAME = "projection"


@dataclass(frozen=True)
class TrainingCode:
    """The float code (width,) of training slide number `number`, and the slide's site."""

    number: int
    values: Float64
    site: str


def projected_spec(options: ProjectorOptions, width: int) -> CodeSpec:
    """Return the format of projected codes of `width` floats: `bits` bits, or at most `dimensions` floats."""
    if options.bits:
        return CodeSpec("bits", options.bits)
    return CodeSpec("float", min(options.dimensions, width, WIDEST))


@dataclass(frozen=True)
class Projector:
    """A learnt projection: y = (sketch(code) - centre) @ directions, then unit length, then bits.

    centre: float64 (size,). axes: float64 (size, d), in the span of the training slides. unprojected: the weight in use
    of the code as it was. outside: how much of a code counts that is outside that span, 0 for nothing.
    """

    options: ProjectorOptions
    sketch: Sketch
    centre: Float64
    axes: Float64
    unprojected: float
    outside: float
    binariser: Binariser

    @cached_property
    def directions(self) -> Float64:
        """The axes, and for float codes random directions outside of the span of training slides: float64 (size, d).

        Slides of an archive that was not learnt from also differ outside of that span. A float code has `dimensions`
        values, so random directions stand for all others; they keep lengths and angles on average, follow from the
        seed, and are not stored. Bits are taken from all directions outside of the span, see `project`.
        """
        size, d = self.axes.shape
        count = 0 if self.options.bits or not self.outside else outside_count(self.options, size, d)
        if not count:
            return self.axes
        with one_blas_thread():
            drawn = np.random.default_rng([self.options.seed, 0x0D]).standard_normal((size, count))
            drawn -= self._basis @ (self._basis.T @ drawn)
        return np.concatenate([self.axes, drawn * (self.outside / math.sqrt(count))], axis=1)

    @cached_property
    def _basis(self) -> Float64:
        """Orthonormal directions of the span of the training slides: float64 (size, d)."""
        with one_blas_thread():
            basis: Float64 = np.linalg.qr(self.axes)[0]
        return basis

    @property
    def _whole(self) -> bool:
        """Whether coordinates include every direction outside of the span."""
        return self.binariser.dimensions > self.axes.shape[1] and bool(self.options.bits)

    @classmethod
    def learn(
        cls,
        options: ProjectorOptions,
        codes: Callable[[Sequence[int]], Iterable[TrainingCode]],
        labels: Sequence[str],
        groups: Sequence[str],
    ) -> Projector:
        """Learn from training slides; labels and groups as in `Trainable.fit`.

        codes: returns the codes of the slides with these numbers, one at a time; slides without patches are left out.
        Every slide is asked for once. Centre and span come from a sample of at most 8,192 slides, the classes from
        all. Without classes to learn from (no label, one class, one slide per class) a discriminant is the same as no
        projection.
        """
        order = np.random.default_rng([options.seed, 0x5A]).permutation(len(labels))
        sample, rest = np.sort(order[:_SAMPLE]).tolist(), np.sort(order[_SAMPLE:]).tolist()
        facts: list[TrainingCode] = []
        sketch, held = Sketch(0), np.zeros((0, 0), dtype=np.float32)
        with one_blas_thread():
            for code in codes(sample):
                if not facts:
                    sketch = Sketch(len(code.values))
                    held = np.empty((len(sample), sketch.size), dtype=np.float32)
                held[len(facts)] = sketch.apply(code.values)
                facts.append(replace(code, values=_NOTHING))
            if not facts:
                raise SlideseekError("nothing can be projected: no training slide has patches", "add slides")
            span = span_of(held[: len(facts)], options.dimensions, options.seed)
            coordinates = [span.coordinates(held[: len(facts)])]
            del held
            for code in codes(rest):
                coordinates.append(span.coordinates(sketch.apply(code.values)[None]))
                facts.append(replace(code, values=_NOTHING))
            return cls._from_span(options, sketch, span, np.concatenate(coordinates), facts, labels, groups)

    @classmethod
    def _from_span(
        cls,
        options: ProjectorOptions,
        sketch: Sketch,
        span: Span,
        coordinates: Float64,
        facts: Sequence[TrainingCode],
        labels: Sequence[str],
        groups: Sequence[str],
    ) -> Projector:
        names = {"label": [labels[fact.number] for fact in facts], "site": [fact.site for fact in facts]}
        numbers = {by: class_numbers(own) for by, own in names.items() if options.by in (by, "both")}
        classes, patients = usable(list(numbers.values())), [groups[fact.number] for fact in facts]
        d = coordinates.shape[1]
        turn, unprojected = np.eye(d), ALONE
        outside = options.outside if not options.bits or options.binarise == "hyperplanes" else 0.0
        if options.kind == "whitening":
            turn, unprojected = whitening(coordinates, options.shrinkage or SHRINKAGE), 0.0
        elif options.kind == "discriminant" and classes:
            shrinkage, unprojected = options.shrinkage or SHRINKAGE, options.unprojected
            if unprojected < 0:
                searches = searches_of(numbers.get("label"), numbers.get("site"))
                unprojected = choose_unprojected(
                    coordinates, classes, searches, patients, shrinkage, options.seed, outside
                )
            if unprojected < ALONE:
                turn = beside(coordinates, discriminant(coordinates, classes, shrinkage), unprojected)
        # Scaled as `beside` scales the unprojected code, so that it is the same inside and outside of the span.
        plain = 1.0 if unprojected >= ALONE else unprojected / math.sqrt(float(np.square(coordinates).sum(1).mean()))
        outside *= plain
        binariser = _binariser(options, span.axes.shape, outside)
        if options.bits:
            binariser.learn(np.stack([unit(row) for row in coordinates @ turn]))
        axes = np.ascontiguousarray(span.axes @ turn)
        return cls(options, sketch, span.centre, axes, unprojected, outside, binariser)

    def project(self, values: Float64) -> Float64:
        """Return the coordinates y of one code (width,), before they get unit length: float64 (d,).

        For bits, what is outside of the span of the training slides follows as it is, `size` values of it.
        """
        with one_blas_thread():
            code = self.sketch.apply(values) - self.centre
            y: Float64 = code @ self.directions
            if self._whole:
                y = np.concatenate([y, self.outside * (code - self._basis @ (self._basis.T @ code))])
        return y

    def _pull_back(self, towards: Float64) -> Float64:
        """Return float64 (size,) w with w . code = towards (d,) . y, for a code that is folded and centred."""
        inside = self.directions.shape[1]
        weights: Float64 = self.directions @ towards[:inside]
        if self._whole:
            rest = towards[inside:]
            weights += self.outside * (rest - self._basis @ (self._basis.T @ rest))
        return weights

    def rows(self, values: Float64) -> UInt8 | Float32:
        """Return the row of the projected code of one code (width,): packed bits, or floats of unit length."""
        y = self.project(values)
        if self.options.bits:
            with one_blas_thread():
                return np.packbits(self.binariser.values(y) > 0)[None]
        row = np.zeros(projected_spec(self.options, self.sketch.width).width, dtype=np.float32)
        row[: len(y)] = unit(y)
        return row[None]

    def attribute(
        self,
        values: Float64,
        mine: UInt8 | Float32,
        other: UInt8 | Float32,
        split: Callable[[Float64], Float64],
    ) -> Float64:
        """Split the similarity of two projected rows over the patches of the first: float64 (n,).

        values: the code (width,) that was projected into `mine`. split: splits the inner product of that code and the
        weights (width,) it is given. Floats: everything up to the length is linear, so the cosine is such a product.
        Bits: with v the values whose signs are the bits, and s the other's bits as -1 and 1, the product of v and s,
        divided by twice the sum of |v|, is the share of equal bits above one half, each bit weighed by how far the
        slide is from its plane. What is left (the one half, the difference to equal weights, and the centre) is shared
        by all patches.
        """
        y = self.project(values)
        with one_blas_thread():
            if self.options.bits:
                v = self.binariser.values(y)
                signs = np.where(np.unpackbits(other[0], count=self.options.bits) > 0, 1.0, -1.0)
                own = np.unpackbits(mine[0], count=self.options.bits)
                total = float(np.count_nonzero((own > 0) == (signs > 0))) / len(v)
                towards = self.binariser.pull_back(signs / (2 * float(np.abs(v).sum()) or 1.0))
            else:
                a, b = mine[0].astype(np.float64), other[0].astype(np.float64)
                scale = length(a) * length(b)
                total = float((a * b).sum()) / scale if scale else 0.0
                towards = b[: len(y)] / ((scale * length(y)) or 1.0)
            weights = self.sketch.pull_back(self._pull_back(towards))
        return share_rest(split(weights), total)

    def save(self, folder: Path, options: Mapping[str, Any], features: int) -> None:
        """Write the projection into the existing empty `folder`; features: the width of the features, kept with it."""
        facts: Facts = {"features": features, "width": self.sketch.width, "dimensions": self.axes.shape[1]}
        facts |= {"unprojected": self.unprojected, "outside": self.outside}
        tensors: Tensors = {"centre": self.centre, "axes": self.axes}
        if self.binariser.kind == "itq" and self.options.bits:
            tensors["rotation"] = self.binariser.rotation
        write_model(folder, _NAME, options, facts, tensors)

    @classmethod
    def load(cls, folder: Path, options: ProjectorOptions, given: Mapping[str, Any]) -> tuple[Projector, int]:
        """Return what `save` wrote and the width of the features; given: the options it was saved with."""
        facts, tensors = read_model(folder, _NAME, given, partial(_layout, options))
        sketch, axes = Sketch(facts["width"]), tensors["axes"]
        binariser = _binariser(options, axes.shape, facts["outside"])
        if "rotation" in tensors:
            binariser.rotation = tensors["rotation"]
        found = cls(options, sketch, tensors["centre"], axes, facts["unprojected"], facts["outside"], binariser)
        return found, facts["features"]


def outside_count(options: ProjectorOptions, size: int, dimensions: int) -> int:
    """Return how many more directions than `dimensions` codes of `size` values may have: 0 once the span is full."""
    return max(0, min(options.dimensions, size) - dimensions)


def _binariser(options: ProjectorOptions, shape: tuple[int, ...], outside: float) -> Binariser:
    size, d = shape
    count = d + (size if outside and outside_count(options, size, d) else 0)
    return Binariser(options.binarise, options.bits, count, options.seed)


_NOTHING: Float64 = np.zeros(0)


def _layout(options: ProjectorOptions, facts: Facts) -> Layout:
    """Return the tensors of a projection with these facts; raise `ValueError` for bad facts."""
    size, d = Sketch(whole_number(facts, "width")).size, whole_number(facts, "dimensions")
    whole_number(facts, "features")
    weights = facts["unprojected"], facts["outside"]
    if d > min(options.dimensions, size) or not all(isinstance(x, float) and 0 <= x < math.inf for x in weights):
        raise ValueError(f"dimensions is {d}, unprojected and outside are {weights}")
    layout: dict[str, tuple[tuple[int, ...], str]] = {"centre": ((size,), "float64"), "axes": ((size, d), "float64")}
    if options.binarise == "itq" and options.bits:
        layout["rotation"] = (options.bits, d), "float64"
    return layout
