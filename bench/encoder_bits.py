"""Say why one choice of bits finds more than another: what the chosen entries of the gradient follow on unseen slides.

    python -m bench.encoder_bits --keep DIR

For the networks of `python -m bench.encoders` (trained here where DIR does not hold them) and each choice of 5,000
entries, means over entries, folds and seeds, all on the slides of the test fold: `class`, the share of an entry's
variance that the class of the slide explains; `error`, the share that a straight line in the slide's reconstruction
error explains; `by chance`, what either would be for numbers drawn at random; `entropy`, of a bit over all slides (1
where it is set for half of them, 0 where it never changes). Sets of two classes only: the others have folds of less
than one slide a class.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from bench.encoders import DATA, Task, file_name, fit, folds, load_tasks
from slideseek.types import Bag, Float64
from slideseek_plugins.encoders.deep.settings import Preset, Selection
from slideseek_plugins.encoders.deep_sbfv import DeepSparseBinaryFisherVector

BITS = 5_000
CHOICES: tuple[tuple[Selection, tuple[str, ...]], ...] = (
    ("variance", ()),
    ("separation", ()),
    ("variance", ("decoder",)),
    ("separation", ("decoder",)),
)


@dataclass(frozen=True)
class Measured:
    """Means over the chosen entries, each between 0 and 1."""

    of_class: float
    of_error: float
    entropy: float
    directions: float


def measure(encoder: DeepSparseBinaryFisherVector, task: Task, test: list[int]) -> Measured:
    """Measure the entries a fitted encoder has chosen."""
    model = encoder.model_
    if model is None:
        raise ValueError("fit first")
    chosen = model.tables[""].chosen
    values = np.stack([encoder.gradient(bag)[chosen] for bag in task.bags])
    errors = np.array([reconstruction_error(encoder, task.bags[i]) for i in test])
    labels = np.array([task.labels[i] for i in test])
    bits = (values > 0).astype(np.float64)
    return Measured(
        explained_by_class(bits[test], labels), explained_by_line(bits[test], errors), entropy(bits), directions(bits)
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
    """Return the mean over columns of the share of variance between classes."""
    total = ((values - values.mean(axis=0)) ** 2).sum(axis=0)
    within = sum(((values[labels == c] - values[labels == c].mean(axis=0)) ** 2).sum(axis=0) for c in np.unique(labels))
    kept = total > 0
    return float(np.mean(1 - within[kept] / total[kept]))


def explained_by_line(values: Float64, x: Float64) -> float:
    """Return the mean over columns of the squared correlation with `x`."""
    centred, across = values - values.mean(axis=0), x - x.mean()
    total = (centred**2).sum(axis=0)
    kept = total > 0
    return float(np.mean((across @ centred[:, kept]) ** 2 / (total[kept] * (across**2).sum())))


def directions(bits: Float64) -> float:
    """Return how many directions of equal variance the rows would have that spread as `bits` do."""
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
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="the folder that bench.encoders keeps its networks in")
    parser.add_argument("--presets", nargs="*", default=["best"], choices=["best", "paper"])
    parser.add_argument("--paper-epochs", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        cache = given.keep or Path(temporary)
        for task in load_tasks(given.data, ["ucsb", "musk1"]):
            fold = {seed: folds(task, given.folds, seed) for seed in range(given.seeds)}
            chance = np.mean([1 / (np.sum(f == n) - 1) for f in fold.values() for n in set(f)])
            print(f"\n{task.name}: {len(task.bags)} slides; by chance {chance:.2f}")
            print(f"{'network, entries chosen':54s} {'class':>8s} {'error':>8s} {'entropy':>8s} {'directions':>10s}")
            for preset in given.presets:
                for selection, layers in CHOICES:
                    print_choice(task, preset, given.paper_epochs, selection, layers, fold, cache)


def print_choice(
    task: Task,
    preset: Preset,
    paper_epochs: int,
    selection: Selection,
    layers: tuple[str, ...],
    fold: dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]],
    cache: Path,
) -> None:
    """Print the line of one choice of entries."""
    paper = preset == "paper"
    run = f"deep-sbfv paper ({paper_epochs} epochs)" if paper else "deep-sbfv best"
    found = []
    for seed, of in fold.items():
        for number in range(int(of.max()) + 1):
            train, test = np.flatnonzero(of != number), np.flatnonzero(of == number)
            encoder = DeepSparseBinaryFisherVector(
                preset=preset,
                sites=0,
                labels=len(set(task.labels)),
                bits=BITS,
                selection=selection,
                layers=layers,
                standardise=True,
                clip=5.0,
                epochs=paper_epochs if paper else None,
                seed=seed,
                device="cpu",
            )
            fit(encoder, task, train, cache / f"{task.features}-{file_name(run)}-{seed}-{len(set(of))}-{number}")
            found.append(measure(encoder, task, [int(i) for i in test]))
    means = [np.mean([getattr(m, name) for m in found]) for name in ("of_class", "of_error", "entropy", "directions")]
    name = f"{run}, {selection}, {' '.join(layers) or 'all layers'}"
    print(f"{name:54s} " + " ".join(f"{mean:8.3f}" for mean in means), flush=True)


if __name__ == "__main__":
    main()
