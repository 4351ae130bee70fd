"""Which entries of the gradient a code keeps, and how they are centred and scaled: learnt from training slides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from slideseek.types import Float32, Float64, Int64
from slideseek_components.encoders.deep.settings import Selection, Settings
from slideseek_components.encoders.deep.training_set import Moments, TrainingSet


@dataclass(frozen=True)
class KeptEntries:
    """The entries of the gradient that a code keeps, and what turns them into the values of the code.

    chosen: int64 (M,), ascending positions, None for all. centre, scale: float32 (M,), subtracted and then divided
    by, None if off.
    """

    chosen: Int64 | None
    centre: Float32 | None
    scale: Float32 | None

    def apply(self, gradient: Float32 | Float64) -> Float32 | Float64:
        """Centre and scale the chosen values of a gradient, (M,)."""
        values = gradient
        if self.centre is not None:
            values = values - self.centre
        if self.scale is not None:
            values = values / self.scale
        return values


@dataclass(frozen=True)
class Spread:
    """How each entry of the gradient varies over training slides: float64 (size,) each.

    within: summed squared deviation from the mean of the slide's own class. total: from the mean of all.
    """

    slides: int
    classes: int
    mean: Float64
    total: Float64
    within: Float64

    @property
    def variance(self) -> Float64:
        """Variance over slides."""
        return self.total / max(1, self.slides)

    @property
    def separation(self) -> Float64:
        """Between-class over within-class variance (the F ratio); 0 where nothing varies.

        If no class has two slides, the within-class variance is unknown, and only the between-class variance is
        returned.
        """
        between = np.maximum(self.total - self.within, 0.0) / max(1, self.classes - 1)
        within = self.within / max(1, self.slides - self.classes)
        # For entries that hardly vary the ratio is only rounding error: a floor keeps them last.
        floor = 1e-6 * float(within.max(initial=0.0)) or 1.0
        return between / (within + floor)


def spread(gradients: Iterable[tuple[str, Float32 | Float64]]) -> Spread:
    """Measure (class, gradient) pairs that arrive with the slides of a class together, one gradient at a time."""
    overall, own = Moments(), Moments()
    within: Float64 = np.zeros(0)
    current, classes = None, 0

    def close() -> None:
        nonlocal within
        within = own.m2 if classes == 1 else within + own.m2
        overall.merge(own.count, own.mean, own.m2)

    for label, gradient in gradients:
        if label != current:
            if classes:
                close()
            own, current, classes = Moments(), label, classes + 1
        values = gradient.astype(np.float64)
        own.merge(1, values, np.zeros_like(values))
    close()
    return Spread(overall.count, classes, overall.mean, overall.m2, within)


def choose(found: Spread, by: Selection, count: int) -> Int64:
    """Return the ascending positions of the `count` entries with the highest variance or class separation."""
    score = found.variance if by == "variance" else found.separation
    # With one class nothing separates: ties are then broken by variance. The sort is stable, so remaining ties, such as
    # entries that never vary, go to the lower position on every machine.
    return np.sort(np.lexsort((-found.variance, -score))[:count]).astype(np.int64)


def keep_entries(found: Spread, settings: Settings) -> KeptEntries:
    """Return the entries that `settings` keep, with their centre and scale."""
    chosen = choose(found, settings.selection, settings.keep) if settings.keep else None
    kept = slice(None) if chosen is None else chosen
    scale = None
    if settings.scale:
        deviation = np.sqrt(found.variance[kept]).astype(np.float32)
        scale = np.where(deviation > 0, deviation, np.float32(1))
    return KeptEntries(chosen, found.mean[kept].astype(np.float32) if settings.centre else None, scale)


def learn_entries(
    gradients: Callable[[Sequence[int]], Iterable[tuple[str, Float32 | Float64]]],
    labels: Sequence[str],
    known: TrainingSet,
    settings: Settings,
) -> dict[str, KeptEntries]:
    """Learn which entries to keep, per site or under "" for all slides, from whole gradients held one at a time.

    gradients: returns (label, gradient) of the slides with these numbers. A site with one slide keeps those of all.
    """
    if not settings.learns_from_gradients:
        return {"": KeptEntries(None, None, None)}
    order = [i for i in sorted(range(len(labels)), key=lambda i: (labels[i], i)) if known.counts[i]]
    if not settings.by_site:
        return {"": keep_entries(spread(gradients(order)), settings)}
    kept, lonely = {}, []
    for number, site in enumerate(known.site_names):
        own = [i for i in order if known.sites[i] == number]
        if len(own) < 2:
            lonely.append(site)
        else:
            kept[site] = keep_entries(spread(gradients(own)), settings)
    if lonely:
        kept |= dict.fromkeys(lonely, keep_entries(spread(gradients(order)), settings))
    return kept
