"""Facts about the training slides from one pass over them: checks, counts, numbers of sites and labels, statistics."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slideseek.errors import SlideseekError
from slideseek.types import Bag, Float64, Int64, Mask
from slideseek_components.encoders.bags import finite_features

_ROWS = 1024


@dataclass(frozen=True)
class TrainingSet:
    """The training slides, one entry per bag, without their features.

    counts: int64, patches. sites, labels: int64, numbers into the sorted `site_names` and `label_names` (0 if
    they are not used). validation: bool, the slides held out. shift, scale: float64 (width,), mean and
    standard deviation of the training patches. fingerprint: SHA-256 of everything that affects training.
    """

    width: int
    counts: Int64
    site_names: tuple[str, ...]
    label_names: tuple[str, ...]
    sites: Int64
    labels: Int64
    validation: Mask
    shift: Float64
    scale: Float64
    fingerprint: str

    @property
    def training_counts(self) -> Int64:
        """Patches of each bag to train on."""
        return np.where(self.validation, 0, self.counts)

    @property
    def validation_counts(self) -> Int64:
        """Patches of each bag to validate on."""
        return np.where(self.validation, self.counts, 0)


def survey(
    bags: Sequence[Bag],
    labels: Sequence[str],
    groups: Sequence[str],
    *,
    with_sites: bool,
    with_labels: bool,
    validation: float,
    seed: int,
) -> TrainingSet:
    """Read every bag once and return what training needs to know.

    with_sites, with_labels: a slide without one is then an error. validation: share of the patients to hold out.
    """
    if not len(bags) == len(labels) == len(groups):
        raise ValueError(f"{len(bags)} bags, {len(labels)} labels and {len(groups)} groups: give one of each per slide")
    held_out = split(groups, validation, seed)
    digest = hashlib.sha256()
    counts, sites, width = np.zeros(len(bags), dtype=np.int64), [""] * len(bags), 0
    moments = Moments()
    for i in range(len(bags)):
        bag = bags[i]
        sites[i] = bag.site
        counts[i] = len(bag)
        digest.update(repr((bag.slide_id, bag.site, labels[i], groups[i], bag.features.shape)).encode())
        if len(bag) == 0:
            continue
        finite_features(bag, width or None)
        width = bag.width
        if with_sites and not bag.site:
            raise SlideseekError(
                f"training slide {bag.slide_id!r} has no site",
                "set its site, or set sites = 0 and statistics = 'all' (unconditioned)",
            )
        if with_labels and not labels[i]:
            raise SlideseekError(
                f"training slide {bag.slide_id!r} has no label",
                "set its label, exclude the slide, or set labels = 0 (no classifier) and selection = 'variance'",
            )
        for start in range(0, len(bag), _ROWS):
            rows = bag.features[start : start + _ROWS]
            digest.update(np.ascontiguousarray(rows).data)
            if not held_out[i]:
                moments.add(rows.astype(np.float64))
    if counts[~held_out].sum() == 0:
        raise SlideseekError("no training slide has patches", "add slides with features, or lower validation")
    used = counts > 0
    site_names = _names(sites, used) if with_sites else ()
    label_names = _names(labels, used) if with_labels else ()
    shift, variance = moments.mean, moments.m2 / moments.count
    return TrainingSet(
        width,
        counts,
        site_names,
        label_names,
        _numbers(sites, site_names),
        _numbers(labels, label_names),
        held_out,
        shift,
        np.where(variance > 0, np.sqrt(variance), 1.0),
        digest.hexdigest(),
    )


def split(groups: Sequence[str], share: float, seed: int) -> Mask:
    """Return bool (len(groups),), true for slides held out: whole patients, at least one and never all of them.

    A slide without a patient is its own patient.
    """
    names = [group or f"\0{i}" for i, group in enumerate(groups)]
    patients = sorted(set(names))
    if share == 0 or not patients:
        return np.zeros(len(names), dtype=np.bool_)
    if len(patients) < 2:
        raise SlideseekError(
            "validation needs slides of at least two patients, but there is only one",
            "set validation = 0 or add patients",
        )
    count = min(max(round(share * len(patients)), 1), len(patients) - 1)
    chosen = np.random.default_rng([seed, 0x5EED]).permutation(len(patients))[:count]
    out = {patients[i] for i in chosen}
    return np.array([name in out for name in names], dtype=np.bool_)


class Moments:
    """Mean and summed squared deviation of rows that arrive in chunks (Chan's update, float64)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: Float64 = np.zeros(0)
        self.m2: Float64 = np.zeros(0)

    def add(self, rows: Float64) -> None:
        """Add float64 (n, width), which is overwritten, to avoid another array of that size."""
        mean = rows.mean(axis=0)
        rows -= mean
        self.merge(len(rows), mean, np.square(rows, out=rows).sum(axis=0))

    def merge(self, count: int, mean: Float64, m2: Float64) -> None:
        """Add `count` rows known by their own mean and summed squared deviation."""
        if self.count == 0:
            self.count, self.mean, self.m2 = count, mean.copy(), m2.copy()
            return
        total = self.count + count
        step = mean - self.mean
        self.mean += step * (count / total)
        self.m2 += m2
        step *= step
        step *= self.count * count / total
        self.m2 += step
        self.count = total


def _names(values: Sequence[str], used: Mask) -> tuple[str, ...]:
    return tuple(sorted({value for value, here in zip(values, used) if here}))


def _numbers(values: Sequence[str], names: tuple[str, ...]) -> Int64:
    number = {name: i for i, name in enumerate(names)}
    return np.array([number.get(value, 0) for value in values], dtype=np.int64)
