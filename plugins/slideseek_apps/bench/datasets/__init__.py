"""Dataset adapters: one module a kind of data, found by name; each turns a path into slides, truths and bags.

An adapter is a dataclass whose fields are its options, with `load() -> Source`. Register one by adding a line to
`ADAPTERS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from slideseek.errors import UsageError

if TYPE_CHECKING:
    from slideseek_apps.bench.datasets.dataset import Dataset, Source


class Adapter(Protocol):
    """A dataset adapter: its fields are its options."""

    def load(self) -> Source:
        """Find the slides, what is true of them, and their features."""
        ...


@dataclass(frozen=True, slots=True)
class AdapterEntry:
    """One kind of data. target: `module:Class` of the adapter."""

    kind: str
    target: str
    summary: str

    def adapter(self) -> type[Any]:
        """Import the adapter's class."""
        module, _, name = self.target.partition(":")
        loaded: type[Any] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
        return loaded


ADAPTERS: dict[str, AdapterEntry] = {
    entry.kind: entry
    for entry in (
        AdapterEntry("archive", "from_archive:ArchiveData", "an archive of slideseek with features already built"),
        AdapterEntry("features", "feature_folder:FeatureFolder", "a manifest CSV and a TRIDENT or CLAM feature folder"),
        AdapterEntry("tcga", "tcga:Tcga", "TCGA slides from the GDC, by their file names, with a table of diagnoses"),
        AdapterEntry("lks", "lks:Lks", "the Liver-Kidney-Stomach immunofluorescence set, in its own folder layout"),
        AdapterEntry("bags", "bag_arrays:BagArrays", "bags in one .npz file: x, bag and labels"),
        AdapterEntry("bag-csv", "bag_csv:BagCsv", "multiple-instance bags in one CSV: bag, label, features"),
    )
}


def load_dataset(
    kind: str, options: Mapping[str, Any], base: Path, on_slide: Callable[[str], None] = lambda _: None
) -> Dataset:
    """Load a dataset and look at every bag of it once. Relative paths among the options start at `base`."""
    from slideseek.options import from_table
    from slideseek_apps.bench.datasets.dataset import examine

    adapter: Adapter = from_table(ADAPTERS[kind].adapter(), options, "dataset", base=base)
    return examine(adapter.load(), on_slide)


def guess_kind(path: Path) -> str:
    """Tell the kind of the data at a path from what is there."""
    from slideseek.config import CONFIG_NAME
    from slideseek_apps.bench.datasets.lks import LABELS

    if not path.exists():
        raise UsageError(f"{path} does not exist", "check the path of the data")
    if path.is_dir():
        if (path / CONFIG_NAME).is_file():
            return "archive"
        return "lks" if any((path / name).is_file() for name in LABELS.values()) else "features"
    kinds = {".npz": "bags", ".csv": "bag-csv"}
    if path.suffix.lower() not in kinds:
        raise UsageError(
            f"{path}: its name does not tell what kind of data it is", f"pass --dataset, one of {', '.join(ADAPTERS)}"
        )
    return kinds[path.suffix.lower()]
