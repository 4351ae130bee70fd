"""Say why one choice of bits finds more than another: what the bits follow on slides that were not learnt from.

    python -m bench.encoder_bits --keep DIR

For the networks of `python -m bench.encoders` (trained here where DIR does not hold them) and each choice of 5,000
entries, means over folds and seeds:

class       the share of a bit's variance over the slides of the test fold that their class explains
error       the share that a straight line in the slide's reconstruction error explains
still       the share of bits that are the same on all slides of the test fold; the two above leave them out
entropy     of a bit over all slides: 1 where it is set for half of them, 0 where it never changes
directions  how many directions of equal variance would spread the codes of all slides as much

`by chance` is what `class` and `error` would be for bits drawn at random. Sets of two classes only: the others have
folds of less than one slide a class.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.encoders import DATA, Task, file_name, fit, folds, load_tasks, preset_options
from slideseek.types import Bag, Float64, Int64
from slideseek_components.encoders.deep.settings import Selection
from slideseek_components.encoders.deep_sbfv import DeepSparseBinaryFisherVector

BITS = 5_000
CHOICES: tuple[tuple[Selection, tuple[str, ...]], ...] = (
    ("variance", ()),
    ("separation", ()),
    ("variance", ("decoder",)),
    ("separation", ("decoder",)),
)


@dataclass(frozen=True)
class Measured:
    """What the module says of the bits of one code."""

    of_class: float
    of_error: float
    still: float
    entropy: float
    directions: float


def measure(encoder: DeepSparseBinaryFisherVector, task: Task, test: list[int]) -> Measured:
    """Measure the entries a fitted encoder has chosen."""
    model = encoder.model_
    if model is None:
        raise ValueError("fit first")
    chosen = model.kept[""].chosen
    values = np.stack([encoder.gradient(bag)[chosen] for bag in task.bags])
    errors = np.array([reconstruction_error(encoder, task.bags[i]) for i in test])
    labels = np.array([task.labels[i] for i in test])
    bits = (values > 0).astype(np.float64)
    return Measured(
        explained_by_class(bits[test], labels),
        explained_by_line(bits[test], errors),
        float(np.mean(bits[test].min(axis=0) == bits[test].max(axis=0))),
        entropy(bits),
        directions(bits),
    )


def reconstruction_error(encoder: DeepSparseBinaryFisherVector, bag: Bag) -> float:
    """Return the mean squared error of the network on the patches of an unconditioned encoder's slide."""
    model = encoder.model_
    if model is None:
        raise ValueError("fit first")
    x = model.inputs(bag.features, torch.float32, torch.device("cpu"))
    with torch.no_grad():
        made = model.network(x, torch.zeros(len(x), dtype=torch.int64), None).x
    return float((x - made).square().sum(dim=1).mean())


def explained_by_class(values: Float64, labels: np.ndarray[tuple[int], np.dtype[np.str_]]) -> float:
    """Return the mean over the columns of (n, m) that vary of the share of variance between classes."""
    total = ((values - values.mean(axis=0)) ** 2).sum(axis=0)
    within = sum(((values[labels == c] - values[labels == c].mean(axis=0)) ** 2).sum(axis=0) for c in np.unique(labels))
    kept = total > 0
    return float(np.mean(1 - within[kept] / total[kept]))


def explained_by_line(values: Float64, x: Float64) -> float:
    """Return the mean over the columns of (n, m) that vary of the squared correlation with `x`, (n,)."""
    centred, across = values - values.mean(axis=0), x - x.mean()
    total = (centred**2).sum(axis=0)
    kept = total > 0
    return float(np.mean((across @ centred[:, kept]) ** 2 / (total[kept] * (across**2).sum())))


def directions(bits: Float64) -> float:
    """Return the participation ratio: how many directions of equal variance would spread the rows as much."""
    centred = bits - bits.mean(axis=0)
    gram = centred @ centred.T
    return float(np.trace(gram) ** 2 / (gram**2).sum())


def entropy(bits: Float64) -> float:
    """Return the mean over columns of the entropy of a bit over rows."""
    p = np.clip(bits.mean(axis=0), 1e-12, 1 - 1e-12)
    return float(np.mean(-p * np.log2(p) - (1 - p) * np.log2(1 - p)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds bags/*.npz")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--folds", type=int, default=5, help="2 or more")
    parser.add_argument("--keep", type=Path, help="the folder that bench.encoders keeps its networks in")
    parser.add_argument("--presets", nargs="*", default=["best"], choices=["best", "paper"])
    parser.add_argument("--paper-epochs", type=int, default=20, help="epochs of preset paper, 0 for its 150")
    given = parser.parse_args()
    if given.folds < 2:
        parser.error("--folds: 2 or more, so that a fold has slides to compare")
    with tempfile.TemporaryDirectory() as temporary:
        cache = given.keep or Path(temporary)
        cache.mkdir(parents=True, exist_ok=True)
        for task in load_tasks(given.data, ["ucsb", "musk1"]):
            fold = {seed: folds(task, given.folds, seed) for seed in range(given.seeds)}
            chance = np.mean([1 / (np.sum(f == n) - 1) for f in fold.values() for n in set(f)])
            print(f"\n{task.name}: {len(task.bags)} slides; by chance {chance:.2f}")
            print(
                f"{'network, entries chosen':54s} "
                + " ".join(f"{item.name.removeprefix('of_'):>10s}" for item in fields(Measured))
            )
            for preset in given.presets:
                title, options = preset_options(preset, given.paper_epochs)
                for selection, layers in CHOICES:
                    options |= {"sites": 0, "bits": BITS, "selection": selection, "layers": layers}
                    run = f"deep-sbfv {title}"
                    found = [
                        measured(task, run, options, seed, fold[seed], number, cache)
                        for seed in fold
                        for number in range(given.folds)
                    ]
                    means = [np.mean([getattr(m, item.name) for m in found]) for item in fields(Measured)]
                    name = f"{run}, {selection}, {' '.join(layers) or 'all layers'}"
                    print(f"{name:54s} " + " ".join(f"{mean:10.3f}" for mean in means), flush=True)


def measured(
    task: Task, run: str, options: dict[str, Any], seed: int, fold: Int64, number: int, cache: Path
) -> Measured:
    """Measure the bits that the network `run` has for fold `number`, trained where it is not in `cache`."""
    encoder = DeepSparseBinaryFisherVector(**options, labels=len(set(task.labels)), seed=seed, device="cpu")
    train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
    count = int(fold.max()) + 1
    fit(encoder, task, train, cache / f"{task.features}-{file_name(run)}-{seed}-{count}-{number}")
    return measure(encoder, task, [int(i) for i in test])


if __name__ == "__main__":
    main()
