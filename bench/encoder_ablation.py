"""What was tried for the recommended encoder, on the sets its options are chosen on: UCSB, Musk1 and the small atlas.

    python -m bench.encoder_ablation --seeds 3 --keep DIR

Every row is a change of the recommended encoder, scored under both protocols of `bench.encoders`: mAP of each column,
with labels, and the mean of the columns with and without labels. The parts are fitted once per split, folded as a
projection folds them, and kept in `DIR`, so that a row takes seconds; `--rows WORD` only runs rows with that word.
`--inner` scores the rows on atlas2 instead, inside the training slides of its folds: these are halved by patient once
more, a row is fitted on one half, and slides of the other half are searched for among each other. No slide that the
tables of atlas2 search for is seen by the fit that it is searched with.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.encoder_codes import distances, file_name, keep_arrays, training
from bench.encoder_entries import WEIGHTS, parts_of
from bench.encoder_scores import rank
from bench.encoder_sets import PROTOCOLS, FeatureSet, Split, load_sets, splits, tasks_of
from bench.encoders import DATA
from slideseek.interfaces import Encoder, Trainable, implements
from slideseek.types import Bag, Code, CodeSpec
from slideseek_components.encoders.joined import Joined
from slideseek_components.encoders.mean import Mean
from slideseek_components.encoders.projected import Projected
from slideseek_components.encoders.projection.float_codes import values_of
from slideseek_components.encoders.projection.sketch import Sketch
from slideseek_components.encoders.vlad import Vlad

SETS = ("ucsb", "musk1", "atlas")
OTHERS: dict[str, Callable[[int], Encoder]] = {
    "vlad": lambda seed: Vlad(seed=seed),
    "mean": lambda seed: Mean(),
}
"""Parts that were tried and are not in the recommended encoder."""


@dataclass(frozen=True)
class Row:
    """A change of the recommended encoder. weights: of the parts by name. options: of `projected`."""

    name: str
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)
    options: Mapping[str, Any] = field(default_factory=dict)


def _change(name: str, **options: Any) -> Row:
    return Row(name, options=options)


ROWS = (
    Row("recommended"),
    _change("floats", bits=0),
    _change("512 bits, learnt rotations", bits=512, binarise="itq"),
    _change("512 bits, random planes", bits=512),
    _change("5,000 bits, learnt rotations", binarise="itq"),
    _change("outside of the span 0.5", outside=0.5),
    _change("nothing outside of the span", outside=0.0),
    *(_change(f"unprojected = {weight}", unprojected=weight) for weight in (0.0, 0.5, 1.0, 2.0)),
    *(_change(f"shrinkage {shrinkage}", shrinkage=shrinkage) for shrinkage in (0.05, 0.3, 0.5)),
    _change("classes by label alone", by="label"),
    _change("classes by site alone", by="site"),
    _change("whitening instead of labels", projection="whitening"),
    Row("all parts equal", {"deep": 1.0, "words": 1.0, "spread": 1.0}),
    Row("deep code alone", {"deep": 1.0}),
    Row("16 Gaussians alone", {"words": 1.0}),
    Row("one Gaussian alone", {"spread": 1.0}),
    Row("deep code and 16 Gaussians", {"deep": 1.0, "words": 0.5}),
    Row("mean instead of one Gaussian", {"deep": 1.0, "words": 0.5, "mean": 0.3}),
    Row("vlad instead of 16 Gaussians", {"deep": 1.0, "vlad": 0.5, "spread": 0.3}),
)


@dataclass
class Stored(Encoder):
    """The codes of a part that was fitted before. width: of its codes; codes: of slides, float32 (width,) each."""

    width: int
    codes: Mapping[str, NDArray[np.float32]]

    def __deepcopy__(self, memo: dict[int, Any]) -> Stored:
        return self

    def spec(self, width: int) -> CodeSpec:
        """Return one row of floats."""
        return CodeSpec("float", self.width)

    def encode(self, bag: Bag) -> Code:
        """Return the stored code, whatever the patches."""
        return Code(bag.slide_id, self.codes[bag.slide_id][None])


def stored(features: FeatureSet, name: str, seed: int, split: Split, keep: Path) -> Stored:
    """Return the codes of a part after a fit on the training slides of a split, from `keep` if they are there."""
    chosen = hashlib.sha256(" ".join(features.bags[i].slide_id for i in split.train).encode()).hexdigest()[:16]
    file = keep / file_name(f"{features.name} part {name} {seed} {chosen}.npz")
    if not file.exists():
        part = (parts_of(seed) | {other: make(seed) for other, make in OTHERS.items()})[name]
        if implements(part, Trainable):
            bags, _, groups = training(features, split.train)
            part.fit(bags, [""] * len(bags), groups)
        sketch = Sketch(part.spec(features.bags[0].width).width)
        folded = [sketch.apply(values_of(part.encode(bag))).astype(np.float32) for bag in features.bags]
        keep_arrays(file, codes=np.stack(folded))
    with np.load(file) as found:
        codes = found["codes"]
    return Stored(codes.shape[1], {bag.slide_id: row for bag, row in zip(features.bags, codes)})


def distances_of(
    row: Row, features: FeatureSet, seed: int, split: Split, fitted: Split, keep: Path, **options: Any
) -> Any:
    """Return the distances (slides, slides) of a row. split: of the parts. fitted: the slides the row learns from."""
    parts = [stored(features, name, seed, split, keep) for name in row.weights]
    joined = Joined(of=tuple(parts), weights=tuple(row.weights.values()))
    made = Projected(of=joined, seed=seed, **(dict(row.options) | options))
    made.fit(*training(features, fitted.train))
    return distances(made.encode_many(features.bags), made.bits > 0)


def columns(row: Row, features: FeatureSet, seeds: int, keep: Path, **options: Any) -> dict[str, float]:
    """Return the mAP of a row for each task and protocol of a set."""
    found = {}
    for protocol in PROTOCOLS:
        near = {
            seed: [
                (split, distances_of(row, features, seed, split, split, keep, **options))
                for split in splits(features, protocol, seed)
            ]
            for seed in range(seeds)
        }
        for task in tasks_of(features):
            ranked = [rank(task, protocol, own) for own in near.values()]
            found[f"{task.name}, {protocol}"] = float(np.mean([own.precision.mean() for own in ranked]))
    return found


def inner_splits(features: FeatureSet, outer: Split, seed: int) -> Iterator[Split]:
    """Yield the two halves, by patient, of the training slides of a split: one is fitted on, one is searched within."""
    patients = sorted({features.groups[i] for i in outer.train})
    order = np.random.default_rng([seed, 0x1A]).permutation(len(patients))
    half = {patients[i]: position % 2 for position, i in enumerate(order)}
    for number in range(2):
        own = np.array([half[features.groups[i]] for i in outer.train])
        yield Split(number, outer.train[own != number], outer.train[own == number])


def inner_columns(row: Row, features: FeatureSet, seeds: int, keep: Path, **options: Any) -> dict[str, float]:
    """Return the mAP of a row inside the training slides of each fold, averaged over the folds of both protocols."""
    values: dict[str, list[float]] = {}
    for seed in range(seeds):
        for protocol in PROTOCOLS:
            for outer in splits(features, protocol, seed):
                near = [
                    (inner, distances_of(row, features, seed, outer, inner, keep, **options))
                    for turn in range(3)
                    for inner in inner_splits(features, outer, turn)
                ]
                for task in tasks_of(features):
                    ranked = rank(task, "unseen", near)
                    values.setdefault(f"{task.name}, inside {protocol}", []).append(float(ranked.precision.mean()))
    return {name: float(np.mean(own)) for name, own in values.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line per row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds bags/*.npz")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--rows", default="", help="only rows whose name has this word")
    parser.add_argument("--inner", action="store_true", help="inside the training slides of atlas2")
    parser.add_argument("--keep", type=Path, required=True, help="keep the codes of the parts in this folder")
    given = parser.parse_args(arguments)
    given.keep.mkdir(parents=True, exist_ok=True)
    sets = load_sets(given.data, ["atlas2"] if given.inner else list(given.sets))
    measure: Callable[..., dict[str, float]] = inner_columns if given.inner else columns
    titled = False
    for row in ROWS:
        if given.rows not in row.name:
            continue
        labelled, plain = ({}, {})  # type: dict[str, float], dict[str, float]
        for features in sets:
            labelled |= measure(row, features, given.seeds, given.keep)
            if row.options.get("projection") is None:
                plain |= measure(row, features, given.seeds, given.keep, projection="none")
        if not titled:
            print("columns: " + "; ".join(labelled))
            print(f"{'mAP':42s} labels  none  each column with labels | without")
            titled = True
        means = [float(np.mean(list(own.values()))) if own else float("nan") for own in (labelled, plain)]
        shown = [" ".join(f"{value:5.1f}" for value in own.values()) for own in (labelled, plain)]
        print(f"{row.name:42s} {means[0]:6.1f} {means[1]:5.1f}  {shown[0]} | {shown[1]}", flush=True)


if __name__ == "__main__":
    main()
