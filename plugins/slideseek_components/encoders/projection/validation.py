"""Choose the shrinkage of a discriminant on patients that were left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slideseek.errors import SlideseekError
from slideseek.types import Float64, Int64
from slideseek_components.encoders.projection.discriminant import class_numbers, discriminant, usable
from slideseek_components.encoders.projection.span import span_of

GRID = (0.03, 0.1, 0.3, 1.0)
DEFAULT = 0.1
"""Used unless validation says otherwise. It cannot with fewer than `_PATIENTS` patients, or where no slide that was
left out has another of its class."""

_FOLDS = 3
_PATIENTS = 6
_MOST = 1500


def choose_shrinkage(coordinates: Float64, classes: Sequence[Int64], groups: Sequence[str], seed: int) -> float:
    """Return the shrinkage of `GRID` with the best mean average precision on patients left out of the projection.

    coordinates: float64 (n, d). classes: labellings, int64 (n,) each. groups: the patient of each slide. A third of the
    patients is left out at a time; span and projection are learnt from the others, and the slides left out search all
    slides of other patients. More than 1,500 slides are sampled. `DEFAULT` stays unless another is ahead of it by more
    than one standard error.
    """
    patients = class_numbers([group or f"\0{i}" for i, group in enumerate(groups)])
    if patients.max(initial=-1) + 1 < _PATIENTS:
        return DEFAULT
    rng = np.random.default_rng([seed, 0xF0])
    rows = np.sort(rng.permutation(len(coordinates))[:_MOST])
    fold = rng.permutation(int(patients.max()) + 1)[patients] % _FOLDS
    precisions: dict[float, list[float]] = {shrinkage: [] for shrinkage in GRID}
    for number in range(_FOLDS):
        fitted, left_out = rows[fold[rows] != number], rows[fold[rows] == number]
        known = usable([numbers[fitted] for numbers in classes])
        if not known or not len(left_out):
            continue
        try:
            span = span_of(coordinates[fitted].astype(np.float32), coordinates.shape[1], seed)
        except SlideseekError:  # equal codes: this third says nothing
            continue
        own, others = span.coordinates(coordinates[left_out]), span.coordinates(coordinates[rows])
        for shrinkage, found in precisions.items():
            turn = discriminant(span.coordinates(coordinates[fitted]), known, shrinkage)
            near = _unit(own @ turn) @ _unit(others @ turn).T
            near[patients[left_out][:, None] == patients[rows][None]] = -np.inf
            for numbers in classes:
                found += average_precisions(near, numbers[left_out], numbers[rows])
    if not precisions[DEFAULT]:
        return DEFAULT
    gains = {shrinkage: np.array(found) - precisions[DEFAULT] for shrinkage, found in precisions.items()}
    best = max(gains, key=lambda shrinkage: float(gains[shrinkage].mean()))
    # On few slides the best of four is mostly luck: it has to be ahead by more than one standard error.
    error = float(gains[best].std()) / np.sqrt(len(gains[best]))
    return best if gains[best].mean() > error else DEFAULT


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
