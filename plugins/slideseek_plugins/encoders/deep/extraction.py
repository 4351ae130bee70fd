"""The gradient of the reconstruction loss of a set of patches, in closed form and without a graph.

For a fully connected layer the gradient of a patch is the outer product of what comes back to the layer's output
(`delta`, n x outputs) and what went into it (`inward`, n x inputs). The sum over patches is one matrix product, and
a single entry of it is one inner product of two columns, so that a code of M entries never needs the whole gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from slideseek.types import Float64, Int32, Int64
from slideseek_plugins.encoders.deep.network import CVAE
from slideseek_plugins.encoders.deep.products import entry_sums


@dataclass(frozen=True)
class Trace:
    """What a layer saw of n patches: delta (n, outputs) and inward (n, inputs)."""

    delta: Tensor
    inward: Tensor

    def rows(self, start: int, stop: int) -> Trace:
        """Return the part of patches `start` to `stop`."""
        return Trace(self.delta[start:stop], self.inward[start:stop])

    def aligned(self) -> Trace:
        """Return the trace where memory begins, so that every slide of a pass is treated as the first one is."""
        return Trace(*(t.clone() if t.storage_offset() else t for t in (self.delta, self.inward)))


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


def backpropagate(
    network: CVAE,
    x: Tensor,
    site: Tensor,
    wanted: Sequence[str],
    weight: Tensor | None = None,
    fed: Sequence[str] = (),
) -> dict[str, Trace]:
    """Return the traces of the `wanted` layers for the loss sum_t w_t ||x_t - xhat_t||^2 with z = mu (Eq. 15).

    x: (n, width), the network's input, in the network's type. site: int64 (n,). weight: w (n,), ones when None, so
    that 1 / n a patch makes sums over patches means. fed: further layers of which only what goes in is returned, with
    a delta of no columns. The pass stops at the first wanted layer. `logvar` takes no part when z = mu: its trace is
    all zeros.
    """
    with torch.no_grad():
        inward = {"encoder.0": x}
        for i, layer in enumerate(network.encoder):
            inward[f"encoder.{i + 1}"] = network.act(layer(inward[f"encoder.{i}"]))
        h = inward.pop(f"encoder.{len(network.encoder)}")
        inward |= {"mu": h, "logvar": h}
        parts = [network.mu(h)]
        if network.shape.sites:
            parts.append(torch.eye(network.shape.sites, dtype=x.dtype, device=x.device)[site])
        chance = None
        if network.logits is not None:
            inward["logits"] = h
            chance = network.logits(h).softmax(dim=1)
            parts.append(chance)
        inward["decoder.0"] = torch.cat(parts, dim=1)
        last = len(network.decoder) - 1
        for i in range(last):
            inward[f"decoder.{i + 1}"] = network.act(network.decoder[i](inward[f"decoder.{i}"]))
        error = network.decoder[last](inward[f"decoder.{last}"]).sub_(x)
        delta = {f"decoder.{last}": error.mul_(2.0 if weight is None else 2.0 * weight[:, None])}

        need = _Need(list(network.shape.layers()), wanted)
        for i in range(last, 0, -1):
            if need.before(f"decoder.{i}"):
                delta[f"decoder.{i - 1}"] = _through(network, f"decoder.{i}", delta, inward[f"decoder.{i}"])
        if need.before("decoder.0"):
            back = delta["decoder.0"] @ network.layer("decoder.0").weight
            delta["mu"] = back[:, : network.shape.latent].contiguous()
            delta["logvar"] = torch.zeros_like(delta["mu"])
            into = delta["mu"] @ network.mu.weight
            if chance is not None and network.logits is not None:
                pushed = back[:, -network.shape.labels :]
                delta["logits"] = chance * (pushed - (chance * pushed).sum(dim=1, keepdim=True))
                into = into + delta["logits"] @ network.logits.weight
            top = len(network.encoder) - 1
            delta[f"encoder.{top}"] = network.back(into, h)
            for i in range(top, 0, -1):
                if need.before(f"encoder.{i}"):
                    delta[f"encoder.{i - 1}"] = _through(network, f"encoder.{i}", delta, inward[f"encoder.{i}"])
        nothing = x.new_empty((len(x), 0))
        only_fed = {name: Trace(nothing, inward[name]) for name in fed}
        return only_fed | {name: Trace(delta[name], inward[name]) for name in wanted}


class _Need:
    """Whether any wanted layer comes before a given one in the forward direction."""

    def __init__(self, names: list[str], wanted: Sequence[str]) -> None:
        self._place = {name: i for i, name in enumerate(names)}
        self._first = min((self._place[name] for name in wanted), default=len(names))

    def before(self, name: str) -> bool:
        return self._first < self._place[name]


def _through(network: CVAE, name: str, delta: dict[str, Tensor], inward: Tensor) -> Tensor:
    """Return delta of the layer before `name`: back through its weights and the activation that made `inward`."""
    return network.back(delta[name] @ network.layer(name).weight, inward)


def joined(blocks: Sequence[dict[str, Trace]]) -> dict[str, Trace]:
    """Return the traces of all patches from those of some after those of others."""
    if len(blocks) == 1:
        return blocks[0]
    return {
        name: Trace(*(torch.cat([getattr(block[name], item) for block in blocks]) for item in ("delta", "inward")))
        for name in blocks[0]
    }


def full_sums(layers: dict[str, tuple[int, int]], traces: dict[str, Trace], out: Tensor) -> list[Callable[[], None]]:
    """Return tasks, one a layer, that write the summed gradients of all parameters of `layers` into `out`, flattened in
    parameter order; the longest come first."""

    def sums(trace: Trace, weights: Tensor, biases: Tensor) -> None:
        torch.mm(trace.delta.T, trace.inward, out=weights)
        torch.sum(trace.delta, dim=0, out=biases)

    tasks: list[tuple[int, Callable[[], None]]] = []
    start = 0
    for name, (outputs, inputs) in layers.items():
        middle, stop = start + outputs * inputs, start + outputs * (inputs + 1)
        weights, biases = out[start:middle].view(outputs, inputs), out[middle:stop]
        tasks.append((outputs * inputs, partial(sums, traces[name], weights, biases)))
        start = stop
    return [task for _, task in sorted(tasks, key=lambda item: -item[0])]
