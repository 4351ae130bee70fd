"""Fit an encoder on one split of a feature set, and keep how far its codes are apart and what they cost."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench.encoder_sets import FeatureSet, Protocol, Split, deal_out
from slideseek.interfaces import BatchEncoder, Encoder, Index, Trainable, implements
from slideseek.types import Bag, Code, CodeSpec
from slideseek_components.indexes.cosine import Cosine
from slideseek_components.indexes.hamming import Hamming


@dataclass(frozen=True)
class Entry:
    """An encoder to compare. make: returns it for a seed and a number of labels. shuffled: fitted on labels and sites
    dealt out at random. control: judged by those too. dealt_again: the same distances as the row of this name, judged
    after the labels of the queries were dealt out once more; a control that scores above this knows its queries."""

    name: str
    make: Callable[[int, int], Encoder]
    shuffled: bool = False
    control: bool = False
    dealt_again: str = ""


@dataclass(frozen=True)
class Cost:
    """What an encoder costs. encode_ms: per slide, coded together where the encoder can. fit_s: seconds of one thread.
    peak_mb: memory above what the process had before."""

    encode_ms: float
    fit_s: float
    peak_mb: float


Near: TypeAlias = NDArray[np.float64]
"""(slides, slides): the distance of every slide as a query to every slide, inf where codes are not comparable."""


def near_of(features: FeatureSet, entry: Entry, seed: int, protocol: Protocol, split: Split, keep: Path) -> Near:
    """Return the distances after a fit of `entry` on a split, from the folder `keep` if they are there."""
    file = keep / file_name(f"{features.name} {entry.dealt_again or entry.name} {seed} {protocol} {split.number}.npz")
    if not file.exists():
        keep_arrays(file, near=measured(features, entry, seed, split)[0])
    with np.load(file) as stored:
        near: Near = stored["near"]
        return near


def cost_of(features: FeatureSet, entry: Entry, split: Split, keep: Path) -> Cost:
    """Return what `entry` costs on a split with nothing shared, from the folder `keep` if it is there."""
    file = keep / file_name(f"{features.name} {entry.name} cost.npz")
    if not file.exists():
        SHARED.clear()
        keep_arrays(file, **vars(measured(features, entry, 0, split)[1]))
        SHARED.clear()
    with np.load(file) as stored:
        return Cost(*(float(stored[item.name]) for item in dataclass_fields(Cost)))


def bytes_of(features: FeatureSet, entry: Entry) -> float:
    """Return the mean size of a slide's code in bytes; nothing is fitted."""
    spec = entry.make(0, len(set(features.labels))).spec(features.bags[0].width)
    columns, kind = spec.row_shape
    rows = float(np.mean([len(bag) for bag in features.bags])) if spec.many else 1.0
    return rows * columns * kind.itemsize


def measured(features: FeatureSet, entry: Entry, seed: int, split: Split) -> tuple[Near, Cost]:
    """Fit `entry` on the training slides of a split, and code and compare all slides."""
    encoder = entry.make(seed, len(set(features.labels)))
    known = deal_out(features, seed) if entry.shuffled else features
    with Peak() as peak:
        start = time.process_time()
        if implements(encoder, Trainable):
            encoder.fit(*training(known, split.train))
        fitted = time.process_time()
        codes = encode(encoder, features.bags)
        done = time.process_time()
    near = distances(codes, encoder.spec(features.bags[0].width).kind == "bits")
    return near, Cost(1000 * (done - fitted) / len(codes), fitted - start, peak.megabytes)


SHARED: dict[tuple[str, ...], tuple[Encoder, dict[str, Code]]] = {}
"""The encoders that were fitted on the last training slides, by options and slides, and the codes they gave."""


class Once(Trainable, BatchEncoder):
    """An encoder that several rows contain and that learns nothing from labels: fitted once for each split."""

    def __init__(self, encoder: Trainable) -> None:
        self.encoder = encoder
        self.name = "shared"

    def __repr__(self) -> str:
        return repr(self.encoder)

    def __deepcopy__(self, memo: dict[int, Any]) -> Once:
        return self

    def spec(self, width: int) -> CodeSpec:
        return self.encoder.spec(width)

    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        key = (repr(self.encoder), *(bag.slide_id for bag in bags))
        if any(other[1:] != key[1:] for other in SHARED):
            SHARED.clear()
        if key not in SHARED:
            self.encoder.fit(bags, [""] * len(bags), groups)
            SHARED[key] = self.encoder, {}
        self.key = key

    def encode(self, bag: Bag) -> Code:
        return self.encode_many([bag])[0]

    def encode_many(self, bags: Sequence[Bag]) -> list[Code]:
        encoder, codes = SHARED[self.key]
        for bag in bags:
            if bag.slide_id not in codes:
                codes[bag.slide_id] = encoder.encode(bag)
        return [codes[bag.slide_id] for bag in bags]

    def save(self, folder: Path) -> None:
        trained = SHARED[self.key][0]
        if implements(trained, Trainable):
            trained.save(folder)

    def load(self, folder: Path) -> None:
        self.encoder.load(folder)
        self.key = (repr(self.encoder), str(folder))
        SHARED[self.key] = self.encoder, {}


def training(features: FeatureSet, train: NDArray[np.int64]) -> tuple[list[Bag], list[str], list[str]]:
    """Return what `fit` gets: the bags, labels and patients of the training slides."""
    return [features.bags[i] for i in train], [features.labels[i] for i in train], [features.groups[i] for i in train]


def encode(encoder: Encoder, bags: Sequence[Bag]) -> list[Code]:
    """Return the codes, 64 bags together where the encoder can."""
    if implements(encoder, BatchEncoder):
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


def keep_arrays(file: Path, **arrays: Any) -> None:
    """Write arrays under a temporary name first, so that a run that was stopped leaves no half of a file."""
    unfinished = file.with_suffix(".unfinished.npz")
    np.savez_compressed(unfinished, **arrays)
    unfinished.replace(file)


def file_name(name: str) -> str:
    """Return `name` with what does not belong in the name of a file replaced."""
    return "".join(c if c.isalnum() or c in "-.()" else "_" for c in name)
