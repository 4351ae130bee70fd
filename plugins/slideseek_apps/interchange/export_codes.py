"""Export codes as one `.npz` file that NumPy reads without pickle, or as Parquet."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slideseek.archive.archive import Archive
from slideseek.archive.manifest import Problem
from slideseek.archive.payloads import unpack_code
from slideseek.engine import Engine
from slideseek.errors import SlideseekError, UsageError
from slideseek.indexing.stage_cache import StageCache
from slideseek.types import Code, CodeSpec
from slideseek_apps.interchange.export_output import Destination, ExportSummary, SlideChoice
from slideseek_apps.interchange.tables import write_table


def export_codes(
    archive: Archive, engine: Engine, choice: SlideChoice, destination: Destination, suffix: str = "npz"
) -> ExportSummary:
    """Write the codes of slides, as `.npz` or, one row per code, as `.parquet`."""
    (path,) = destination.claim([f"codes.{suffix}"])
    summary = ExportSummary()
    table = stored_codes(archive, engine, choice, summary)
    table.ids = [destination.sharing.slide(slide_id) for slide_id in table.ids]
    if suffix == "parquet":
        write_table(path, table.columns())
    else:
        with destination.writing(path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **table.arrays())
    summary.wrote(path, *table.ids)
    return summary


def stored_codes(archive: Archive, engine: Engine, choice: SlideChoice, summary: ExportSummary) -> CodeTable:
    """Return the codes of slides. A damaged code is a problem; the others are returned."""
    stages = StageCache(archive, summary.notes.append)
    table = CodeTable(engine.spec)
    missing: list[str] = []
    for row in choice.rows:
        payload = archive.catalog.payload(stages.key(engine, "encode", row))
        if payload is None or not stages.done(engine, "encode", row):
            missing.append(row.id)
            continue
        try:
            table.add(unpack_code(payload, row.id))
        except SlideseekError as error:
            summary.problems.append(Problem(row.id, error.cause, error.fix))
    choice.leave_out(missing, f"code of engine {engine.name!r}", "run 'slideseek build'", summary)
    return table


class CodeTable:
    """The codes of many slides as plain arrays. Sparse codes are never all dense in memory at once."""

    def __init__(self, spec: CodeSpec) -> None:
        self.ids: list[str] = []
        self._spec = spec
        self._spaces: list[str] = []
        self._lengths: list[int] = []
        self._rows: list[NDArray[Any]] = []
        self._values: list[NDArray[Any]] = []
        self._columns: list[NDArray[Any]] = []
        self._counts: list[NDArray[Any]] = []

    def add(self, code: Code) -> None:
        """Add the code of one slide."""
        self.ids.append(code.slide_id)
        self._spaces.append(code.space)
        self._lengths.append(len(code))
        if self._spec.kind != "sparse":
            self._rows.append(code.rows)
            return
        row, column = np.nonzero(code.rows)
        self._values.append(code.rows[row, column])
        self._columns.append(column.astype(np.int32))
        self._counts.append(np.bincount(row, minlength=len(code)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to write.

        ids, spaces: one string per slide. starts: int64 (slides + 1,), the rows of slide i are starts[i] to
        starts[i + 1]. rows: as in `Code.rows`, concatenated; for sparse codes the data, indices, indptr and shape of a
        CSR matrix instead.
        kind, width: of the codes.
        """
        columns, dtype = self._spec.row_shape
        common: dict[str, NDArray[Any]] = {
            "ids": np.array(self.ids, dtype=np.str_),
            "spaces": np.array(self._spaces, dtype=np.str_),
            "starts": np.cumsum([0, *self._lengths], dtype=np.int64),
            "kind": np.array(self._spec.kind),
            "width": np.array(self._spec.width),
        }
        if self._spec.kind != "sparse":
            return {**common, "rows": np.concatenate([np.zeros((0, columns), dtype), *self._rows])}
        counts = np.concatenate([np.zeros(0, np.int64), *self._counts])
        return {
            **common,
            "data": np.concatenate([np.zeros(0, np.float32), *self._values]),
            "indices": np.concatenate([np.zeros(0, np.int32), *self._columns]),
            "indptr": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            "shape": np.array([len(counts), columns]),
        }

    def columns(self) -> dict[str, list[Any]]:
        """Return one row per code: slide_id, space, and `code`, a list of values (of bytes for bits)."""
        if self._spec.kind == "sparse":
            raise UsageError("sparse codes have no rows of equal length in Parquet", "export them as npz or h5ad")
        each = [(i, space, row) for i, space, rows in zip(self.ids, self._spaces, self._rows) for row in rows]
        return {"slide_id": [i for i, _, _ in each], "space": [s for _, s, _ in each], "code": [r for _, _, r in each]}
