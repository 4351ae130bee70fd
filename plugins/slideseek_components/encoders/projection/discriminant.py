"""Weigh the directions of a span by what separates the classes of training slides."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from slideseek.types import Float64, Int64

FLOOR = 0.1
"""Least weight of a direction in which classes do not differ: an archive may have classes that training slides had
not."""


def class_numbers(names: Sequence[str]) -> Int64:
    """Return int64 (n,), the number of each name among the sorted names; -1 for ""."""
    number = {name: i for i, name in enumerate(sorted(set(names) - {""}))}
    return np.array([number.get(name, -1) for name in names], dtype=np.int64)


def usable(classes: Sequence[Int64]) -> list[Int64]:
    """Return the labellings that can be learnt from: two classes, of which one has two slides."""
    found = []
    for numbers in classes:
        sizes = np.bincount(numbers[numbers >= 0])
        if np.count_nonzero(sizes) > 1 and sizes.max() > 1:
            found.append(numbers)
    return found


def whitening(coordinates: Float64, shrinkage: float) -> Float64:
    """Return float64 (d, d) T: `coordinates` (n, d) @ T have equal variance, or less different ones if shrunk."""
    return _root_of_inverse(_normalised(coordinates.T @ coordinates), shrinkage)


def discriminant(coordinates: Float64, classes: Sequence[Int64], shrinkage: float) -> Float64:
    """Return float64 (d, d) T that maps coordinates (n, d) to those in which classes are apart, most apart first.

    classes: one or more labellings that are `usable`, (n,) each; slides of class -1 are ignored. First the covariance
    within classes, shrunk towards a multiple of the identity, becomes the identity. Then every direction is multiplied
    by b / (b + 1), where b is the variance of the class means there: the share of a slide's deviation that, with
    Gaussian classes, is its class's; but at least by `FLOOR`. Several labellings are averaged.
    """
    d = coordinates.shape[1]
    within, spreads = np.zeros((d, d)), []
    for numbers in classes:
        means, known, sizes = _class_means(coordinates, numbers)
        own = coordinates[known] - means[numbers[known]]
        scatter = own.T @ own
        within += _normalised(scatter) / len(classes)
        spreads.append((scatter / max(1.0, float(len(own) - np.count_nonzero(sizes))), means, sizes))
    first = _root_of_inverse(within, shrinkage)
    level = float(np.mean([np.einsum("ij,ij->", spread @ first, first) for spread, _, _ in spreads])) / d
    first /= math.sqrt(level) if level > 0 else 1.0
    between = np.zeros((d, d))
    for _, means, sizes in spreads:
        apart = means - sizes @ means / sizes.sum()
        moved = (apart * np.sqrt(sizes / sizes.sum())[:, None]) @ first
        between += moved.T @ moved / len(spreads)
    b, turn = np.linalg.eigh(between)
    b, turn = np.maximum(b[::-1], 0.0), turn[:, ::-1]
    turned: Float64 = (first @ turn) * (FLOOR + (1 - FLOOR) * b / (b + 1))
    return turned


def beside(coordinates: Float64, turn: Float64, unprojected: float) -> Float64:
    """Return float64 (d, d) T whose inner products are those of `turn` plus `unprojected` squared times the plain ones.

    Both are scaled to a mean squared length of 1 over coordinates (n, d). So the code as it was stands beside the
    projected one without more coordinates: it tells slides apart where classes say nothing, such as within a class.
    """
    scaled = turn / (_root_mean_square(coordinates @ turn) or 1.0)
    weight = unprojected / (_root_mean_square(coordinates) or 1.0)
    together, axes = np.linalg.eigh(scaled @ scaled.T + weight**2 * np.eye(len(turn)))
    root: Float64 = (axes * np.sqrt(np.maximum(together, 0.0)))[:, ::-1]
    return root


def _root_mean_square(rows: Float64) -> float:
    return math.sqrt(float(np.square(rows).sum()) / len(rows))


def _class_means(coordinates: Float64, numbers: Int64) -> tuple[Float64, Int64, Float64]:
    """Return the mean of each class (classes, d), the slides that have a class, and the sizes of the classes."""
    known = np.flatnonzero(numbers >= 0)
    count = int(numbers.max()) + 1
    sums = np.zeros((count, coordinates.shape[1]))
    np.add.at(sums, numbers[known], coordinates[known])
    sizes = np.bincount(numbers[known], minlength=count).astype(np.float64)
    return sums / np.maximum(sizes, 1.0)[:, None], known, sizes


def _normalised(scatter: Float64) -> Float64:
    """Scale to a mean variance of 1."""
    return scatter * (len(scatter) / (float(np.trace(scatter)) or 1.0))


def _root_of_inverse(covariance: Float64, shrinkage: float) -> Float64:
    d = len(covariance)
    shrunk = (1 - shrinkage) * covariance + shrinkage * float(np.trace(covariance)) / d * np.eye(d)
    variance, axes = np.linalg.eigh(shrunk)
    # All slides of a class alike: nothing varies within classes, and there is nothing to divide by.
    variance = np.where(variance > 1e-12 * variance.max(initial=0.0), variance, 1.0)
    root: Float64 = axes / np.sqrt(variance)
    return root
