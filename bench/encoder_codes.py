"""Fit an encoder on one split of a feature set and keep the codes of all slides, with what they cost."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.encoder_sets import FeatureSet, Protocol, Split
from slideseek.interfaces import BatchEncoder, Encoder, Index, Trainable
from slideseek.types import Bag, Code
from slideseek_components.indexes.cosine import Cosine
from slideseek_components.indexes.hamming import Hamming


@dataclass(frozen=True)
class Entry:
    """An encoder to compare. make: returns it for a seed and a number of labels. shuffled: fitted on labels and sites
    dealt out at random."""

    name: str
    make: Callable[[int, int], Encoder]
    shuffled: bool = False


@dataclass(frozen=True)
class Coded:
    """What one fit gave: the distance of every slide to every slide, and the costs.

    near: float64 (slides, slides), from the row's slide as a query; inf where codes are not comparable. code_bytes: per
    slide. encode_ms: per slide, coded together where the encoder can. fit_s: seconds of one thread. peak_mb: memory
    above what the process had before.
    """

    near: NDArray[np.float64]
    code_bytes: float
    encode_ms: float
    fit_s: float
    peak_mb: float


def coded(features: FeatureSet, entry: Entry, seed: int, protocol: Protocol, split: Split, keep: Path) -> Coded:
    """Return what `entry` gives on a split, from `keep` if it is there."""
    file = keep / file_name(f"{features.name} {entry.name} {seed} {protocol} {split.number}.npz")
    if not file.exists():
        found = compute(features, entry, seed, split)
        unfinished = file.with_suffix(".unfinished.npz")
        np.savez(unfinished, **vars(found))
        unfinished.replace(file)
    with np.load(file) as stored:
        return Coded(stored["near"], *(float(stored[k]) for k in ("code_bytes", "encode_ms", "fit_s", "peak_mb")))


def compute(features: FeatureSet, entry: Entry, seed: int, split: Split) -> Coded:
    """Fit `entry` on the training slides of a split, and code and compare all slides."""
    encoder = entry.make(seed, len(set(features.labels)))
    order = np.random.default_rng([seed, 99]).permutation(len(features.bags)) if entry.shuffled else None
    with Peak() as peak:
        start = time.process_time()
        if isinstance(encoder, Trainable):
            encoder.fit(*training(features, split.train, order))
        fitted = time.process_time()
        codes = encode(encoder, features.bags)
        done = time.process_time()
    count = len(codes)
    return Coded(
        distances(codes, encoder.spec(features.bags[0].width).kind == "bits"),
        sum(code.nbytes for code in codes) / count,
        1000 * (done - fitted) / count,
        fitted - start,
        peak.megabytes,
    )


def training(
    features: FeatureSet, train: NDArray[np.int64], order: NDArray[np.int64] | None
) -> tuple[list[Bag], list[str], list[str]]:
    """Return what `fit` gets. order: whose label and site each slide gets instead of its own."""
    given = range(len(features.bags)) if order is None else order.tolist()
    bags = [features.bags[i] for i in train]
    if order is not None:
        sites = [features.bags[given[i]].site for i in train]
        bags = [Bag(bag.slide_id, bag.features, bag.xy, site) for bag, site in zip(bags, sites)]
    return bags, [features.labels[given[i]] for i in train], [features.groups[i] for i in train]


def encode(encoder: Encoder, bags: Sequence[Bag]) -> list[Code]:
    """Return the codes, 64 bags together where the encoder can."""
    if isinstance(encoder, BatchEncoder):
        return [code for start in range(0, len(bags), 64) for code in encoder.encode_many(bags[start : start + 64])]
    return [encoder.encode(bag) for bag in bags]


def distances(codes: Sequence[Code], bits: bool) -> NDArray[np.float64]:
    """Return float64 (slides, slides): the distance of each slide as a query to each other."""
    index: Index = Hamming() if bits else Cosine()
    index.add(codes)
    place = {name: i for i, name in enumerate(index.ids)}
    near = np.full((len(codes), len(codes)), np.inf)
    for i, code in enumerate(codes):
        for hit in index.search(code, len(codes)):
            near[i, place[hit.slide_id]] = hit.distance
    return near


class Peak:
    """Sample the memory of the process inside the block; `megabytes` is the most above what it had before."""

    def __init__(self) -> None:
        self.megabytes = 0.0
        self._stop = threading.Event()
        self._before = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peak:
        self._before = resident()
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            self.megabytes = max(self.megabytes, (resident() - self._before) / 2**20)


def resident() -> int:
    """Return the bytes of memory that the process holds; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def file_name(name: str) -> str:
    """Return `name` with what does not belong in the name of a file replaced."""
    return "".join(c if c.isalnum() or c in "-.()" else "_" for c in name)
