"""Split the similarity of two codes over the patches of one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from slideseek.types import Float32, Float64, Mask
from slideseek_plugins.encoders.deep.extraction import Entries, Trace
from slideseek_plugins.encoders.deep.gradients import Gradients
from slideseek_plugins.encoders.deep.selection import Table

_BLOCK = 4096


def exact_mean(gradients: Gradients, features: Float32, site: int, entries: Sequence[Entries]) -> Float64:
    """Return the mean gradient at `entries`, float64 (M,), added up in float64 from the parts `weigh` weighs."""
    total = np.zeros(sum(len(entry.place) for entry in entries))
    for _, traces in gradients.traces(features, site, [entry.layer for entry in entries]):
        for entry in entries:
            total[entry.place] += entry.sums(_double(traces[entry.layer]))
    return total / len(features)


def weigh(gradients: Gradients, features: Float32, site: int, entries: Sequence[Entries], weights: Float64) -> Float64:
    """Return float64 (n,): the inner product of `weights` (M,) with every patch's own gradient at `entries`."""
    matrices = []
    for entry in entries:
        matrix = torch.zeros((len(entry.rows), len(entry.columns)), dtype=torch.float64, device=entry.rows.device)
        matrix[entry.row, entry.column] = torch.from_numpy(weights[entry.place]).to(matrix.device)
        matrices.append(matrix)
    parts = np.zeros(len(features))
    for rows, traces in gradients.traces(features, site, [entry.layer for entry in entries]):
        for entry, matrix in zip(entries, matrices):
            delta, inward = entry.columns_of(_double(traces[entry.layer]))
            parts[rows] += ((delta.T @ matrix) * inward.T).sum(dim=1).cpu().numpy()
    return parts


def pushes(
    gradients: Gradients,
    features: Float32,
    site: int,
    entries: Sequence[Entries],
    table: Table,
    own: Mask,
    agree: Mask,
) -> Float64:
    """Return float64 (n,): the share of equal bits that each patch pushes; the parts add up to the share of them.

    own: bool (M,), the bits of the slide itself. agree: bool (M,), where the other code has the same bit. A bit's
    share goes to the patches whose own (centred) gradient has its sign, in proportion to their size; a bit that
    nobody pushes (a gradient that is 0 in every patch) is shared by all.
    """
    sign = np.where(own, 1.0, -1.0)

    def pushed() -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Float64]]:
        for rows, traces in gradients.traces(features, site, [entry.layer for entry in entries]):
            for entry in entries:
                delta, inward = entry.columns_of(_double(traces[entry.layer]))
                for start in range(0, len(entry.place), _BLOCK):
                    part = slice(start, start + _BLOCK)
                    place = entry.place[part]
                    values = (delta[entry.row[part]] * inward[entry.column[part]]).T.cpu().numpy()
                    if table.centre is not None:
                        values = values - table.centre[place]
                    yield rows, place, np.maximum(values * sign[place], 0.0)

    total = np.zeros(len(own))
    for _, place, push in pushed():
        total[place] += push.sum(axis=0)
    credit = np.divide(agree, total, out=np.zeros_like(total), where=total > 0)
    parts = np.full(len(features), np.count_nonzero(agree & (total == 0)) / len(features))
    for rows, place, push in pushed():
        parts[rows] += (push * credit[place]).sum(axis=1)
    return parts / len(own)


def _double(trace: Trace) -> Trace:
    return Trace(trace.delta.double(), trace.inward.double())
