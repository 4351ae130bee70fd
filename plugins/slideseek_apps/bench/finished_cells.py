"""Finished cells on disk. A run resumes by skipping them: a cell's folder is complete or absent.

The folder is named by a digest of everything that decides the cell's result.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slideseek import __version__
from slideseek.archive.files import replacing_folder
from slideseek.cli.output import csv_text
from slideseek_apps.bench.cell_run import Costs
from slideseek_apps.bench.config import BenchConfig
from slideseek_apps.bench.datasets.dataset import Dataset
from slideseek_apps.bench.grid import CellPlan, protocol_data
from slideseek_apps.bench.hub_counts import Candidates, write_candidates
from slideseek_apps.bench.ranked_lists import QueryHits, write_hits
from slideseek_apps.bench.results import CANDIDATES, VERSION, Prediction
from slideseek_apps.bench.training_curves import Curves, write_curves

CELLS = "cells"


@dataclass(frozen=True)
class CellResult:
    """What a cell found, by its task, and what it cost. extra: further entries of its record.

    candidates: of a retrieval cell, how often each slide could be found.
    """

    found: Sequence[QueryHits] | Sequence[Prediction] | Curves
    costs: Costs
    failures: Mapping[str, str]
    peak_memory_mb: float
    extra: Mapping[str, Any]
    candidates: Candidates = field(default_factory=Candidates)


def cell_folder(folder: Path, plan: CellPlan) -> Path:
    """Return the folder of a cell in a results folder."""
    return folder / CELLS / plan.key


def is_done(folder: Path, plan: CellPlan) -> bool:
    """Say whether a cell is finished; its folder gets its name when it is complete."""
    return (cell_folder(folder, plan) / "cell.json").is_file()


def write_cell(folder: Path, plan: CellPlan, dataset: Dataset, config: BenchConfig, result: CellResult) -> None:
    """Write a finished cell; other processes see all of it or nothing."""
    with replacing_folder(cell_folder(folder, plan)) as temporary:
        if isinstance(result.found, Curves):
            write_curves(result.found, temporary)
        elif plan.task == "classification":
            _write_predictions(temporary / "predictions.csv", result.found)  # type: ignore[arg-type]
        else:
            write_hits(temporary / "hits.csv", result.found)  # type: ignore[arg-type]
            write_candidates(temporary / CANDIDATES, result.candidates)
        record = _record(plan, dataset, config, result)
        (temporary / "cell.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _record(plan: CellPlan, dataset: Dataset, config: BenchConfig, result: CellResult) -> dict[str, Any]:
    protocol = protocol_data(plan.protocol) | {"target": plan.protocol.target}
    fit = plan.protocol.fit if plan.learns or plan.task != "retrieval" else "none"
    stored = result.costs.stored
    return {
        "version": VERSION,
        "key": plan.key,
        "kind": plan.task,
        "name": plan.variant.name,
        "engine": plan.variant.engine,
        "options": plan.options,
        "sweep": plan.variant.sweep,
        "code": str(plan.spec),
        "dataset": {
            "name": dataset.name,
            "fingerprint": dataset.fingerprint,
            "slides": len(dataset.records),
            "patients": dataset.patients,
        },
        "protocol": protocol | {"fit": fit},
        "seed": plan.seed,
        "control": plan.control,
        "trial": config.trial,
        "command": config.command,
        "guards_off": config.guards.off,
        "times": result.costs.times(),
        "bytes_per_slide": sum(stored) / len(stored) if stored else None,
        "peak_memory_mb": result.peak_memory_mb,
        "not_encoded": dict(sorted(result.failures.items())),
        "versions": {"slideseek": __version__, "python": platform.python_version(), **plan.versions, **_libraries()},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        **result.extra,
    }


def _libraries() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("numpy", "torch", "scikit-learn")}


def _write_predictions(path: Path, predictions: Sequence[Prediction]) -> None:
    header = ("query_id", "query_label", "query_patient", "fold", "predicted")
    rows = [(one.query_id, one.label, one.patient, one.fold, one.predicted) for one in predictions]
    path.write_text(csv_text(header, rows), encoding="utf-8")
