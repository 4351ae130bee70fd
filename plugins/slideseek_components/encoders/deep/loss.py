"""The training losses: Eq. 7 of the paper, and the terms of Eq. 8 and Eq. 14."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from slideseek_components.encoders.deep.network import CVAE


@dataclass(frozen=True)
class LossWeights:
    """The five weights of the losses, lambda 1 to 5 in the paper."""

    reconstruction: float
    kl: float
    classification: float
    sparse: float
    binary: float


@dataclass(frozen=True)
class Terms:
    """The unweighted terms of Eq. 7 for a batch, each a scalar averaged over its patches."""

    reconstruction: Tensor
    kl: Tensor
    classification: Tensor

    def total(self, weights: LossWeights, kl_share: float = 1.0) -> Tensor:
        """Return Eq. 7; `kl_share` in [0, 1] is how far the KL term is warmed up."""
        return (
            weights.reconstruction * self.reconstruction
            + weights.kl * kl_share * self.kl
            + weights.classification * self.classification
        )


def cvae_terms(network: CVAE, x: Tensor, site: Tensor, label: Tensor | None, noise: Tensor | None) -> Terms:
    """Return the terms of Eq. 7: squared error summed over dimensions, KL divergence to N(0, I), cross entropy.

    x: (n, width). site, label: int64 (n,); without labels, or without a classifier, the cross entropy is 0.
    """
    out = network(x, site, noise)
    reconstruction = (x - out.x).square().sum(dim=1).mean()
    kl = -0.5 * (1 + out.logvar - out.mu.square() - out.logvar.exp()).sum(dim=1).mean()
    classification = x.new_zeros(())
    if network.shape.labels and label is not None:
        classification = functional.cross_entropy(out.logits, label)
    return Terms(reconstruction, kl, classification)


@dataclass(frozen=True)
class Penalty:
    """The gradient terms of a batch: sums over all parameters, unweighted.

    l1: the L1 norm of the gradient (Eq. 8). quantisation: the squared distance to its sign (Eq. 14).
    """

    l1: float
    quantisation: float


def penalised_gradients(
    loss: Tensor, parameters: Sequence[Tensor], weights: LossWeights
) -> tuple[list[Tensor], Penalty]:
    """Return the gradient of `loss + l4 * sum |g| + l5 * sum (g - B)^2`, g = grad loss and B = sign(g), and the sums.

    The gradient of the added terms is the Hessian of the loss times v, where v = l4 * sign(g) + 2 * l5 * (g - B) is
    their derivative by g with B held fixed: one more backward pass through the graph of the first.
    """
    twice = weights.sparse > 0 or weights.binary > 0
    first = torch.autograd.grad(loss, parameters, create_graph=twice, materialize_grads=True)
    plain = [gradient.detach() for gradient in first]
    penalty = _measure(plain)
    if not twice:
        return plain, penalty
    towards = [
        gradient.sign().mul_(weights.sparse - 2 * weights.binary).add_(gradient, alpha=2 * weights.binary)
        for gradient in plain
    ]
    # Parts of the loss that a parameter enters linearly leave a first gradient without a graph.
    bent = [(gradient, v) for gradient, v in zip(first, towards) if gradient.requires_grad]
    second = torch.autograd.grad(
        [gradient for gradient, _ in bent], parameters, [v for _, v in bent], materialize_grads=True
    )
    return [a + b for a, b in zip(plain, second)], penalty


def _measure(gradients: Sequence[Tensor]) -> Penalty:
    l1 = sum(float(torch.linalg.vector_norm(gradient, 1)) for gradient in gradients)
    squares = sum(float(torch.linalg.vector_norm(gradient, 2)) ** 2 for gradient in gradients)
    # (g - sign g)^2 = g^2 - 2 |g| + 1 wherever g is not 0, and 0 there.
    return Penalty(l1, squares - 2 * l1 + sum(int(torch.count_nonzero(gradient)) for gradient in gradients))
