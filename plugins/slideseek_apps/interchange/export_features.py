"""Export features in TRIDENT's HDF5 layout: one file per slide, for its loaders and for 'slideseek import'."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from slideseek.archive.archive import Archive
from slideseek.archive.files import safe_name
from slideseek.archive.manifest import Problem
from slideseek.archive.records import Payload
from slideseek.archive.slide_table import SlideRow
from slideseek.digests import sha256_file
from slideseek.engine import Engine
from slideseek.errors import DamagedError, SlideseekError
from slideseek.indexing.stage_cache import StageCache
from slideseek.slides.magnification import nominal_mpp
from slideseek_apps.interchange.export_output import Destination, ExportSummary, SlideChoice
from slideseek_apps.interchange.feature_file import FeatureFile
from slideseek_apps.interchange.feature_readers import read_feature_file


def export_features(archive: Archive, engine: Engine, choice: SlideChoice, destination: Destination) -> ExportSummary:
    """Write the features of slides. Damaged features are a problem; the others are written."""
    summary = ExportSummary()
    stages = StageCache(archive, summary.notes.append)
    ready = [row for row in choice.rows if stages.done(engine, "featurize", row)]
    missing = sorted({row.id for row in choice.rows} - {row.id for row in ready})
    choice.leave_out(missing, f"features of engine {engine.name!r}", "run 'slideseek build'", summary)
    names = [destination.sharing.slide(row.id) for row in ready]
    paths = destination.claim([f"{safe_name(name)}.h5" for name in names])
    vectors = all(_is_vector(archive, stages, engine, row) for row in ready)
    for row, name, path in zip(ready, names, paths):
        payload = archive.catalog.payload(stages.key(engine, "featurize", row))
        try:
            file = _stored(archive.root, payload)
            if len(set(file.mpp if file.mpp is not None else ())) > 1:
                summary.notes.append(f"{row.id} has patches at several resolutions; the attributes state the first one")
            placed = archive.catalog.has_payload(stages.key(engine, "select", row))
            with destination.writing(path) as temporary:
                write_trident(temporary, name, file, engine.config.featurizer.use, placed, vectors)
        except SlideseekError as error:
            summary.problems.append(Problem(row.id, error.cause, error.fix))
        else:
            summary.wrote(path, name)
    return summary


def write_trident(
    path: Path, slide_id: str, file: FeatureFile, encoder: str, placed: bool = True, vector: bool = False
) -> None:
    """Write one file: `features` (n, width), `coords` (n, 2) and the attributes TRIDENT's loaders need.

    A magnification is 10 divided by the µm per pixel, so the two in a file have the exact ratio of the resolutions.
    The dataset `mpp` (per patch) is our own; other tools ignore it. Without real positions no `coords` are written.
    vector: the one row describes the whole slide, and `features` is (width,), as TRIDENT writes such vectors.
    """
    with h5py.File(path, "w") as out:
        features = out.create_dataset("features", data=file.features[0] if vector else file.features)
        features.attrs["name"] = slide_id
        features.attrs["encoder"] = encoder
        if not placed or file.xy is None or file.mpp is None:
            return
        coords = out.create_dataset("coords", data=file.xy.astype(np.int64))
        coords.attrs["name"] = slide_id
        coords.attrs["patch_size"] = file.side
        coords.attrs["patch_size_level0"] = round(file.side * float(file.mpp[0]) / file.slide_mpp)
        coords.attrs["level0_magnification"] = _magnification(file.slide_mpp)
        coords.attrs["target_magnification"] = _magnification(float(file.mpp[0]))
        coords.attrs["level0_mpp"] = file.slide_mpp
        out.create_dataset("mpp", data=file.mpp)


def _is_vector(archive: Archive, stages: StageCache, engine: Engine, row: SlideRow) -> bool:
    """Return whether a slide has one row of features without a position, as imported vectors of whole slides have."""
    record = stages.record(engine, "featurize", row)
    placed = archive.catalog.has_payload(stages.key(engine, "select", row))
    return record is not None and record.items == 1 and not placed


def _stored(root: Path, payload: Payload | None) -> FeatureFile:
    """Read an archive's own feature file after checking it against its SHA-256."""
    path = root / (payload.file if payload and payload.file else "")
    if payload is None or not path.is_file() or sha256_file(path) != payload.sha256:
        raise DamagedError("its features are missing or damaged", "run 'slideseek build'")
    return read_feature_file(path)


def _magnification(mpp: float) -> float | int:
    """Return the nominal magnification of a resolution: a whole number where it is one, as in TRIDENT's files."""
    value = nominal_mpp(mpp)  # the rule is its own inverse: 10 / x
    return round(value) if abs(value - round(value)) < 1e-9 else value
