"""Print how fast the deep encoders train and encode and what memory training takes, as ratios measured in one run.

    python -m bench.encoder_speed

What is compared takes turns and the best of many turns counts. Batched extraction is compared by the clock with the
loop over patches that Eq. 15 says, on one thread or on all, whichever is faster; a leaner loop and the time of a pass's
matrix products alone, which bounds what one core can reach, are printed beside it. All else is the CPU time of one
thread. The entries of short codes are chosen as a fit chooses them; codes are not projected, whatever the preset says.
The last lines say which targets are met; the exit code is 1 when one is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from bench.training_memory import Growth, growth
from slideseek.types import Bag
from slideseek_components.encoders.deep.device import free_threads, reproducible
from slideseek_components.encoders.deep.encoder import DeepFisher
from slideseek_components.encoders.deep.kept_entries import KeptEntries
from slideseek_components.encoders.deep.loss import LossWeights, cvae_terms, penalised_gradients
from slideseek_components.encoders.deep.model import Model
from slideseek_components.encoders.deep.network import CVAE, Shape
from slideseek_components.encoders.deep.patch_gradients import entries_of
from slideseek_components.encoders.deep.settings import Preset
from slideseek_components.encoders.deep.slide_gradients import Gradients, SlideInput
from slideseek_components.encoders.deep_bfv import DeepBinaryFisherVector
from slideseek_components.encoders.deep_fv import DeepFisherVector

SITES, CLASSES = 2, 4


@dataclass(frozen=True)
class Target:
    """A ratio that was promised: at least (or at most) `limit`."""

    what: str
    limit: float
    found: float
    most: bool = False

    @property
    def met(self) -> bool:
        """Whether the promise is kept."""
        return self.found <= self.limit if self.most else self.found >= self.limit

    def __str__(self) -> str:
        bound = "at most" if self.most else "at least"
        return f"{'met' if self.met else 'MISSED':6s}  {self.what}: {self.found:.2f}, {bound} {self.limit:g}"


def best_seconds(
    works: Mapping[str, Callable[[], object]], turns: int, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Return the least time of each of `works` in `turns` turns.

    Every turn is taken twice and the second time counts: the threads of the work before spin for some milliseconds when
    they have nothing to do, and its data fill the caches.
    """
    best = dict.fromkeys(works, np.inf)
    for _ in range(turns):
        for name, work in works.items():
            work()
            start = clock()
            work()
            best[name] = min(best[name], clock() - start)
    return best


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


def accumulating_loop(network: CVAE, x: torch.Tensor, site: torch.Tensor) -> torch.Tensor:
    """Average by one autograd call a patch that adds to `.grad`: no patch's own gradient is ever there."""
    network.zero_grad()
    for t in range(len(x)):
        one = x[t : t + 1]
        (one - network(one, site[t : t + 1], None).x).square().sum().backward()
    sums = [torch.zeros_like(p) if p.grad is None else p.grad for p in network.parameters()]
    return torch.cat([part.flatten() for part in sums]) / len(x)


def matrix_products(shape: Shape, rows: int) -> Callable[[], None]:
    """Return a function that takes the matrix products of one pass and nothing else: forward, back and the sums over
    patches, of random numbers."""
    layers = shape.layers()
    taken = [name for name in layers if name != "logvar"]
    weight = {name: torch.randn(size) for name, size in layers.items()}
    bias = {name: torch.randn(outputs) for name, (outputs, _) in layers.items()}
    inward = {name: torch.randn(rows, inputs) for name, (_, inputs) in layers.items()}
    delta = {name: torch.randn(rows, outputs) for name, (outputs, _) in layers.items()}
    out, back, sums = ({name: torch.empty_like(part[name]) for name in layers} for part in (delta, inward, weight))

    def products() -> None:
        for name in taken:
            torch.addmm(bias[name], inward[name], weight[name].T, out=out[name])
        for name in reversed(taken):
            if name != "encoder.0":
                torch.mm(delta[name], weight[name], out=back[name])
            torch.mm(delta[name].T, inward[name], out=sums[name])

    return products


def training_step(network: CVAE, batch: int, weights: LossWeights) -> Callable[[], None]:
    """Return a function that takes one optimiser step on random patches, as the trainer does."""
    shape, parameters = network.shape, list(network.parameters())
    optimiser = torch.optim.Adam(parameters, lr=1e-5, fused=True)
    x, noise = torch.randn(batch, shape.width), torch.randn(batch, shape.latent)
    site, label = torch.arange(batch) % shape.sites, torch.arange(batch) % shape.labels

    def step() -> None:
        loss = cvae_terms(network, x, site, label, noise).total(weights)
        gradients, _ = penalised_gradients(loss, parameters, weights)
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
        optimiser.step()

    return step


