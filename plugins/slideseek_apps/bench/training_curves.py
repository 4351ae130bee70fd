"""Run a training cell: the training log of an encoder, and the values of one slide's code (the paper's Figure 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slideseek.errors import SlideseekError, UsageError
from slideseek.types import Code, Float64
from slideseek_apps.bench.cell_run import CellRun
from slideseek_apps.bench.classification import embed
from slideseek_apps.bench.encoding import encode_slides
from slideseek_apps.bench.fitting import Fitter
from slideseek_apps.bench.folds import make_folds

LOG = "training.csv"


@dataclass(frozen=True, slots=True)
class Curves:
    """What a training cell keeps.

    log: CSV text, one row per epoch. values: `values`, the code of one slide in the dimensions of highest variance over
    the slides of its space, highest first, and `variance`, both float64 (dimensions,).
    """

    log: str
    values: Mapping[str, Float64]


def curves(run: CellRun, top: int) -> Curves:
    """Fit on the training side of the first fold, and return the training log and the values of one slide.

    The slide is the first test slide that can be encoded. top: number of dimensions.
    """
    plan = run.plan
    fold = make_folds(run.records, plan.protocol, plan.seed, learns=True)[0]
    fitter = Fitter(plan, run.opaque, run.training, run.on_epoch)
    encoder = fitter.fit([run.records[i] for i in fold.train])
    run.costs.fit += fitter.seconds
    if fitter.training is None or not (fitter.training / LOG).is_file():
        raise UsageError(
            f"engine {plan.variant.engine!r} keeps no training log", "use encoders that train with checkpoints"
        )
    log = (fitter.training / LOG).read_text(encoding="utf-8")
    records = [run.records[i] for i in sorted({*fold.train, *fold.test})]
    encoded = encode_slides(plan, encoder, run.opaque, records)
    run.costs.encode += encoded.seconds
    run.failures |= encoded.failures
    chosen = next((run.records[i].id for i in fold.test if run.records[i].id in encoded.codes), None)
    if chosen is None:
        raise SlideseekError("no test slide could be encoded", "see the failures of the cell")
    run.costs.stored.append(sum(code.nbytes for code in encoded.codes.values()) / len(encoded.codes))
    space = encoded.codes[chosen].space
    variance = _variance([code for code in encoded.codes.values() if code.space == space], run)
    order = np.argsort(-variance, kind="stable")[:top]
    values = embed([encoded.codes[chosen]], plan.spec)[0].astype(np.float64)
    return Curves(log, {"values": values[order], "variance": variance[order]})


def _variance(codes: list[Code], run: CellRun) -> Float64:
    """Return the variance of each dimension over slides, one code unpacked at a time: codes may be very wide."""
    width = run.plan.spec.width
    total, squares = np.zeros(width), np.zeros(width)
    for code in codes:
        row = embed([code], run.plan.spec)[0].astype(np.float64)
        total += row
        squares += row**2
    mean: Float64 = total / len(codes)
    return np.maximum(squares / len(codes) - mean**2, 0.0)


def write_curves(found: Curves, folder: Path) -> None:
    """Write `training.csv` and `values.npz`."""
    (folder / LOG).write_text(found.log, encoding="utf-8")
    np.savez(folder / "values.npz", **dict(found.values))  # type: ignore[arg-type]
