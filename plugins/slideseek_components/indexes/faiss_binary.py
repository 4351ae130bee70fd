"""Approximate Hamming search for very large archives (faiss inverted lists or graph), tuned to a recall."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import faiss
import numpy as np
from numpy.typing import NDArray

from slideseek.types import Code, CodeSpec, Int64, Mask, UInt8

from . import folder as files
from .approximate import ApproximateIndex
from .hamming import Hamming
from .k_majority import k_majority
from .recall import RecallSample, stored_rows
from .stored_index import StoredIndex

Method = Literal["ivf", "hnsw"]
EFFORTS = tuple(2**power for power in range(13))
"""Values tried for the lists visited (ivf) or the nodes kept (hnsw), cheapest first."""
ROWS_A_LIST, ROUNDS = 64, 10
"""Codes per list, and rounds of clustering, used to find the centres of the lists."""


class FaissStructure:
    """A faiss binary index over single codes of bits. effort: lists visited by a search, or nodes it keeps."""

    def __init__(self, index: Any, method: Method, effort: int) -> None:
        self.index, self.method, self.effort = index, method, effort

    @property
    def nbytes(self) -> int:
        """Bytes of the codes, which faiss copies, and of lists or links."""
        count, size = int(self.index.ntotal), int(self.index.code_size)
        if self.method == "ivf":
            return count * (size + 8) + int(self.index.nlist) * size
        return count * (size + 12) + 4 * int(self.index.hnsw.neighbors.size())

    @property
    def settings(self) -> Mapping[str, Any]:
        """Method and effort, which the file does not contain."""
        return {"method": self.method, "effort": self.effort}

    def near(self, row: NDArray[Any], count: int, effort: int = 0) -> Int64:
        """Return the numbers of at most `count` codes. effort: instead of the structure's own, 0 for that."""
        effort = effort or self.effort
        query = np.zeros((1, int(self.index.code_size)), np.uint8)
        query[0, : len(row)] = row
        if self.method == "ivf":
            self.index.nprobe = min(effort, int(self.index.nlist))
        else:
            self.index.hnsw.efSearch = max(effort, count)
        numbers: Int64 = self.index.search(query, count)[1][0]
        return numbers[numbers >= 0]

    def write(self, path: Path) -> None:
        """Write faiss's own file."""
        faiss.write_index_binary(self.index, str(path))
        files.sync(path)


@dataclass
class FaissBinary(ApproximateIndex):
    """Search single codes of bits through inverted lists (method `ivf`) or a graph (`hnsw`).

    When built, a sample of the slides is searched with increasing effort until `target_recall` of their 10 nearest are
    found; that effort is kept. It doubles the memory, which is worthwhile in large archives of codes that cluster: 0.4
    ms per query instead of 9.5 among a million codes of 1,024 bits. Spaces and masks of at most `exact_below` slides
    are searched exactly.

    lists: inverted lists, 0 for the square root of the number of slides. links: of a node in the graph. effort: lists
    that a search visits (`ivf`), or nodes it keeps (`hnsw`), 0 for the number that `target_recall` needed.
    """

    name: ClassVar[str] = "faiss-binary"
    method: Method = "ivf"
    target_recall: float = 0.98
    lists: int = 0
    links: int = 16
    exact_below: int = field(default=20_000, metadata={"at_query": True})
    effort: int = field(default=0, metadata={"at_query": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in ("ivf", "hnsw"):
            raise ValueError(f"method: ivf or hnsw, not {self.method!r}")
        if not 0 < self.target_recall <= 1:
            raise ValueError(f"target_recall: above 0 and at most 1, not {self.target_recall}")
        if self.lists < 0:
            raise ValueError(f"lists: 0 or more, not {self.lists}")
        if self.links < 2:
            raise ValueError(f"links: at least 2, not {self.links}")
        if self.effort < 0:
            raise ValueError(f"effort: 0 or more, not {self.effort}")

    def refuses(self, spec: CodeSpec) -> str:
        """Accept single bits."""
        if spec.kind != "bits":
            return f"faiss-binary compares bits, not {spec}: use cosine or sparse"
        return f"faiss-binary stores one code per slide, not {spec}: use hamming" if spec.many else ""

    def _exact_for(self, code: Code) -> StoredIndex:
        return Hamming()

    def _build(self, wanted: Mask, sample: RecallSample) -> FaissStructure:
        built = FaissStructure(self._filled(wanted), self.method, EFFORTS[0])
        for effort in EFFORTS:
            built.effort = effort
            if sample.recall(built) >= self.target_recall:
                return built
        return built

    def _near(self, neighbours: Any, row: NDArray[Any], count: int) -> Int64:
        found: Int64 = neighbours.near(row, count, self.effort)
        return found

    def _shortfall(self, recall: float) -> str:
        if recall >= self.target_recall:
            return ""
        cause = f"faiss-binary finds {recall:.2f} of the 10 nearest, not {self.target_recall}"
        return f"{cause}: raise links, or use the exact hamming"

    def _filled(self, wanted: Mask) -> Any:
        """Return a faiss index of the wanted codes."""
        store, width = self.exact_.store_, self.exact_.store_.columns * 8
        index: Any = faiss.IndexBinaryHNSW(width, self.links)
        if self.method == "ivf":
            # faiss's own training needs memory quadratic in the width: gigabytes for long codes
            centres = faiss.IndexBinaryFlat(width)
            centres.add(self._centres(wanted))
            index = faiss.IndexBinaryIVF(centres, width, centres.ntotal)
            index.is_trained = True
        for rows in stored_rows(store, wanted):
            index.add(np.ascontiguousarray(rows))
        return index

    def _centres(self, wanted: Mask) -> UInt8:
        """Return the centres of the lists, from a sample of the wanted codes."""
        slots = np.flatnonzero(wanted)
        lists = min(self.lists or math.isqrt(len(slots)), len(slots))
        sample = np.zeros(len(wanted), np.bool_)
        sample[np.random.default_rng(self.seed).permutation(slots)[: lists * ROWS_A_LIST]] = True
        rows = np.concatenate(list(stored_rows(self.exact_.store_, sample)))
        return k_majority(rows, lists, ROUNDS, self.seed)

    def _open(self, path: Path, settings: Mapping[str, Any]) -> FaissStructure:
        return FaissStructure(faiss.read_index_binary(str(path)), settings["method"], settings["effort"])
