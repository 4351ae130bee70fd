"""Choose how much of the code as it was stands beside a projected one, on patients that were left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slideseek.errors import SlideseekError
from slideseek.types import Float64, Int64
from slideseek_components.encoders.projection.discriminant import beside, class_numbers, discriminant, usable
from slideseek_components.encoders.projection.span import span_of

SHRINKAGE = 0.1
GRID = (0.0, 0.5, 1.0, 2.0)
DEFAULT = 1.0
"""Used unless validation says otherwise. It cannot with fewer than `_PATIENTS` patients, or where no slide that was
left out has another of its class."""

ALONE = 1e3
"""The weight that leaves nothing of the projection."""

_HALVINGS = 6
_PATIENTS = 6
_MOST = 1500


@dataclass(frozen=True)
class Search:
    """A search to validate with: the class of each slide, -1 if unknown, int64 (n,); only slides with the same number
    `within` (n,) are candidates."""

    classes: Int64
    within: Int64


def searches_of(labels: Int64 | None, sites: Int64 | None) -> list[Search]:
    """Return the searches of an archive: for the site, and for the label within the site; None or unusable: without."""
    site = sites if sites is not None and usable([sites]) else None
    found = [] if site is None else [Search(site, np.zeros_like(site))]
    if labels is not None and usable([labels]):
        found.append(Search(labels, np.zeros_like(labels) if site is None else site))
    return found


def choose_unprojected(
    coordinates: Float64,
    classes: Sequence[Int64],
    searches: Sequence[Search],
    groups: Sequence[str],
    shrinkage: float,
    seed: int,
    outside: float = 0.0,
) -> float:
    """Return the weight of the unprojected code, of `GRID` or `ALONE`, that serves all searches best.

    coordinates: float64 (n, d). classes: labellings to project by, int64 (n,) each. groups: the patient of each slide.
    outside: what directions outside of the span count, as in `ProjectorOptions`.
    The patients are halved six times at random. Span and projection are learnt from one half, and the slides of the
    other are searched for among each other, other patients only: within the half that was learnt from, even labels
    without meaning lie in heaps, which average precision rewards. All searches count the same. `DEFAULT` stays unless
    another is ahead of it by more than one standard error. More than 1,500 slides are sampled.
    """
    patients = class_numbers([group or f"\0{i}" for i, group in enumerate(groups)])
    if patients.max(initial=-1) + 1 < _PATIENTS:
        return DEFAULT
    rng = np.random.default_rng([seed, 0xF0])
    rows = np.sort(rng.permutation(len(coordinates))[:_MOST])
    weights = (*GRID, ALONE)
    found: dict[tuple[float, int], list[float]] = {}
    for _ in range(_HALVINGS):
        half = (rng.permutation(int(patients.max()) + 1) % 2)[patients]
        for number in range(2):
            fitted, others = rows[half[rows] != number], rows[half[rows] == number]
            known = usable([numbers[fitted] for numbers in classes])
            if not known or len(others) < 2:
                continue
            try:
                span = span_of(coordinates[fitted].astype(np.float32), coordinates.shape[1], seed)
            except SlideseekError:  # equal codes: this half says nothing
                continue
            own = span.coordinates(coordinates[fitted])
            turn = discriminant(own, known, shrinkage)
            inside = span.coordinates(coordinates)
            rest = coordinates - span.centre - inside @ span.axes.T
            plain = outside / math.sqrt(float(np.square(own).sum(axis=1).mean()))
            for weight in weights:
                turned = _unit(np.concatenate([inside @ beside(own, turn, weight), plain * weight * rest], axis=1))
                for i, search in enumerate(searches):
                    near = turned[others] @ turned[others].T
                    near[patients[others][:, None] == patients[others][None]] = -np.inf
                    near[search.within[others][:, None] != search.within[others][None]] = -np.inf
                    precisions = average_precisions(near, search.classes[others], search.classes[others])
                    found.setdefault((weight, i), []).extend(precisions)
    kinds = {i for (_, i), precisions in found.items() if precisions}
    if not kinds:
        return DEFAULT
    ahead = {weight: _ahead([(found[weight, i], found[DEFAULT, i]) for i in kinds]) for weight in weights}
    best = max(weights, key=lambda weight: ahead[weight][0])
    # On few slides the best of five is mostly luck: it has to be ahead by more than one standard error.
    return best if ahead[best][0] > ahead[best][1] else DEFAULT


def _ahead(pairs: Sequence[tuple[list[float], list[float]]]) -> tuple[float, float]:
    """Return the mean difference of paired precisions, all kinds counting the same, and its standard error."""
    gains = [np.array(own) - np.array(other) for own, other in pairs]
    # A slide is searched for once in every halving, so there are fewer independent values than values.
    variances = [float(gain.var()) * _HALVINGS / len(gain) for gain in gains]
    return float(np.mean([gain.mean() for gain in gains])), math.sqrt(sum(variances)) / len(gains)


def average_precisions(near: Float64, own: Int64, others: Int64) -> list[float]:
    """Return the average precision of each query that has a match, unlabelled slides left out.

    near: (queries, candidates), larger is more similar, -inf where excluded. own, others: their classes.
    """
    found = []
    for row, number in zip(near, own):
        if number < 0:
            continue
        order = np.argsort(-row, kind="stable")
        match = others[order[np.isfinite(row[order]) & (others[order] >= 0)]] == number
        if match.any():
            found.append(float(np.mean(np.arange(1, match.sum() + 1) / (np.flatnonzero(match) + 1))))
    return found


def _unit(rows: Float64) -> Float64:
    length = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    return rows / np.where(length > 0, length, 1.0)
