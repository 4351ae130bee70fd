"""The summed gradient of a set of patches from the traces of the layers: whole, or single entries of it.

The sum over patches of a layer's outer products is one matrix product, and a single entry of it is one inner product of
two columns, so that a code of M entries never needs the whole gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from slideseek.types import Float64, Int32, Int64
from slideseek_components.encoders.deep.products import entry_sums
from slideseek_components.encoders.deep.traces import Trace, Traces
from slideseek_components.encoders.deep.workers import longest_first

_SMALL = 2**16
"""Weights of a layer up to which its sums are no task of their own: threads would spend more time on meeting."""


@dataclass(frozen=True)
class Entries:
    """Single parameters of one layer: weights first, then biases.

    row: int32 (m,), outputs. column: int32 (weights,), inputs. place: int64 (m,), where their gradients go in the
    result.
    """

    layer: str
    row: Int32
    column: Int32
    place: Int64

    def sums(self, trace: Trace) -> Float64:
        """Return float64 (m,): the gradients of these parameters summed over the patches of `trace`."""
        found: Float64
        if trace.delta.device.type != "cpu":
            found = self.products(trace).sum(dim=0).cpu().numpy().astype(np.float64)
            return found
        found = entry_sums(trace.delta.numpy(), trace.inward.numpy(), *self._met)
        return found

    @cached_property
    def _met(self) -> tuple[Int32, Int32, Int32, Int32]:
        """The distinct outputs and inputs, and the numbers of each entry's among them."""
        rows, row = np.unique(self.row, return_inverse=True)
        columns, column = np.unique(self.column, return_inverse=True)
        return rows, columns, row.astype(np.int32), column.astype(np.int32)

    def products(self, trace: Trace, part: slice = slice(None)) -> Tensor:
        """Return (n, m): the gradients of these parameters (or a `part` of them) for every patch."""
        row, column = self.row[part], self.column[part]
        delta = trace.delta.index_select(1, torch.from_numpy(row).to(trace.delta.device))
        weights = trace.inward.index_select(1, torch.from_numpy(column).to(trace.delta.device))
        delta[:, : len(column)] *= weights
        return delta


def entries_of(layers: dict[str, tuple[int, int]], chosen: Int64) -> tuple[Entries, ...]:
    """Return the entries that the flat positions `chosen`, int64 (M,), name among the parameters of `layers`."""
    found, start = [], 0
    for name, (outputs, inputs) in layers.items():
        middle, stop = start + outputs * inputs, start + outputs * (inputs + 1)
        weights = np.flatnonzero((chosen >= start) & (chosen < middle))
        biases = np.flatnonzero((chosen >= middle) & (chosen < stop))
        if len(weights) or len(biases):
            row = np.concatenate([(chosen[weights] - start) // inputs, chosen[biases] - middle]).astype(np.int32)
            column = ((chosen[weights] - start) % inputs).astype(np.int32)
            found.append(Entries(name, row, column, np.concatenate([weights, biases])))
        start = stop
    return tuple(found)


def full_sums(layers: dict[str, tuple[int, int]], traces: Traces, out: Tensor) -> list[Callable[[], None]]:
    """Return tasks that write the summed gradients of all parameters of `layers` into `out`, flattened in parameter
    order: one a layer, and one for all layers that are small. The traces may be written later than this is called."""
    lengths = [length for outputs, inputs in layers.values() for length in (outputs * inputs, outputs)]
    parts = iter(out.split_with_sizes(lengths))
    tasks: list[tuple[int, Callable[[], None]]] = []
    small: list[Callable[[], None]] = []
    for name, (outputs, inputs) in layers.items():
        task = partial(_write_sums, traces[name], next(parts).view(outputs, inputs), next(parts))
        if outputs * inputs > _SMALL:
            tasks.append((outputs * inputs, task))
        else:
            small.append(task)
    if small:
        tasks.append((0, partial(_each, small)))
    return longest_first(tasks)


def _write_sums(trace: Trace, weights: Tensor, biases: Tensor) -> None:
    own = trace.aligned()
    torch.mm(own.delta.T, own.inward, out=weights)
    torch.sum(own.delta, dim=0, out=biases)


def _each(tasks: Iterable[Callable[[], None]]) -> None:
    for task in tasks:
        task()