def make_bags(count: int, patches: int, width: int) -> list[Bag]:
    """Return bags like those of real slides: features not below 0, correlated, with a class and a slide effect."""
    rng = np.random.default_rng(0)
    factors = min(32, width)
    mixing = rng.normal(size=(factors, width)) / np.sqrt(factors)
    classes = rng.normal(size=(CLASSES, factors))
    xy = np.zeros((patches, 2), dtype=np.int32)
    bags = []
    for i in range(count):
        centre = classes[i % CLASSES] + 0.5 * rng.normal(size=factors)
        x = (centre + rng.normal(size=(patches, factors))) @ mixing + 0.1 * rng.normal(size=(patches, width))
        bags.append(Bag(f"s{i}", np.maximum(x, 0).astype(np.float32), xy, f"site {i // CLASSES % SITES}"))
    return bags


def fitted(preset: Preset, bits: int, width: int, slides: int, epochs: int) -> DeepBinaryFisherVector:
    """Return `deep-bfv` fitted for `epochs` on slides of 30 patches, to have real weights and a real choice of bits."""
    encoder = DeepBinaryFisherVector(preset=preset, bits=bits, epochs=epochs, projection="none", device="cpu")
    labels = [f"class {i % CLASSES}" for i in range(slides)]
    encoder.fit(make_bags(slides, 30, width), labels, [str(i) for i in range(slides)])
    return encoder


def coded(encoder: DeepFisher, model: Model, kept: Mapping[str, KeptEntries]) -> DeepFisher:
    """Give `encoder` the network of `model` and other entries to keep."""
    encoder.model_ = replace(model, kept=dict(kept))
    return encoder


def codes(example: DeepBinaryFisherVector, slide: Bag) -> dict[str, Callable[[], object]]:
    """Return functions that code `slide` as floats and as bits: of the whole gradient, of all entries of the layers
    the preset codes (where those are fewer), and of the entries that `example` keeps."""
    model, preset = example.model_, example.preset
    if model is None:
        raise ValueError("fit the example first")
    everything = {"": KeptEntries(None, None, None)}
    widths: dict[str, tuple[int, dict[str, Any], Mapping[str, KeptEntries]]] = {
        "whole": (0, {"layers": ()}, everything),
        "layers": (0, {}, everything),
        "kept": (example.bits, {}, model.kept),
    }
    if not example.settings_.layers:
        del widths["layers"]
    works: dict[str, Callable[[], object]] = {}
    for name, (count, options, kept) in widths.items():
        floats = DeepFisherVector(preset=preset, keep=count, projection="none", device="cpu", **options)
        bits = DeepBinaryFisherVector(preset=preset, bits=count, projection="none", device="cpu", **options)
        works[f"floats, {name}"] = partial(coded(floats, model, kept).encode, slide)
        works[f"bits, {name}"] = partial(coded(bits, model, kept).encode, slide)
    return works


def layers_of(example: DeepBinaryFisherVector, width: int) -> str:
    """Say how many of the kept entries each layer has, on average over the sites."""
    layers = example.settings_.coded_layers(width)
    if example.model_ is None:
        raise ValueError("fit the example first")
    counts = dict.fromkeys(layers, 0)
    for kept in example.model_.kept.values():
        for entry in entries_of(layers, kept.chosen if kept.chosen is not None else np.zeros(0, dtype=np.int64)):
            counts[entry.layer] += len(entry.place)
    return ", ".join(f"{name} {count // len(example.model_.kept)}" for name, count in counts.items() if count)


