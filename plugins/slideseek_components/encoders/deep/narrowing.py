"""The last step of the pass back, taken only for the outputs that a code asks about."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from slideseek_components.encoders.deep.extraction import Entries
from slideseek_components.encoders.deep.network import CVAE
from slideseek_components.encoders.deep.traces import Trace, Traces


@dataclass(frozen=True)
class Narrow:
    """Some outputs of the first layer a code asks about: nobody needs its other outputs, since the pass ends there.

    layer: its name. following: the layer that its outputs go into. rows: int64 (u,), which outputs, ascending.
    weight: (outputs of `following`, u), the weights they go in by.
    """

    layer: str
    following: str
    rows: Tensor
    weight: Tensor

    def trace(self, network: CVAE, traces: Traces) -> Trace:
        """Return delta (n, u) and inward (n, inputs) of the layer, from the traces of one slide's patches.

        A slide is taken alone, so that the product does not depend on the slides that shared the pass.
        """
        after = traces[self.following].aligned()
        activated = after.inward.index_select(1, self.rows)
        return Trace(network.back(after.delta @ self.weight, activated), traces.inward[self.layer][traces.span])


def narrowed(network: CVAE, entries: tuple[Entries, ...]) -> tuple[tuple[Entries, ...], Narrow | None]:
    """Return `entries` with the outputs of the first layer numbered among those met, and how to find those.

    Nothing is gained, and None returned, where most outputs are met or the outputs go into several layers.
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
    narrow = Narrow(first.layer, following, chosen, weight.index_select(1, chosen))
    return (replace(first, row=row.astype(np.int32)), *entries[1:]), narrow
