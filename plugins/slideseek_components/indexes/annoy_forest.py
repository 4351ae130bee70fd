"""Approximate search with a forest of random trees (the annoy library, an optional dependency)."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slideseek.errors import PluginError
from slideseek.types import CodeSpec, Int64, Mask

from . import folder as files
from .approximate import ApproximateIndex
from .recall import RecallSample, stored_rows

try:
    from annoy import AnnoyIndex
except ImportError as missing:
    raise PluginError("index 'annoy' needs the annoy library", "pip install 'slideseek[annoy]'") from missing

Metric: TypeAlias = Literal["angular", "hamming"]

LEAST_RECALL = 0.95


class Forest:
    """An annoy index over single codes, memory-mapped from disk. metric: `angular` for floats, `hamming` for bits."""

    def __init__(
        self, metric: Metric, width: int, search_k: int, path: Path, home: TemporaryDirectory[str] | None
    ) -> None:
        self.metric: Metric = metric
        self.width, self.search_k, self.path = width, search_k, path
        self.home = home  # the file is kept as long as the forest built in it
        self.index = AnnoyIndex(width, metric)

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return self.path.stat().st_size

    @property
    def settings(self) -> Mapping[str, Any]:
        """Metric and width, which the file does not contain."""
        return {"metric": self.metric, "width": self.width}

    def vector(self, row: NDArray[Any]) -> list[float]:
        """Return the row of a code as annoy takes it: one number per bit or value."""
        values = np.unpackbits(row) if self.metric == "hamming" else row
        return [*values.tolist()]

    def near(self, row: NDArray[Any], count: int, search_k: int | None = None) -> Int64:
        """Return the numbers of at most `count` codes. search_k: nodes to inspect, if not the forest's own number."""
        nodes = self.search_k if search_k is None else search_k
        return np.array(
            self.index.get_nns_by_vector(self.vector(row), count, max(nodes, count) if nodes else -1), np.int64
        )

    def write(self, path: Path) -> None:
        """Copy the forest's file."""
        shutil.copyfile(self.path, path)
        files.sync(path)


@dataclass
class Annoy(ApproximateIndex):
    """Search single codes through random trees: angular for floats, Hamming for bits.

    Trees cannot grow: slides added later are searched exactly until they are a tenth of those in the trees; then the
    forest is rebuilt. Its recall is measured when it is built. Below 0.95, a `LowRecallWarning` reports which option to
    raise, then and whenever the forest is opened.

    n_trees: more trees find more neighbours and take more space. search_k: nodes a search inspects; 0 is the library's
    default, n_trees times k, which finds few neighbours for long codes. exact_below: spaces and masks of at most this
    many slides are searched exactly. seed: of the trees.
    """

    name: ClassVar[str] = "annoy"
    n_trees: int = 50
    search_k: int = field(default=10_000, metadata={"at_query": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_trees < 1:
            raise ValueError(f"n_trees: at least 1, not {self.n_trees}")
        if self.search_k < 0:
            raise ValueError(f"search_k: 0 or more nodes, not {self.search_k}")

    def refuses(self, spec: CodeSpec) -> str:
        """Accept single floats and single bits."""
        if spec.many:
            return f"annoy stores one code per slide, not {spec}: use {'hamming' if spec.kind == 'bits' else 'cosine'}"
        return f"annoy would make {spec} dense: use sparse" if spec.kind == "sparse" else ""

    def _build(self, wanted: Mask, sample: RecallSample) -> Forest:
        store, bits = self.exact_.store_, self.exact_.name == "hamming"
        home = TemporaryDirectory(prefix="slideseek-annoy-")
        width = store.columns * 8 if bits else store.columns
        path = Path(home.name) / "forest.ann"
        forest = Forest("hamming" if bits else "angular", width, self.search_k, path, home)
        forest.index.set_seed(self.seed)
        forest.index.on_disk_build(str(path))
        number = 0
        for rows in stored_rows(store, wanted):
            for row in rows:
                forest.index.add_item(number, forest.vector(row))
                number += 1
        forest.index.build(self.n_trees, n_jobs=1)  # with several jobs the trees would depend on their number
        return forest

    def _near(self, neighbours: Any, row: NDArray[Any], count: int) -> Int64:
        found: Int64 = neighbours.near(row, count, self.search_k)
        return found

    def _shortfall(self, recall: float) -> str:
        if recall >= LEAST_RECALL:
            return ""
        advice = f"raise search_k (now {self.search_k}) or n_trees (now {self.n_trees}), or use an exact index"
        return f"annoy finds {recall:.2f} of the 10 nearest: {advice}"

    def _open(self, path: Path, settings: Mapping[str, Any]) -> Forest:
        forest = Forest(settings["metric"], settings["width"], self.search_k, path, None)
        forest.index.load(str(path))
        return forest
