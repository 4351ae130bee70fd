"""Peak memory of training on bags streamed from HDF5, small bags against large ones.

    python -m bench.training_memory FOLDER

trains on the feature files in FOLDER and prints how many bytes the process took above what it held when training
began. `growth` writes such folders with the same patches in small and in large bags and runs the command on each, in a
process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import h5py
import numpy as np

from slideseek.archive.features import read_features
from slideseek.types import Bag
from slideseek_components.encoders.deep_sbfv import DeepSparseBinaryFisherVector

PATCHES = 18_000
"""Patches in all: more than the trainer's shuffle pool holds by default, so that bags are streamed."""


@dataclass(frozen=True)
class Growth:
    """Peak bytes above the start by patches a bag, the smaller bags first."""

    peaks: dict[int, int]

    @property
    def ratio(self) -> float:
        """Peak with the larger bags, times that with the smaller ones."""
        smaller, larger = self.peaks.values()
        return larger / smaller


class FolderBags(Sequence[Bag]):
    """The bags of a folder of feature files, each read when it is asked for, as those of an archive are."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    @overload
    def __getitem__(self, at: int) -> Bag: ...

    @overload
    def __getitem__(self, at: slice) -> FolderBags: ...

    def __getitem__(self, at: int | slice) -> Bag | FolderBags:
        if isinstance(at, slice):
            return FolderBags(self._files[at])
        stored = read_features(self._files[at])
        return Bag(self._files[at].stem, stored.features, stored.xy, "lung")


def write_bags(folder: Path, patches: int, width: int, total: int) -> None:
    """Write `total` patches of random features as bags of `patches` each."""
    rng = np.random.default_rng(0)
    for i in range(total // patches):
        with h5py.File(folder / f"s{i:05d}.h5", "w") as file:
            file["features"] = rng.random((patches, width), dtype=np.float32)
            file["coords"] = np.zeros((patches, 2), dtype=np.int32)


def own_bytes() -> int:
    """Return the bytes of memory that are this process's own: pages of mapped files can be dropped at any time."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status does not say RssAnon")


def peak_during(work: Callable[[], object]) -> int:
    """Return how many bytes more than before the process took at most while `work` ran, looked at every 2 ms."""
    before = peak = own_bytes()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.is_set():
            peak = max(peak, own_bytes())
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return peak - before


def train(folder: Path) -> int:
    """Train `deep-sbfv`, preset paper, for an epoch on the bags in `folder`; return the peak bytes it took."""
    files = sorted(folder.glob("*.h5"))
    names = [str(i) for i in range(len(files))]
    labels = [f"class {i % 4}" for i in range(len(files))]
    encoder = DeepSparseBinaryFisherVector(epochs=1, batch_size=256, bits=500, device="cpu")
    return peak_during(lambda: encoder.fit(FolderBags(files), labels, names))


def growth(smaller: int, larger: int, width: int, total: int = PATCHES) -> Growth:
    """Measure training on the same number of patches in bags of `smaller` and of `larger` patches."""
    peaks = {}
    for patches in (smaller, larger):
        with tempfile.TemporaryDirectory() as folder:
            write_bags(Path(folder), patches, width, total)
            command = [sys.executable, "-m", "bench.training_memory", folder]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks[patches] = int(done.stdout)
    return Growth(peaks)


if __name__ == "__main__":
    print(train(Path(sys.argv[1])))