def extraction(example: DeepBinaryFisherVector, slide: Bag, turns: int, cores: int) -> list[Target]:
    """Compare the whole gradient of a slide in one pass with loops over its patches."""
    model = example.model_
    if model is None:
        raise ValueError("fit the example first")
    network, patches = model.network, len(slide.features)
    x, site = torch.from_numpy(slide.features), torch.zeros(patches, dtype=torch.int64)
    gradients = Gradients(network, model.inputs, network.shape.layers())
    whole = SlideInput(slide.features, 0, gradients.wanted(None))

    def on(threads: int, work: Callable[[], object]) -> Callable[[], None]:
        def limited() -> None:
            with reproducible(threads):
                work()

        return limited

    works = {"products": on(1, matrix_products(network.shape, patches))}
    for threads in sorted({1, cores}):
        works[f"loop {threads}"] = on(threads, lambda: per_patch_loop(network, x, site))
        works[f"leaner {threads}"] = on(threads, lambda: accumulating_loop(network, x, site))
        works[f"pass {threads}"] = on(1, partial(_first, gradients, whole, threads))
    times = best_seconds(works, max(1, turns // 2), time.perf_counter)
    # Small operations gain little from a second thread and lose much where it is busy: the loops may choose.
    loop, leaner = (min(times[f"{name} 1"], times[f"{name} {cores}"]) for name in ("loop", "leaner"))
    show("loop over patches", loop)
    show("leaner loop, which adds up in .grad", leaner)
    passes = {"products": "matrix products of a pass alone, one core", "pass 1": "batched, one core"}
    for name, what in ({f"pass {cores}": f"batched, {cores} cores"} | passes).items():
        found = times[name]
        show(what, found, loop / found, f"x faster than the loop, {leaner / found:.1f} than the leaner one")
    return [
        Target(f"batched extraction, {where}, times faster than a loop over patches", 30, loop / times[name])
        for name, where in (("pass 1", "one core"), (f"pass {cores}", f"{cores} cores"))
    ]


def _first(gradients: Gradients, slide: SlideInput, threads: int) -> None:
    next(gradients.means([slide], threads))


def shared_passes(example: DeepBinaryFisherVector, width: int, turns: int) -> None:
    """Compare the kept entries of many small slides together with one by one."""
    model = example.model_
    if model is None:
        raise ValueError("fit the example first")
    gradients = Gradients(model.network, model.inputs, model.network.shape.layers())
    slides = [
        SlideInput(bag.features, 0, gradients.wanted(model.kept[bag.site].chosen))
        for bag in make_bags(CLASSES, 8, width)
    ] * 8
    with reproducible(1):
        times = best_seconds(
            {
                "one by one": lambda: [next(gradients.means([slide])) for slide in slides],
                "shared": lambda: list(gradients.means(slides)),
            },
            max(2, turns // 5),
        )
    show("32 slides of 8 patches, one by one", times["one by one"])
    show("32 slides of 8 patches, shared passes", times["shared"], times["one by one"] / times["shared"], "x faster")


def short_codes(example: DeepBinaryFisherVector, slide: Bag, turns: int) -> list[Target]:
    """Compare codes of the kept entries with codes of the whole gradient."""
    times = best_seconds(codes(example, slide), turns)
    targets = []
    for kind in ("floats", "bits"):
        kept = times[f"{kind}, kept"]
        show(f"preset {example.preset}, {kind}, {example.bits:,} entries", kept)
        for name in ("layers", "whole"):
            if every := times.get(f"{kind}, {name}"):
                of = "the whole gradient" if name == "whole" else f"all of {' '.join(example.settings_.layers)}"
                show(f"preset {example.preset}, {kind}, {of}", every, every / kept, "x the kept entries")
        what = f"preset {example.preset}, {example.bits:,} {kind}, times faster than the whole gradient"
        targets.append(Target(what, 1.5, times[f"{kind}, whole"] / kept))
    return targets


def steps(width: int, batch: int, turns: int) -> list[Target]:
    """Compare training steps with the gradient losses with a plain one."""
    extras = {"FV": (0, 0), "SFV": (1e-4, 0), "BFV": (0, 1e-4), "SBFV": (1e-4, 1e-4)}
    network = CVAE.seeded(0, Shape(width, 10, 29), "relu")
    with reproducible(1):
        works = {name: training_step(network, batch, LossWeights(1, 1, 1, *extra)) for name, extra in extras.items()}
        times = best_seconds(works, turns)
    for name, seconds in times.items():
        show(f"training step of {batch} patches, {name}", seconds, seconds / times["FV"], "x FV")
    return [
        Target(f"{name} training step, times a plain one", 2.6, times[name] / times["FV"], most=True)
        for name in ("SFV", "BFV", "SBFV")
    ]


def memory(found: Growth) -> list[Target]:
    """Say what memory training took with small and with large bags."""
    for patches, peak in found.peaks.items():
        print(f"training on bags of {patches:,} patches, peak above the start: {peak / 2**20:.1f} MiB")
    return [Target("peak memory of training on the larger bags, times the smaller", 1.1, found.ratio, most=True)]


def show(what: str, seconds: float, ratio: float | None = None, meaning: str = "") -> None:
    """Print one measured line."""
    tail = "" if ratio is None else f"   {ratio:6.2f} {meaning}"
    print(f"{what:48s} {1000 * seconds:9.2f} ms{tail}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 0 when every target is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patches", type=int, default=100, help="patches of the slide that is encoded")
    parser.add_argument("--width", type=int, default=1024, help="width of the features")
    parser.add_argument("--bits", type=int, default=5000, help="entries kept in the short code")
    parser.add_argument("--batch", type=int, default=64, help="patches in a training batch")
    parser.add_argument("--turns", type=int, default=60, help="turns, of which the fastest counts")
    parser.add_argument("--slides", type=int, default=24, help="slides the choice of entries is learnt from")
    parser.add_argument("--epochs", type=int, default=6, help="epochs trained before entries are chosen")
    parser.add_argument("--bags", type=int, nargs=2, default=[30, 3000], help="patches a bag in the memory check")
    given = parser.parse_args(arguments)

    cores = free_threads()
    torch.set_num_threads(1)
    slide = make_bags(1, given.patches, given.width)[0]
    targets = []
    for preset in ("paper", "best"):
        example = fitted(preset, given.bits, given.width, given.slides, given.epochs)
        size = example.settings_.shape(given.width).parameters()
        print(f"preset {preset}: {size:,} parameters; kept entries: {layers_of(example, given.width)}")
        if preset == "paper":
            targets += extraction(example, slide, given.turns, cores)
            shared_passes(example, given.width, given.turns)
        targets += short_codes(example, slide, given.turns)
    targets += steps(given.width, given.batch, given.turns)
    targets += memory(growth(given.bags[0], given.bags[1], given.width))
    print()
    for target in targets:
        print(target)
    return 0 if all(target.met for target in targets) else 1


if __name__ == "__main__":
    sys.exit(main())
