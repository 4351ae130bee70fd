"""Bags in one NumPy file."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slideseek.errors import SlideseekError, message
from slideseek.plugins import Registry
from slideseek.types import Bag, SlideRecord
from slideseek_apps.bench.datasets.dataset import SPLIT, Source

_TEXT = ("slide_id", "patient", "site", "label", "center", SPLIT)


@dataclass(frozen=True)
class BagArrays:
    """Take bags from the arrays of one `.npz` file; objects are never read.

    `x` (instances, width) are features and `bag` (instances,) gives the bag of each instance. Either `y` (instances,)
    labels the instances, and a bag has the label of its instances; or `bag` holds positions in `slide_id`, and
    `patient`, `site`, `label`, `center` and `split` describe each slide. `xy` (instances, 2) are positions in pixels.

    path: the file. site: the site of all slides, where the file has none.
    """

    path: Path
    site: str = ""

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Say whether the path is a `.npz` file."""
        return path.is_file() and path.suffix.lower() == ".npz"

    def load(self, registry: Registry) -> Source:
        """Read the arrays and cut them into bags."""
        arrays = self._arrays()
        for name in ("x", "bag"):
            if name not in arrays:
                raise self._error(f"it has no array {name!r} (arrays: {', '.join(arrays) or 'none'})")
        x, bag = arrays["x"], arrays["bag"]
        if x.ndim != 2 or x.shape[1] < 1 or x.dtype.kind not in "fiu":
            raise self._error(f"'x' is {x.dtype} {x.shape}, not numbers (instances, width)")
        if bag.shape != (len(x),) or bag.dtype.kind not in "iu":
            raise self._error(f"'bag' is {bag.dtype} {bag.shape}, not whole numbers ({len(x)},)")
        places = arrays.get("xy", np.zeros((len(x), 2), np.int32))
        if places.shape != (len(x), 2):
            raise self._error(f"'xy' has shape {places.shape}, not ({len(x)}, 2)")
        records = self._slides(arrays) if "slide_id" in arrays else self._bags(arrays)
        order = np.argsort(bag, kind="stable")
        starts = np.searchsorted(bag[order], [number for number, _ in records])
        ends = np.searchsorted(bag[order], [number for number, _ in records], side="right")
        bags = {}
        for (_, record), start, end in zip(records, starts, ends):
            rows = order[start:end]
            bags[record.id] = Bag(record.id, x[rows].astype(np.float32), places[rows].astype(np.int32), record.site)
        return Source(self.path.stem, tuple(record for _, record in records), bags)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        try:
            with np.load(self.path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except (OSError, ValueError, zipfile.BadZipFile, AttributeError) as error:
            raise self._error(f"it cannot be read as a .npz file ({message(error)})") from error

    def _slides(self, arrays: dict[str, NDArray[Any]]) -> list[tuple[int, SlideRecord]]:
        """Return the slides that the file lists, each with its number in `bag`."""
        count = len(arrays["slide_id"])
        for name in _TEXT:
            if name in arrays and (arrays[name].shape != (count,) or arrays[name].dtype.kind not in "US"):
                raise self._error(f"{name!r} is {arrays[name].dtype} {arrays[name].shape}, not text ({count},)")
        if len(arrays["bag"]) and (arrays["bag"].min() < 0 or arrays["bag"].max() >= count):
            raise self._error(f"'bag' names a row beyond the {count} of 'slide_id'")
        rows = []
        for number in range(count):
            said = {name: str(arrays[name][number]) if name in arrays else "" for name in _TEXT}
            site, split = said["site"] or self.site, {SPLIT: said[SPLIT]} if said[SPLIT] else {}
            record = SlideRecord(
                said["slide_id"], "", said["patient"], site, said["label"], said["center"], fields=split
            )
            rows.append((number, record))
        return rows

    def _bags(self, arrays: dict[str, NDArray[Any]]) -> list[tuple[int, SlideRecord]]:
        """Return one slide per bag, labelled by its instances, which must agree."""
        if "y" not in arrays or arrays["y"].shape != arrays["bag"].shape:
            raise self._error("it has neither 'slide_id' nor labels 'y' of the same length as 'bag'")
        rows = []
        for number in np.unique(arrays["bag"]):
            labels = np.unique(arrays["y"][arrays["bag"] == number])
            if len(labels) > 1:
                raise self._error(f"the instances of bag {number} have several labels ({', '.join(map(str, labels))})")
            name = f"{self.path.stem}-{int(number):04d}"
            rows.append((int(number), SlideRecord(name, "", site=self.site, label=str(labels[0]))))
        return rows

    def _error(self, what: str) -> SlideseekError:
        return SlideseekError(f"{self.path}: {what}", "see the dataset kinds in docs/reference/benchmark-config.md")
