"""The gradient of the reconstruction loss of each of a set of patches, in closed form and without a graph.

For a fully connected layer the gradient of a patch is the outer product of what comes back to the layer's output
(`delta`, n x outputs) and what went into it (`inward`, n x inputs): these two are the layer's trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

from slideseek_components.encoders.deep.network import CVAE, Shape

_softmax_back = torch.ops.aten._softmax_backward_data.out

_SHARED = ("logvar", "logits")
"""Layers that take in what `mu` does; what comes back goes through all of them together."""


@dataclass(frozen=True)
class Trace:
    """What a layer saw of n patches: delta (n, outputs) and inward (n, inputs)."""

    delta: Tensor
    inward: Tensor

    def aligned(self) -> Trace:
        """Return the trace where memory begins, so that every slide of a pass is treated as the first one is: a
        precaution, no bit was seen to depend on it."""
        return Trace(*(t.clone() if t.storage_offset() else t for t in (self.delta, self.inward)))


@dataclass(frozen=True)
class Traces:
    """What the layers saw of patches: inward (n, inputs) of all, delta (n, outputs) of those a pass comes back to.

    span: the rows that are meant. `logvar` takes no part when z = mu: its delta is all zeros.
    """

    inward: dict[str, Tensor]
    delta: dict[str, Tensor]
    span: slice

    @classmethod
    def room(cls, shape: Shape, n: int, wanted: Iterable[str], dtype: torch.dtype, device: torch.device) -> Traces:
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

    def __getitem__(self, layer: str) -> Trace:
        return Trace(self.delta[layer][self.span], self.inward[layer][self.span])

    def rows(self, start: int, stop: int) -> Traces:
        """Return the part of patches `start` to `stop` of these, in the same memory."""
        return replace(self, span=slice(self.span.start + start, self.span.start + stop))

    def cut(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return inward and delta of the rows that are meant."""
        inward, delta = ({name: t[self.span] for name, t in part.items()} for part in (self.inward, self.delta))
        return inward, delta


class Pass:
    """The way of patches through a network and back. Weights are looked up once: that takes time too."""

    def __init__(self, network: CVAE) -> None:
        self._network = network
        self._weight = {name: network.layer(name).weight.detach() for name in network.shape.layers()}
        self._transposed = {name: weight.T for name, weight in self._weight.items()}
        self._bias = {name: network.layer(name).bias.detach() for name in network.shape.layers()}

    def __call__(self, traces: Traces, site: Tensor, factor: Tensor) -> None:
        """Write the `traces` of patches for the loss sum_t w_t ||x_t - xhat_t||^2 with z = mu (Eq. 15).

        traces: as `Traces.room` makes them, whole or some rows. site: (n, sites), the sites one-hot. factor: (n, 1),
        2 w_t: w_t = 1 / n makes sums over patches means. The way back ends at the first layer that has a delta.
        """
        with torch.no_grad():
            inward, delta = traces.cut()
            self._forward(inward, delta, site)
            last = f"decoder.{len(self._network.decoder) - 1}"
            delta[last].sub_(inward["encoder.0"]).mul_(factor)
            self._back(inward, delta)

    def _forward(self, inward: dict[str, Tensor], delta: dict[str, Tensor], site: Tensor) -> None:
        """Write what goes into each layer, and the reconstruction where the delta of the last one will be."""
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
        """Write what comes back to each layer, from the delta of the last one on."""
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
        """Return what a layer gives out before the activation, written to `out` if there is one."""
        return torch.addmm(self._bias[name], inward[name], self._transposed[name], out=out)

    def _before(self, name: str, before: str, inward: dict[str, Tensor], delta: dict[str, Tensor]) -> None:
        """Write delta of the layer `before` where it is wanted: back through the weights of `name` and the
        activation."""
        if before in delta:
            into = torch.mm(delta[name], self._weight[name], out=delta[before])
            self._network.back(into, inward[name])
