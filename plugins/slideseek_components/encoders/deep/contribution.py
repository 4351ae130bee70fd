"""Split the similarity of two codes over the patches of one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from slideseek.types import Float32, Float64, Int64, Mask
from slideseek_components.encoders.deep.kept_entries import KeptEntries
from slideseek_components.encoders.deep.patch_gradients import LayerEntries, LayerTrace
from slideseek_components.encoders.deep.slide_gradients import Gradients

_BLOCK = 4096


@dataclass(frozen=True)
class PatchShares:
    """The contribution of each patch of one slide to the gradient entries that its code keeps.

    All products and sums are in float64.
    """

    gradients: Gradients
    features: Float32
    site: int
    entries: tuple[LayerEntries, ...]
    kept: KeptEntries

    def mean(self) -> Float64:
        """Return the centred mean gradient, float64 (M,), added up from the parts that `weigh` weighs."""
        total = np.zeros(sum(len(entry.place) for entry in self.entries))
        for _, place, values in self._shares():
            total[place] += values.sum(axis=0)
        return total / len(self.features)

    def weigh(self, weights: Float64) -> Float64:
        """Return float64 (n,): the inner product of `weights` (M,) with every patch's share of `mean`."""
        parts = np.zeros(len(self.features))
        for rows, place, values in self._shares():
            parts[rows] += (values * weights[place]).sum(axis=1)
        return parts / len(self.features)

    def pushes(self, own: Mask, agree: Mask) -> Float64:
        """Return float64 (n,): the share of equal bits that each patch pushes; the parts add up to the share of them.

        own: bool (M,), the bits of the slide itself. agree: bool (M,), where the other code has the same bit. A
        bit's share goes to the patches whose own (centred) gradient has its sign, in proportion to their size; a
        bit without any such patch (its gradient is 0 in every patch) is shared by all.
        """
        sign = np.where(own, 1.0, -1.0)
        total = np.zeros(len(own))
        for _, place, values in self._shares():
            total[place] += np.maximum(values * sign[place], 0.0).sum(axis=0)
        credit = np.divide(agree, total, out=np.zeros_like(total), where=total > 0)
        parts = np.full(len(self.features), np.count_nonzero(agree & (total == 0)) / len(self.features))
        for rows, place, values in self._shares():
            parts[rows] += (np.maximum(values * sign[place], 0.0) * credit[place]).sum(axis=1)
        return parts / len(own)

    def _shares(self) -> Iterator[tuple[Int64, Int64, Float64]]:
        """Yield (row numbers, entries, centred gradients of those patches at those entries), block by block."""
        layers = [entry.layer for entry in self.entries]
        for rows, traces in self.gradients.traces(self.features, self.site, layers):
            for entry in self.entries:
                trace = LayerTrace(traces[entry.layer].delta.double(), traces[entry.layer].inward.double())
                for start in range(0, len(entry.place), _BLOCK):
                    part = slice(start, start + _BLOCK)
                    place = entry.place[part]
                    values: Float64 = entry.products(trace, part).numpy()
                    if self.kept.centre is not None:
                        values = values - self.kept.centre[place]
                    yield rows, place, values
