"""Export an engine as AnnData: slides as rows, codes in `obsm`, the distances to the nearest slides in `obsp`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from slideseek import __version__
from slideseek.archive.archive import Archive
from slideseek.engine import Engine
from slideseek.errors import UsageError
from slideseek.searching.searcher import Answer, Mode
from slideseek.types import Hit
from slideseek_apps.interchange.export_codes import CodeTable, stored_codes
from slideseek_apps.interchange.export_hits import nearest
from slideseek_apps.interchange.export_output import Destination, ExportSummary, SlideChoice
from slideseek_apps.interchange.tables import needs_extra
from slideseek_apps.reports.sharing import Sharing

KNOWN = ("patient", "site", "label", "center")


def export_anndata(
    archive: Archive, engine: Engine, choice: SlideChoice, destination: Destination, k: int, mode: Mode
) -> ExportSummary:
    """Write `slides.h5ad`: metadata in obs, codes in obsm, the k nearest slides of each in obsp and uns."""
    if engine.spec.many:
        raise UsageError(
            f"engine {engine.name!r} has several codes per slide, and a row of AnnData is one slide",
            "export its codes as npz",
        )
    try:
        import anndata
        import pandas
    except ImportError as error:
        raise needs_extra("AnnData") from error
    (path,) = destination.claim(["slides.h5ad"])
    summary = ExportSummary()
    table = stored_codes(archive, engine, choice, summary)
    answers = nearest(archive, engine.name, table.ids, k, mode)
    sharing = destination.sharing
    records = {row.id: sharing.record(row.record) for row in choice.rows}
    kept = [records[slide_id] for slide_id in table.ids]
    columns: dict[str, list[Any]] = {name: [getattr(record, name) for record in kept] for name in KNOWN}
    columns["mpp"] = [np.nan if record.mpp is None else record.mpp for record in kept]
    for name in sorted({name for record in kept for name in record.columns} - set(columns)):
        columns[name] = [str(record.columns.get(name, "")) for record in kept]
    out = anndata.AnnData(
        obs=pandas.DataFrame(columns, index=pandas.Index([record.id for record in kept], name="slide_id", dtype=object))
    )
    out.obsm["codes"] = matrix(table)
    out.obsp["distances"] = distances(table.ids, answers)
    out.uns["slideseek"] = {
        "version": __version__,
        "engine": engine.name,
        "kind": engine.spec.kind,
        "width": engine.spec.width,
        "spaces": table.arrays()["spaces"].astype(object),
        "mode": mode,
        "k": k,
    }
    out.uns["hits"] = _hits(table.ids, answers, k, sharing)
    with destination.writing(path) as temporary:
        out.write_h5ad(temporary)
    summary.wrote(path, *(record.id for record in kept))
    return summary


def matrix(table: CodeTable) -> Any:
    """Return the codes as (slides, width): float32, 0 and 1 in uint8 for bits, a CSR matrix for sparse codes."""
    arrays = table.arrays()
    if "rows" not in arrays:
        return csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"]))
    if str(arrays["kind"]) == "bits":
        return np.unpackbits(arrays["rows"], axis=1, count=int(arrays["width"]))
    return arrays["rows"]


def distances(ids: list[str], answers: dict[str, Answer]) -> csr_matrix:
    """Return a CSR matrix (slides, slides): the distance of each slide to its nearest ones; others are not stored.

    A distance of zero is stored as an explicit zero.
    """
    place = {slide_id: i for i, slide_id in enumerate(ids)}
    starts, columns, values = [0], [], []
    for slide_id in ids:
        hits = [hit for hit in _of(answers, slide_id) if hit.slide_id in place]
        columns += [place[hit.slide_id] for hit in hits]
        values += [float(hit.distance) for hit in hits]
        starts.append(len(columns))
    size = (len(ids), len(ids))
    return csr_matrix((np.array(values, np.float64), np.array(columns, np.int32), np.array(starts)), shape=size)


def _of(answers: dict[str, Answer], slide_id: str) -> list[Hit]:
    return [found.hit for found in answers[slide_id].found] if slide_id in answers else []


def _hits(ids: list[str], answers: dict[str, Answer], k: int, sharing: Sharing) -> dict[str, NDArray[Any]]:
    """Return the nearest slides of each slide, nearest first: ids (slides, k), "" and NaN where there are fewer."""
    found = np.full((len(ids), k), "", dtype=object)
    far = np.full((len(ids), k), np.nan)
    for i, slide_id in enumerate(ids):
        for j, hit in enumerate(_of(answers, slide_id)[:k]):
            found[i, j], far[i, j] = sharing.slide(hit.slide_id), float(hit.distance)
    return {"ids": found, "distances": far}
