"""The real feature sets of `python -m bench.encoders`: slides, what is searched for, and the two protocols."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slideseek.types import Bag

Protocol: TypeAlias = Literal["archive", "unseen"]

PROTOCOLS: dict[Protocol, str] = {
    "archive": "trained on the archive: five folds by patient, candidates are the training folds",
    "unseen": "archive never seen: fitted on half of the patients, searched within the other half, patient left out",
}
_PARTS: dict[Protocol, int] = {"archive": 5, "unseen": 2}


@dataclass(frozen=True)
class FeatureSet:
    """Slides with features. labels are given to `fit`; a bag has its site; groups are patients."""

    name: str
    bags: list[Bag]
    labels: list[str]
    groups: list[str]

    @property
    def sites(self) -> list[str]:
        """The site of each slide, "" if the set has none."""
        return [bag.site for bag in self.bags]


@dataclass(frozen=True)
class Task:
    """What is searched for in a set: `targets`, one per slide; within: only slides of the query's site."""

    name: str
    features: FeatureSet
    targets: list[str]
    within: bool = False


@dataclass(frozen=True)
class Split:
    """One fit: the slides `train` are fitted on, the slides `queries` are searched for."""

    number: int
    train: NDArray[np.int64]
    queries: NDArray[np.int64]


def load_sets(data: Path, names: Sequence[str] = ()) -> list[FeatureSet]:
    """Load `ucsb`, `musk1`, `atlas` and `atlas2` from `data`/bags, or those of `names`."""
    found = []
    for name, file in (("ucsb", "ucsb_breast_cancer"), ("musk1", "musk1")):
        if not names or name in names:
            arrays = np.load(data / "bags" / f"{file}.npz")
            numbers = np.unique(arrays["bag"])
            bags = [make_bag(f"{name}-{number}", arrays["x"][arrays["bag"] == number]) for number in numbers]
            labels = [str(arrays["y"][arrays["bag"] == number][0]) for number in numbers]
            found.append(FeatureSet(name, bags, labels, [bag.slide_id for bag in bags]))
    for name in ("atlas", "atlas2"):
        if not names or name in names:
            arrays = np.load(data / "bags" / f"{name}_lite2.npz")
            bags = [
                make_bag(str(slide), arrays["x"][arrays["bag"] == i], str(arrays["site"][i]))
                for i, slide in enumerate(arrays["slide_id"])
            ]
            found.append(FeatureSet(name, bags, [str(x) for x in arrays["label"]], [str(x) for x in arrays["patient"]]))
    return found


def tasks_of(features: FeatureSet) -> list[Task]:
    """Return the tasks of a set: its label, or, where slides have sites, the site and the label within the site."""
    if not any(features.sites):
        return [Task(features.name, features, features.labels)]
    return [
        Task(f"{features.name}, site", features, features.sites),
        Task(f"{features.name}, diagnosis in site", features, features.labels, within=True),
    ]


def deal_out(features: FeatureSet, seed: int) -> FeatureSet:
    """Return the slides with labels and sites dealt out at random, each pair to some slide: nothing can be learnt."""
    order = np.random.default_rng([seed, 99]).permutation(len(features.bags)).tolist()
    bags = [Bag(bag.slide_id, bag.features, bag.xy, features.bags[i].site) for bag, i in zip(features.bags, order)]
    return FeatureSet(features.name, bags, [features.labels[i] for i in order], features.groups)


def make_bag(name: str, features: NDArray[Any], site: str = "") -> Bag:
    """Return a bag without coordinates."""
    return Bag(name, features.astype(np.float32), np.zeros((len(features), 2), dtype=np.int32), site)


def parts(features: FeatureSet, count: int, seed: int) -> NDArray[np.int64]:
    """Return int64 (slides,), the part of each of `count`: patients dealt out label by label."""
    patients = sorted(set(features.groups))
    first = dict(reversed(list(zip(features.groups, features.labels))))
    order = np.random.default_rng([seed, 7]).permutation(len(patients))
    dealt = sorted(order, key=lambda i: first[patients[i]])
    part = {patients[i]: position % count for position, i in enumerate(dealt)}
    return np.array([part[group] for group in features.groups])


def splits(features: FeatureSet, protocol: Protocol, seed: int) -> Iterator[Split]:
    """Yield the fits of a protocol: every slide is a query once, and its patient is never in `train`."""
    count = _PARTS[protocol]
    part = parts(features, count, seed)
    for number in range(count):
        yield Split(number, np.flatnonzero(part != number), np.flatnonzero(part == number))


def candidates(
    task: Task, split: Split, protocol: Protocol, query: int, described: int | None = None
) -> NDArray[np.int64]:
    """Return the slides a query is searched among: never of its own patient. described: whose site it is given."""
    features = task.features
    among = split.train if protocol == "archive" else split.queries
    site, group = features.bags[query if described is None else described].site, features.groups[query]
    kept = [
        i for i in among.tolist() if features.groups[i] != group and (not task.within or features.bags[i].site == site)
    ]
    return np.array(kept, dtype=np.int64)


def counted(task: Task, protocol: Protocol, seeds: int) -> tuple[float, int]:
    """Return how many slides have a match among their candidates, on average over seeds, and of how many patients."""
    found = [
        query
        for seed in range(seeds)
        for split in splits(task.features, protocol, seed)
        for query in split.queries.tolist()
        if any(task.targets[i] == task.targets[query] for i in candidates(task, split, protocol, query))
    ]
    return len(found) / seeds, len({task.features.groups[i] for i in found})
