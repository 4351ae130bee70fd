"""Split the similarity of two codes over the patches of one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from slideseek.types import Float32, Float64, Int64, Mask
from slideseek_plugins.encoders.deep.extraction import Entries, Trace
from slideseek_plugins.encoders.deep.gradients import Gradients
from slideseek_plugins.encoders.deep.selection import Table

_BLOCK = 4096


@dataclass(frozen=True)
class Evidence:
    """The patches of one slide and the entries of the gradient its code is made of."""

    gradients: Gradients
    features: Float32
    site: int
    entries: tuple[Entries, ...]
    table: Table

    def mean(self) -> Float64:
        """Return the centred mean gradient, float64 (M,), added up in float64 from the parts `weigh` weighs."""
        total = np.zeros(sum(len(entry.place) for entry in self.entries))
        for _, entry, trace in self._traces():
            total[entry.place] += entry.sums(trace)
        mean = total / len(self.features)
        return mean if self.table.centre is None else mean - self.table.centre

    def weigh(self, weights: Float64) -> Float64:
        """Return float64 (n,): the inner product of `weights` (M,) with every patch's share of `mean`."""
        matrices = {}
        for entry in self.entries:
            matrix = torch.zeros((len(entry.rows), len(entry.columns)), dtype=torch.float64)
            matrix[entry.row, entry.column] = torch.from_numpy(weights[entry.place])
            matrices[entry.layer] = matrix
        parts = np.zeros(len(self.features))
        for rows, entry, trace in self._traces():
            delta, inward = entry.columns_of(trace)
            parts[rows] += ((delta.T @ matrices[entry.layer]) * inward.T).sum(dim=1).numpy()
        offset = 0.0 if self.table.centre is None else float((weights * self.table.centre).sum())
        return (parts - offset) / len(self.features)

    def pushes(self, own: Mask, agree: Mask) -> Float64:
        """Return float64 (n,): the share of equal bits that each patch pushes; the parts add up to the share of them.

        own: bool (M,), the bits of the slide itself. agree: bool (M,), where the other code has the same bit. A
        bit's share goes to the patches whose own (centred) gradient has its sign, in proportion to their size; a
        bit that nobody pushes (a gradient that is 0 in every patch) is shared by all.
        """
        sign = np.where(own, 1.0, -1.0)
        total = np.zeros(len(own))
        for _, place, push in self._pushes(sign):
            total[place] += push.sum(axis=0)
        credit = np.divide(agree, total, out=np.zeros_like(total), where=total > 0)
        idle = np.count_nonzero(agree & (total == 0)) / len(self.features)
        parts = np.full(len(self.features), idle)
        for rows, place, push in self._pushes(sign):
            parts[rows] += (push * credit[place]).sum(axis=1)
        return parts / len(own)

    def _pushes(self, sign: Float64) -> Iterator[tuple[Int64, Int64, Float64]]:
        """Yield (rows, entries, how hard each of the rows pushes each of the entries to its sign), bounded blocks."""
        for rows, entry, trace in self._traces():
            delta, inward = entry.columns_of(trace)
            for start in range(0, len(entry.place), _BLOCK):
                part = slice(start, start + _BLOCK)
                place = entry.place[part]
                values = (delta.index_select(0, entry.row[part]) * inward.index_select(0, entry.column[part])).T.numpy()
                if self.table.centre is not None:
                    values = values - self.table.centre[place]
                yield rows, place, np.maximum(values * sign[place], 0.0)

    def _traces(self) -> Iterator[tuple[Int64, Entries, Trace]]:
        wanted = [entry.layer for entry in self.entries]
        for rows, traces in self.gradients.traces(self.features, self.site, wanted):
            for entry in self.entries:
                trace = traces[entry.layer]
                yield rows, entry, Trace(trace.delta.double(), trace.inward.double())
