"""The gradient of Eq. 15: of each of a set of patches, in closed form and without a graph, and its sum over patches.

For a fully connected layer the gradient of a patch is the outer product of the gradient at the layer's output
(`delta`, n x outputs) and the layer's input (`inward`, n x inputs): these two are the layer's trace. The sum of the
outer products over patches is one matrix product, and a single entry of it is the inner product of two columns. A code
of M entries therefore never needs the whole gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from slideseek.types import Float64, Int32, Int64
from slideseek_components.encoders.deep.entry_sums import entry_sums
from slideseek_components.encoders.deep.network import CVAE, Shape
from slideseek_components.single_core import longest_first

_softmax_back = torch.ops.aten._softmax_backward_data.out

_SHARED = ("logvar", "logits")
"""Layers with the same input as `mu`; the backward pass goes through all of them together."""

_SMALL = 2**16
"""Layers with at most this many weights are not separate tasks: synchronising threads would cost more."""


@dataclass(frozen=True)
class LayerTrace:
    """The trace of a layer for n patches: delta (n, outputs) and inward (n, inputs)."""

    delta: Tensor
    inward: Tensor

    def aligned(self) -> LayerTrace:
        """Return the trace where memory begins, so that every slide of a pass is treated as the first one is: a
        precaution, no bit was seen to depend on it."""
        return LayerTrace(*(t.clone() if t.storage_offset() else t for t in (self.delta, self.inward)))


@dataclass(frozen=True)
class Traces:
    """The traces of all layers: inward (n, inputs) of each, delta (n, outputs) of those the backward pass reaches.

    span: the rows in use. `logvar` has no effect when z = mu: its delta is all zeros.
    """

    inward: dict[str, Tensor]
    delta: dict[str, Tensor]
    span: slice

    @classmethod
    def unwritten(cls, shape: Shape, n: int, wanted: Iterable[str], dtype: torch.dtype, device: torch.device) -> Traces:
        """Return traces of `n` patches yet to be written, with delta for all `wanted` layers and what comes after
        them. The network's input is `inward["encoder.0"]`."""
        layers = shape.layers()
        empty, zeros = (partial(make, dtype=dtype, device=device) for make in (torch.empty, torch.zeros))
        inward = {name: empty((n, inputs)) for name, (_, inputs) in layers.items() if name not in _SHARED}
        inward |= {name: inward["mu"] for name in _SHARED if name in layers}
        names = list(layers)
        first = names.index(min(wanted, key=names.index, default=names[-1]))
        if names[first] in _SHARED:
            first = names.index("mu")
        delta = {name: (zeros if name == "logvar" else empty)((n, layers[name][0])) for name in names[first:]}
        return cls(inward, delta, slice(0, n))

    def __getitem__(self, layer: str) -> LayerTrace:
        return LayerTrace(self.delta[layer][self.span], self.inward[layer][self.span])

    def rows(self, start: int, stop: int) -> Traces:
        """Return the part of patches `start` to `stop` of these, in the same memory."""
        return replace(self, span=slice(self.span.start + start, self.span.start + stop))

    def cut(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return inward and delta of the rows in use."""
        inward, delta = ({name: t[self.span] for name, t in part.items()} for part in (self.inward, self.delta))
        return inward, delta


class Pass:
    """The forward and backward pass of patches through a network. Weights are looked up once, to save time."""

    def __init__(self, network: CVAE) -> None:
        self._network = network
        self._weight = {name: network.layer(name).weight.detach() for name in network.shape.layers()}
        self._transposed = {name: weight.T for name, weight in self._weight.items()}
        self._bias = {name: network.layer(name).bias.detach() for name in network.shape.layers()}

    def __call__(self, traces: Traces, site: Tensor, factor: Tensor) -> None:
        """Write the `traces` of patches for the loss sum_t w_t ||x_t - xhat_t||^2 with z = mu (Eq. 15).

        traces: as `Traces.unwritten` makes them, whole or some rows. site: (n, sites), the sites one-hot. factor:
        (n, 1), 2 w_t: w_t = 1 / n turns sums over patches into means. The backward pass ends at the first layer with
        a delta.
        """
        with torch.no_grad():
            inward, delta = traces.cut()
            self._forward(inward, delta, site)
            last = f"decoder.{len(self._network.decoder) - 1}"
            delta[last].sub_(inward["encoder.0"]).mul_(factor)
            self._back(inward, delta)

    def _forward(self, inward: dict[str, Tensor], delta: dict[str, Tensor], site: Tensor) -> None:
        """Write the input of each layer, and the reconstruction in place of the last layer's delta."""
        network = self._network
        for name, after in pairwise([*(f"encoder.{i}" for i in range(len(network.encoder))), "mu"]):
            network.act(self._through(name, inward, inward[after]))
        parts = [self._through("mu", inward), site]
        if network.shape.labels:
            parts.append(self._through("logits", inward).softmax(dim=1))
        torch.cat(parts, dim=1, out=inward["decoder.0"])
        last = len(network.decoder) - 1
        for i in range(last):
            network.act(self._through(f"decoder.{i}", inward, inward[f"decoder.{i + 1}"]))
        self._through(f"decoder.{last}", inward, delta[f"decoder.{last}"])

    def _back(self, inward: dict[str, Tensor], delta: dict[str, Tensor]) -> None:
        """Write the delta of each layer, starting from the last one."""
        network, shape = self._network, self._network.shape
        for i in range(len(network.decoder) - 1, 0, -1):
            self._before(f"decoder.{i}", f"decoder.{i - 1}", inward, delta)
        if "mu" not in delta:
            return
        back = torch.mm(delta["decoder.0"], self._weight["decoder.0"])
        delta["mu"].copy_(back[:, : shape.latent])
        if shape.labels:
            chance, pushed = inward["decoder.0"][:, -shape.labels :], back[:, -shape.labels :]
            _softmax_back(pushed, chance, 1, chance.dtype, grad_input=delta["logits"])
        top = len(network.encoder) - 1
        if f"encoder.{top}" not in delta:
            return
        into = torch.mm(delta["mu"], self._weight["mu"], out=delta[f"encoder.{top}"])
        if shape.labels:
            into.addmm_(delta["logits"], self._weight["logits"])
        network.back(into, inward["mu"])
        for i in range(top, 0, -1):
            self._before(f"encoder.{i}", f"encoder.{i - 1}", inward, delta)

    def _through(self, name: str, inward: dict[str, Tensor], out: Tensor | None = None) -> Tensor:
        """Return a layer's output before the activation, written to `out` if given."""
        return torch.addmm(self._bias[name], inward[name], self._transposed[name], out=out)

    def _before(self, name: str, before: str, inward: dict[str, Tensor], delta: dict[str, Tensor]) -> None:
        """Write delta of the layer `before` where it is wanted: back through the weights of `name` and the
        activation."""
        if before in delta:
            into = torch.mm(delta[name], self._weight[name], out=delta[before])
            self._network.back(into, inward[name])


def full_sums(layers: dict[str, tuple[int, int]], traces: Traces, out: Tensor) -> list[Callable[[], None]]:
    """Return tasks that write the summed gradients of all parameters of `layers` into `out`, flattened in parameter
    order: one per layer, and one for all layers that are small. The traces may be written later than this is called."""
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


def _write_sums(trace: LayerTrace, weights: Tensor, biases: Tensor) -> None:
    own = trace.aligned()
    torch.mm(own.delta.T, own.inward, out=weights)
    torch.sum(own.delta, dim=0, out=biases)


def _each(tasks: Iterable[Callable[[], None]]) -> None:
    for task in tasks:
        task()


@dataclass(frozen=True)
class LayerEntries:
    """Single parameters of one layer: weights first, then biases.

    row: int32 (m,), outputs. column: int32 (weights,), inputs. place: int64 (m,), where their gradients go in the
    result.
    """

    layer: str
    row: Int32
    column: Int32
    place: Int64

    def sums(self, trace: LayerTrace) -> Float64:
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

    def products(self, trace: LayerTrace, part: slice = slice(None)) -> Tensor:
        """Return (n, m): the gradients of these parameters (or a `part` of them) for every patch."""
        row, column = self.row[part], self.column[part]
        delta = trace.delta.index_select(1, torch.from_numpy(row).to(trace.delta.device))
        weights = trace.inward.index_select(1, torch.from_numpy(column).to(trace.delta.device))
        delta[:, : len(column)] *= weights
        return delta


def entries_of(layers: dict[str, tuple[int, int]], chosen: Int64) -> tuple[LayerEntries, ...]:
    """Return the entries that the flat positions `chosen`, int64 (M,), name among the parameters of `layers`."""
    found, start = [], 0
    for name, (outputs, inputs) in layers.items():
        middle, stop = start + outputs * inputs, start + outputs * (inputs + 1)
        weights = np.flatnonzero((chosen >= start) & (chosen < middle))
        biases = np.flatnonzero((chosen >= middle) & (chosen < stop))
        if len(weights) or len(biases):
            row = np.concatenate([(chosen[weights] - start) // inputs, chosen[biases] - middle]).astype(np.int32)
            column = ((chosen[weights] - start) % inputs).astype(np.int32)
            found.append(LayerEntries(name, row, column, np.concatenate([weights, biases])))
        start = stop
    return tuple(found)


@dataclass(frozen=True)
class NarrowedLayer:
    """The outputs of the first layer that a code uses; the others are not needed, since the backward pass ends there.

    layer: its name. following: the layer that its outputs go into. rows: int64 (u,), which outputs, ascending.
    weight: (outputs of `following`, u), their weights there.
    """

    layer: str
    following: str
    rows: Tensor
    weight: Tensor

    def trace(self, network: CVAE, traces: Traces) -> LayerTrace:
        """Return delta (n, u) and inward (n, inputs) of the layer, from the traces of one slide's patches.

        Each slide is processed alone: the product does not depend on other slides in the pass.
        """
        after = traces[self.following].aligned()
        activated = after.inward.index_select(1, self.rows)
        return LayerTrace(network.back(after.delta @ self.weight, activated), traces.inward[self.layer][traces.span])


def narrowed(network: CVAE, entries: tuple[LayerEntries, ...]) -> tuple[tuple[LayerEntries, ...], NarrowedLayer | None]:
    """Return `entries` with the first layer's outputs renumbered among those used, and how to compute these.

    Returns None if this saves nothing: most outputs are used, or they go into several layers.
    """
    first = entries[0]
    group, _, number = first.layer.partition(".")
    following = f"{group}.{int(number) + 1}" if number else ""
    layers = network.shape.layers()
    rows, row = np.unique(first.row, return_inverse=True)
    if following not in layers or 2 * len(rows) > layers[first.layer][0]:
        return entries, None
    weight = network.layer(following).weight.detach()
    chosen = torch.from_numpy(rows.astype(np.int64)).to(weight.device)
    narrow = NarrowedLayer(first.layer, following, chosen, weight.index_select(1, chosen))
    return (replace(first, row=row.astype(np.int32)), *entries[1:]), narrow
