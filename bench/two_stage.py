"""Compare search by short codes, the same re-ranked by patches, and search by patch sets alone, on real features.

    python -m bench.two_stage --seeds 3

For every seed, patients are dealt out to five folds. What is learnt is learnt from four of them, and the slides of the
fifth are searched for among the slides of these four, so a patient is never on both sides. A code ranks all candidates;
a reranker orders the first `depth` of them again, and the rest follow as the code has them.

mAP: mean over queries of the average precision, in %. F1: macro F1 of the majority of the 3 nearest, in %. Both are
means over the seeds; `+-` is the standard error by a bootstrap over patients. The second table has the paired
differences of mAP to the code alone, with their own standard errors. ms: median wall time of one query, with its code
and its features in memory, first stage included. Queries whose class no candidate has are left out.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from bench.encoder_codes import training
from bench.encoder_scores import RESAMPLES
from bench.encoder_sets import FeatureSet, Task, load_sets, parts, tasks_of
from bench.encoders import DATA
from slideseek.interfaces import Checkpointed, Encoder, Index, Reranker, Trainable, implements
from slideseek.searching.votes import majority
from slideseek.types import Bag, Code, Float64, Int64
from slideseek_components.encoders.deep_sbfv import DeepSparseBinaryFisherVector
from slideseek_components.encoders.gmm_fv import GmmFisher
from slideseek_components.encoders.mean import Mean
from slideseek_components.encoders.yottixel import Yottixel
from slideseek_components.indexes.cosine import Cosine
from slideseek_components.indexes.hamming import Hamming
from slideseek_components.rerankers.median_of_min import MedianOfMin
from slideseek_components.rerankers.patch_pairs import PatchPairs
from slideseek_components.rerankers.set_cosine import SetCosine

ENGINES: dict[str, Callable[[int, int], Encoder]] = {
    "mean": lambda seed, labels: Mean(l2=True),
    "gmm-fv": lambda seed, labels: GmmFisher(seed=seed),
    "deep-sbfv, 512 bits": lambda seed, labels: DeepSparseBinaryFisherVector(
        preset="best", labels=labels, bits=512, seed=seed, device="cpu"
    ),
    "yottixel": lambda seed, labels: Yottixel(),
}
"""First stages: by name, what makes the encoder from a seed and the number of labels."""
RERANKERS: dict[str, PatchPairs] = {"median-of-min": MedianOfMin(), "set-cosine": SetCosine()}
DEPTHS = (20, 50)
ALONE: dict[str, PatchPairs] = {
    "median-of-min, barcodes": MedianOfMin(on="barcodes"),
    "median-of-min": MedianOfMin(),
    "set-cosine": SetCosine(),
    "set-cosine, symmetric": SetCosine(direction="symmetric"),
}
"""Patch sets alone: every candidate is compared."""
FOLDS = 5
NEAREST = 3
TIMED = 30
"""Queries timed per row: the first of the first seed."""

Ranking: TypeAlias = Callable[[int], list[int]]
"""Ranks the candidates of a query, both as numbers of slides, nearest first."""


@dataclass(frozen=True)
class Fold:
    """One fold of one seed: the codes of its engine, the numbers of candidates and queries."""

    index: Index
    codes: list[Code]
    train: list[int]
    queries: list[int]


@dataclass
class Row:
    """A row of the table. precision, answers: by seed, of each slide (NaN and "" where it is not counted)."""

    name: str
    base: str
    precision: list[Float64]
    answers: list[list[str]]
    milliseconds: float


def atlas2(data: Path) -> Task:
    """Load the larger atlas: 102 slides of 76 patients, searched for slides of the same site."""
    arrays = np.load(data / "bags" / "atlas2_lite2.npz")
    sites = [str(site) for site in arrays["site"]]
    bags = [
        Bag(str(name), arrays["x"][arrays["bag"] == i].astype(np.float32), arrays["xy"][arrays["bag"] == i], sites[i])
        for i, name in enumerate(arrays["slide_id"])
    ]
    features = FeatureSet("atlas2", bags, sites, [str(patient) for patient in arrays["patient"]])
    return Task("atlas2 site", features, sites)


def every_distance(task: Task, rerankers: Mapping[str, PatchPairs]) -> dict[str, Float64]:
    """Return by name a reranker's distance of every query to every slide, float64 (slides, slides).

    Rerankers that compare patches alike share the distances of patches.
    """
    count = len(task.features.bags)
    found = {name: np.zeros((count, count)) for name in rerankers}
    for measure in sorted({one.distance_name for one in rerankers.values()}):
        alike = {name: one for name, one in rerankers.items() if one.distance_name == measure}
        rows = next(iter(alike.values())).row_distances
        for i, query in enumerate(task.features.bags):
            for j, other in enumerate(task.features.bags[: i + 1]):
                between = rows(query.features, other.features)
                for name, one in alike.items():
                    found[name][i, j], found[name][j, i] = one.set_distance(between), one.set_distance(between.T)
    return found


def counted(task: Task, fold: Int64, number: int) -> tuple[list[int], list[int]]:
    """Return the candidates of a fold, and its queries whose class some candidate has."""
    train = np.flatnonzero(fold != number).tolist()
    known = {task.targets[i] for i in train}
    return train, [i for i in np.flatnonzero(fold == number).tolist() if task.targets[i] in known]


def fit(encoder: Encoder, features: FeatureSet, train: Int64, folder: Path) -> None:
    """Fit an encoder that can be on the slides numbered `train`; what it trains is kept in `folder`."""
    if implements(encoder, Checkpointed):
        folder.mkdir(exist_ok=True)
        encoder.fit_in(folder, *training(features, train))
    elif implements(encoder, Trainable):
        encoder.fit(*training(features, train))


def fitted(task: Task, make: Callable[[int, int], Encoder], seed: int, folder: Path) -> list[Fold]:
    """Fit an encoder on every fold of a seed, and index its candidates."""
    fold, made = parts(task.features, FOLDS, seed), []
    for number in range(FOLDS):
        train, queries = counted(task, fold, number)
        encoder = make(seed, len(set(task.features.labels)))
        fit(encoder, task.features, np.array(train), folder / f"{seed}-{number}")
        index: Index = Hamming() if encoder.spec(task.features.bags[0].width).kind == "bits" else Cosine()
        codes = [encoder.encode(bag) for bag in task.features.bags]
        index.add([codes[i] for i in train])
        made.append(Fold(index, codes, train, queries))
    return made


def average_precision(task: Task, query: int, ranked: Sequence[int]) -> float:
    """Return the average precision of a ranking of all candidates, in %."""
    right = np.array([task.targets[i] == task.targets[query] for i in ranked])
    return 100 * float((np.cumsum(right)[right] / (np.flatnonzero(right) + 1)).mean())


def judged(task: Task, folds_of: Sequence[tuple[Sequence[int], Ranking]]) -> tuple[Float64, list[str]]:
    """Return the average precision and the answer of every slide of one seed."""
    precision, answers = np.full(len(task.features.bags), np.nan), [""] * len(task.features.bags)
    for queries, ranking in folds_of:
        for i in queries:
            ranked = ranking(i)
            precision[i] = average_precision(task, i, ranked)
            answers[i] = majority([task.targets[j] for j in ranked[:NEAREST]])
    return precision, answers


def first_stage(task: Task, fold: Fold) -> dict[int, list[int]]:
    """Return the candidates of every query of a fold, nearest first."""
    place = {bag.slide_id: i for i, bag in enumerate(task.features.bags)}
    return {i: [place[hit.slide_id] for hit in fold.index.search(fold.codes[i], len(fold.train))] for i in fold.queries}


def again(ranked: Sequence[int], distances: Float64, depth: int) -> list[int]:
    """Order the first `depth` again by distance, (slides,); equal distances keep their order."""
    return [*sorted(ranked[:depth], key=lambda j: float(distances[j])), *ranked[depth:]]


def compared(distances: Float64, train: list[int], query: int) -> list[int]:
    """Rank all candidates by a distance, (slides, slides)."""
    return again(train, distances[query], len(train))


def timed(task: Task, some: Sequence[Fold], reranker: Reranker | None, depth: int) -> float:
    """Return the median milliseconds of a query: search `depth` slides by code, then compare their patches."""
    place, taken = {bag.slide_id: bag for bag in task.features.bags}, []
    for one, i in [(fold, i) for fold in some for i in fold.queries][:TIMED]:
        start = time.perf_counter()
        hits = one.index.search(one.codes[i], depth)
        if reranker is not None:
            reranker.distances(task.features.bags[i], [place[hit.slide_id] for hit in hits])
        taken.append(1000 * (time.perf_counter() - start))
    return float(np.median(taken))


def timed_alone(task: Task, fold: Int64, reranker: Reranker) -> float:
    """Return the median milliseconds of comparing the patches of a query with those of all candidates."""
    taken = []
    pairs = [(i, train) for number in range(FOLDS) for train, some in [counted(task, fold, number)] for i in some]
    for i, train in pairs[:TIMED]:
        start = time.perf_counter()
        reranker.distances(task.features.bags[i], [task.features.bags[j] for j in train])
        taken.append(1000 * (time.perf_counter() - start))
    return float(np.median(taken))


def rows_of(task: Task, engines: Sequence[str], seeds: int, folder: Path) -> list[Row]:
    """Return the rows of one task."""
    rows: list[Row] = []
    between = every_distance(task, RERANKERS | ALONE)
    for name in engines:
        place = folder / "".join(c for c in f"{task.features.name}-{name}" if c.isalnum())
        place.mkdir(parents=True, exist_ok=True)
        made = [fitted(task, ENGINES[name], seed, place) for seed in range(seeds)]
        ranked = [[first_stage(task, fold) for fold in some] for some in made]
        variants: list[tuple[str, str, int]] = [("", "", NEAREST)]
        variants += [(f", then {one}, depth {depth}", one, depth) for one in RERANKERS for depth in DEPTHS]
        for title, one, depth in variants:

            def ranking(first: dict[int, list[int]], one: str = one, depth: int = depth) -> Ranking:
                return lambda i: again(first[i], between[one][i], depth) if one else first[i]

            seen = [judged(task, [(list(first), ranking(first)) for first in some]) for some in ranked]
            took = timed(task, made[0], replace(RERANKERS[one], depth=depth) if one else None, depth)
            rows.append(Row(name + title, name, [p for p, _ in seen], [a for _, a in seen], took))
            print(f"{task.name}: {rows[-1].name}", flush=True)
    for name, reranker in ALONE.items():
        seen = []
        for seed in range(seeds):
            fold = parts(task.features, FOLDS, seed)
            dealt = [counted(task, fold, number) for number in range(FOLDS)]
            seen.append(judged(task, [(some, partial(compared, between[name], train)) for train, some in dealt]))
        took = timed_alone(task, parts(task.features, FOLDS, 0), reranker)
        rows.append(Row(f"patch sets: {name}", "", [p for p, _ in seen], [a for _, a in seen], took))
    return rows


def resampled(task: Task) -> Float64:
    """Return how often each slide is drawn with its patient, float64 (1 + draws, slides); first, each once."""
    patients = sorted(set(task.features.groups))
    rng = np.random.default_rng(0)
    draws = [np.ones(len(patients))] + [
        np.bincount(rng.integers(len(patients), size=len(patients)), minlength=len(patients)).astype(np.float64)
        for _ in range(RESAMPLES)
    ]
    return np.stack(draws)[:, [patients.index(group) for group in task.features.groups]]


def mean_precision(row: Row, weights: Float64) -> Float64:
    """Return the mean average precision over seeds for every draw; weights: float64 (draws, slides)."""
    found = []
    for values in row.precision:
        some = ~np.isnan(values)
        found.append(weights[:, some] @ values[some] / weights[:, some].sum(axis=1))
    mean: Float64 = np.mean(found, axis=0)
    return mean


def mean_f1(task: Task, row: Row, weights: Float64) -> Float64:
    """Return the macro F1 over seeds for every draw, in %: the mean over the classes that are drawn."""
    found = []
    for values, answers in zip(row.precision, row.answers):
        some = np.flatnonzero(~np.isnan(values))
        truth, said = np.array(task.targets)[some], np.array(answers)[some]
        scores = []
        for name in np.unique(truth):
            true, claimed = truth == name, said == name
            among, right = weights[:, some] @ true, weights[:, some] @ (true & claimed)
            total = among + weights[:, some] @ claimed
            scores.append(np.where(among > 0, 2 * right / np.maximum(total, 1), np.nan))
        found.append(100 * np.nanmean(scores, axis=0))
    mean: Float64 = np.mean(found, axis=0)
    return mean


def cells(task: Task, rows: Sequence[Row]) -> tuple[list[list[str]], list[str]]:
    """Return for every row its cells of the table (mAP, F1, ms), and of the differences to its code alone."""
    weights = resampled(task)
    shown, differences = [], []
    base: dict[str, Float64] = {}
    for row in rows:
        precision, f1 = mean_precision(row, weights), mean_f1(task, row, weights)
        quality = [f"{one[0]:.1f} +- {one[1:].std():.1f}" for one in (precision, f1)]
        shown.append([*quality, f"{row.milliseconds:.2f}"])
        apart = precision - base.setdefault(row.base, precision)
        differences.append(f"{apart[0]:+.1f} +- {apart[1:].std():.1f}" if row.base and row.name != row.base else "")
    return shown, differences


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, numbers to the right."""
    table = [head, ["---", *["---:"] * (len(head) - 1)], *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds bags/*.npz")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=list(ENGINES), metavar="NAME")
    parser.add_argument("--tasks", nargs="*", default=[], help="ucsb, musk1, atlas2; all when left out")
    parser.add_argument("--keep", type=Path, help="keep trained networks in this folder, and use those there")
    given = parser.parse_args()
    sets = load_sets(given.data, ["ucsb", "musk1"])
    tasks = [*(task for features in sets for task in tasks_of(features)), atlas2(given.data)]
    tasks = [task for task in tasks if not given.tasks or task.features.name in given.tasks]
    with tempfile.TemporaryDirectory() as temporary:
        found = [rows_of(task, given.engines, given.seeds, given.keep or Path(temporary)) for task in tasks]
    made = [cells(task, rows) for task, rows in zip(tasks, found)]
    names = [row.name for row in found[0]]
    head = ["", *(f"{task.name} {what}" for task in tasks for what in ("mAP", "F1", "ms"))]
    print(markdown(head, [[name, *(cell for shown, _ in made for cell in shown[at])] for at, name in enumerate(names)]))
    again = [[name, *(apart[at] for _, apart in made)] for at, name in enumerate(names) if made[0][1][at]]
    print(f"\n{markdown(['mAP against the code alone', *(task.name for task in tasks)], again)}")


if __name__ == "__main__":
    main()
