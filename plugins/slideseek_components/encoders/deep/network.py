"""The conditioned variational autoencoder of the paper, and the preprocessing of its features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from slideseek.types import Float32, Float64

Activation: TypeAlias = Literal["relu", "leaky-relu", "elu", "tanh"]

_LEAK = 0.01


@dataclass(frozen=True)
class Inputs:
    """Standardise and clip features: y = clip((x - shift) / scale, -clip, clip).

    shift, scale: float64 (width,). clip: in standard deviations, 0 for none; it keeps one extreme feature of one patch
    from dominating a sum of squares.
    """

    shift: Float64
    scale: Float64
    clip: float

    @classmethod
    def plain(cls, width: int, clip: float) -> Inputs:
        """Leave features unchanged, except for clipping."""
        return cls(np.zeros(width), np.ones(width), clip)

    def __call__(self, x: Float32, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return the network's input (n, width) for raw features (n, width), computed in `dtype`."""
        out = torch.empty(x.shape, dtype=dtype, device=device)
        self.write(x, out)
        return out

    def write(self, x: Float32, out: Tensor) -> None:
        """Write the network's input to `out` (n, width), computed in its type, for raw features (n, width)."""
        kind = np.float64 if out.dtype == torch.float64 else np.float32
        y = out.numpy() if out.device.type == "cpu" else np.empty(x.shape, kind)
        np.subtract(x, self.shift.astype(kind), out=y)
        np.divide(y, self.scale.astype(kind), out=y)
        if self.clip:
            np.clip(y, -self.clip, self.clip, out=y)
        if out.device.type != "cpu":
            out.copy_(torch.from_numpy(y))


@dataclass(frozen=True)
class Shape:
    """Sizes of a `CVAE`, which determine the number and order of its parameters."""

    width: int
    sites: int
    labels: int
    hidden: tuple[int, ...] = (512, 256, 128)
    latent: int = 50

    def layers(self) -> dict[str, tuple[int, int]]:
        """Return (outputs, inputs) of every fully connected layer by name, in the order of the parameters."""
        down = (self.width, *self.hidden)
        up = (self.latent + self.sites + self.labels, *reversed(self.hidden), self.width)
        found = {f"encoder.{i}": (down[i + 1], down[i]) for i in range(len(down) - 1)}
        found |= {"mu": (self.latent, down[-1]), "logvar": (self.latent, down[-1])}
        if self.labels:
            found["logits"] = (self.labels, down[-1])
        return found | {f"decoder.{i}": (up[i + 1], up[i]) for i in range(len(up) - 1)}

    def parameters(self) -> int:
        """Return the number of parameters: every layer has a bias."""
        return sum(outputs * (inputs + 1) for outputs, inputs in self.layers().values())


@dataclass(frozen=True)
class Output:
    """The network's output for n patches: `x` (n, width), `mu` and `logvar` (n, latent), `logits` (n, labels)."""

    x: Tensor
    mu: Tensor
    logvar: Tensor
    logits: Tensor


class CVAE(nn.Module):
    """Autoencode patch features, given the site of their slide and the label the network itself predicts.

    x -> hidden layers = h; h -> mu, log sigma^2, logits; [z, site one-hot, softmax(logits)] -> mirrored hidden layers
    -> x. No batch norm, biases everywhere. `sites = 0` is the unconditioned variant, `labels = 0` the one without a
    classifier.
    """

    def __init__(
        self,
        width: int,
        sites: int,
        labels: int,
        hidden: tuple[int, ...] = (512, 256, 128),
        latent: int = 50,
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        self.shape = Shape(width, sites, labels, tuple(hidden), latent)
        self.activation = activation
        sizes = self.shape.layers()

        def linear(name: str) -> nn.Linear:
            outputs, inputs = sizes[name]
            return nn.Linear(inputs, outputs)

        self.encoder = nn.ModuleList(linear(f"encoder.{i}") for i in range(len(hidden)))
        self.mu = linear("mu")
        self.logvar = linear("logvar")
        self.logits = linear("logits") if labels else None
        self.decoder = nn.ModuleList(linear(f"decoder.{i}") for i in range(len(hidden) + 1))

    @classmethod
    def seeded(cls, seed: int, shape: Shape, activation: Activation) -> CVAE:
        """Create a network whose initial weights depend only on `seed`; the global random state is unchanged."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls(shape.width, shape.sites, shape.labels, shape.hidden, shape.latent, activation)

    def layer(self, name: str) -> nn.Linear:
        """Return the layer `Shape.layers` calls `name`."""
        module = self.get_submodule(name)
        if not isinstance(module, nn.Linear):
            raise KeyError(name)
        return module

    def act(self, x: Tensor) -> Tensor:
        """Apply the activation to `x` in place, and return it."""
        match self.activation:
            case "relu":
                return torch.relu_(x)
            case "leaky-relu":
                return functional.leaky_relu_(x, _LEAK)
            case "elu":
                return functional.elu_(x)
            case "tanh":
                return torch.tanh_(x)

    def back(self, delta: Tensor, activated: Tensor) -> Tensor:
        """Multiply `delta` in place by the derivative of the activation at its output `activated`, and return it."""
        backward = torch.ops.aten
        match self.activation:
            case "relu":
                backward.threshold_backward.grad_input(delta, activated, 0, grad_input=delta)
            case "leaky-relu":
                backward.leaky_relu_backward.grad_input(delta, activated, _LEAK, True, grad_input=delta)
            case "elu":
                backward.elu_backward.grad_input(delta, 1, 1, 1, True, activated, grad_input=delta)
            case "tanh":
                backward.tanh_backward.grad_input(delta, activated, grad_input=delta)
        return delta

    def forward(self, x: Tensor, site: Tensor, noise: Tensor | None) -> Output:
        """Reconstruct patches.

        x: (n, width). site: int64 (n,), ignored when unconditioned. noise: (n, latent) standard normal, provided
        by the caller; None takes z = mu.
        """
        h = x
        for layer in self.encoder:
            h = self.act(layer(h))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu if noise is None else mu + noise * torch.exp(0.5 * logvar)
        parts = [z]
        if self.shape.sites:
            parts.append(functional.one_hot(site, self.shape.sites).to(x.dtype))
        logits = x.new_zeros((len(x), 0))
        if self.logits is not None:
            logits = self.logits(h)
            parts.append(logits.softmax(dim=1))
        d = torch.cat(parts, dim=1)
        for layer in self.decoder[:-1]:
            d = self.act(layer(d))
        return Output(self.decoder[-1](d), mu, logvar, logits)
