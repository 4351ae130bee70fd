"""Kinds of data a benchmark reads. Each turns a path into slides, truths and bags.

To add a kind, write an `Adapter` and register it with the hook `register_datasets`; the bundled kinds do the same in
`slideseek_apps.bench.plugin`.
"""

from slideseek_apps.bench.datasets.adapter import Adapter, RecognisingAdapter
from slideseek_apps.bench.datasets.dataset import SPLIT, Dataset, LazyBags, Source
from slideseek_apps.bench.datasets.loading import adapter_class, guess_kind, load_dataset

__all__ = [
    "SPLIT",
    "Adapter",
    "Dataset",
    "LazyBags",
    "RecognisingAdapter",
    "Source",
    "adapter_class",
    "guess_kind",
    "load_dataset",
]
