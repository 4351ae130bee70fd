"""Print how fast the deep encoders train and encode, as ratios measured in one run.

    python -m bench.encoder_speed

CPU time of one thread, best of several runs, so that a busy machine changes the ratios little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from slideseek.types import Bag, Int64
from slideseek_plugins.encoders.deep.device import reproducible
from slideseek_plugins.encoders.deep.encoder import DeepFisher
from slideseek_plugins.encoders.deep.gradients import Gradients, Job
from slideseek_plugins.encoders.deep.inputs import Inputs
from slideseek_plugins.encoders.deep.loss import Weights, cvae_terms, penalised_gradients
from slideseek_plugins.encoders.deep.model import Model
from slideseek_plugins.encoders.deep.network import CVAE, Shape
from slideseek_plugins.encoders.deep.selection import Table
from slideseek_plugins.encoders.deep_bfv import DeepBinaryFisherVector
from slideseek_plugins.encoders.deep_fv import DeepFisherVector


def cpu_seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the least CPU time of `repeats` runs after one that warms up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def per_patch_loop(network: CVAE, x: torch.Tensor, site: torch.Tensor) -> torch.Tensor:
    """Average Eq. 15's gradient by one autograd call a patch, as one would write it from the paper."""
    parameters = list(network.parameters())
    total = torch.zeros(network.shape.parameters())
    for t in range(len(x)):
        one = x[t : t + 1]
        loss = (one - network(one, site[t : t + 1], None).x).square().sum()
        gradient = torch.autograd.grad(loss, parameters, materialize_grads=True)
        total += torch.cat([part.flatten() for part in gradient])
    return total / len(x)


def training_step(network: CVAE, batch: int, weights: Weights) -> Callable[[], None]:
    """Return a function that takes one optimiser step on random patches, as the trainer does."""
    shape, parameters = network.shape, list(network.parameters())
    optimiser = torch.optim.Adam(parameters, lr=1e-5, foreach=False)
    x, noise = torch.randn(batch, shape.width), torch.randn(batch, shape.latent)
    site, label = torch.arange(batch) % shape.sites, torch.arange(batch) % shape.labels

    def step() -> None:
        loss = cvae_terms(network, x, site, label, noise).total(weights)
        gradients, _ = penalised_gradients(loss, parameters, weights)
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
        optimiser.step()

    return step


def untrained(encoder: DeepFisher, network: CVAE, chosen: Int64 | None) -> DeepFisher:
    """Give `encoder` a network that was never trained: speed does not depend on the weights."""
    inputs = Inputs.plain(network.shape.width, 0.0)
    encoder.model_ = Model(network, inputs, ("a",), {"a" if chosen is not None else "": Table(chosen, None, None)})
    return encoder


def bags(count: int, patches: int, width: int) -> list[Bag]:
    """Return random bags."""
    rng = np.random.default_rng(0)
    xy = np.zeros((patches, 2), dtype=np.int32)
    return [Bag(f"s{i}", rng.normal(size=(patches, width)).astype(np.float32), xy, "a") for i in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patches", type=int, default=100, help="patches of the slide that is encoded")
    parser.add_argument("--width", type=int, default=1024, help="width of the features")
    parser.add_argument("--bits", type=int, default=5000, help="entries kept in the short code")
    parser.add_argument("--batch", type=int, default=64, help="patches in a training batch")
    parser.add_argument("--repeats", type=int, default=40, help="runs, of which the fastest counts")
    given = parser.parse_args()

    network = CVAE.seeded(0, Shape(given.width, 10, 29), "relu")
    slide = bags(1, given.patches, given.width)[0]
    x, site = torch.from_numpy(slide.features), torch.full((given.patches,), 3)
    gradients = Gradients(network, Inputs.plain(given.width, 0.0), network.shape.layers())
    chosen = np.sort(np.random.default_rng(0).choice(gradients.size, given.bits, replace=False))
    whole, some = (Job(slide.features, 3, gradients.part(which)) for which in (None, chosen))
    small = [Job(bag.features, 3, some.part) for bag in bags(32, 8, given.width)]

    print(f"{network.shape.parameters():,} parameters, {given.patches} patches, one thread, CPU milliseconds")
    with reproducible(1):
        loop = cpu_seconds(lambda: per_patch_loop(network, x, site), 2)
        full = cpu_seconds(lambda: next(gradients.means([whole])), given.repeats)
        short = cpu_seconds(lambda: next(gradients.means([some])), given.repeats)
        codes = [
            cpu_seconds(partial(untrained(encoder, network, which).encode, slide), given.repeats)
            for encoder, which in (
                (DeepFisherVector(device="cpu"), None),
                (DeepFisherVector(device="cpu", keep=given.bits), chosen),
                (DeepBinaryFisherVector(device="cpu"), None),
                (DeepBinaryFisherVector(device="cpu", bits=given.bits), chosen),
            )
        ]
        apart = cpu_seconds(lambda: [next(gradients.means([job])) for job in small], 5)
        together = cpu_seconds(lambda: list(gradients.means(small)), 5)
        plain, sparse, binary, both = (
            cpu_seconds(training_step(network, given.batch, Weights(1, 1, 1, *extra)), given.repeats)
            for extra in ((0, 0), (1e-4, 0), (0, 1e-4), (1e-4, 1e-4))
        )
    rows = [
        ("per-patch autograd loop, whole gradient", loop, loop / full, "x the batched one"),
        ("batched, whole gradient", full, loop / full, "x faster than the loop"),
        (f"batched, {given.bits:,} entries", short, full / short, "x faster than the whole gradient"),
        ("float code, all entries", codes[0], 1.0, ""),
        (f"float code, {given.bits:,} entries", codes[1], codes[0] / codes[1], "x faster than all entries"),
        ("binary code, all entries", codes[2], 1.0, ""),
        (f"binary code, {given.bits:,} entries", codes[3], codes[2] / codes[3], "x faster than all entries"),
        ("32 slides of 8 patches, one by one", apart, apart / together, "x the shared pass"),
        ("32 slides of 8 patches, shared passes", together, apart / together, "x faster than one by one"),
        (f"training step of {given.batch} patches, FV", plain, 1.0, "x FV"),
        (f"training step of {given.batch} patches, SFV", sparse, sparse / plain, "x FV"),
        (f"training step of {given.batch} patches, BFV", binary, binary / plain, "x FV"),
        (f"training step of {given.batch} patches, SBFV", both, both / plain, "x FV"),
    ]
    for name, seconds, ratio, meaning in rows:
        print(f"{name:45s} {1000 * seconds:9.2f}   {ratio:6.2f} {meaning}")


if __name__ == "__main__":
    main()
