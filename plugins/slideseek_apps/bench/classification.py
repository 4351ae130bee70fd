"""Run a classification cell: two fully connected layers on the frozen code of a slide (the paper's Table 3)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from slideseek.errors import UsageError
from slideseek.types import Code, CodeSpec, Float32
from slideseek_apps.bench.cell_run import CellRun
from slideseek_apps.bench.config import Classifier
from slideseek_apps.bench.folds import target_of
from slideseek_apps.bench.results import Prediction


def classify(run: CellRun, options: Classifier) -> list[Prediction]:
    """Return the class of every test slide, sorted by slide id; a slide that could not be encoded has class "".

    Encoder and classifier learn from the training side of each fold. Codes of different spaces (the sites of a
    conditioned encoder) do not compare, so each space has its own classifier. In a vertical protocol each site has its
    own, since classes of another site are not among the answers.
    """
    plan = run.plan
    if plan.spec.many:
        raise UsageError(
            f"engine {plan.variant.engine!r} makes several rows per slide; a classifier needs one row",
            "leave it out of the classification",
        )
    if plan.protocol.fit == "none":
        raise UsageError(
            "a classifier learns, and fit = 'none' leaves it no training slides", "set fit = 'folds' or 'split'"
        )
    found: list[Prediction] = []
    for fold, _, encoded in run:
        records = run.records
        run.costs.stored.append(sum(code.nbytes for code in encoded.codes.values()) / len(encoded.codes))
        scope = {
            i: (encoded.codes[records[i].id].space, _scope(run, i))
            for i in (*fold.train, *fold.test)
            if records[i].id in encoded.codes
        }
        for name in sorted(set(scope.values())):
            train, test = ([i for i in side if scope.get(i) == name] for side in (fold.train, fold.test))
            truths = [target_of(records[i], plan.protocol) for i in train]
            said = _predict(
                embed([encoded.codes[records[i].id] for i in train], plan.spec),
                truths,
                embed([encoded.codes[records[i].id] for i in test], plan.spec),
                options,
                plan.seed,
            )
            found.extend(_prediction(run, i, fold.number, answer) for i, answer in zip(test, said))
        found.extend(_prediction(run, i, fold.number, "") for i in fold.test if i not in scope)
    return sorted(found, key=lambda prediction: prediction.query_id)


def embed(codes: Sequence[Code], spec: CodeSpec) -> Float32:
    """Return codes as float32 (slides, width): floats unchanged, a bit as 1 or -1."""
    if spec.kind != "bits":
        return (
            np.concatenate([code.rows for code in codes]).astype(np.float32)
            if codes
            else np.zeros((0, spec.width), np.float32)
        )
    rows = [np.unpackbits(code.rows[0].astype(np.uint8), count=spec.width) for code in codes]
    return (np.array(rows, dtype=np.float32).reshape(-1, spec.width) * 2 - 1).astype(np.float32)


def _predict(train: Float32, truths: Sequence[str], test: Float32, options: Classifier, seed: int) -> list[str]:
    if not len(test) or not len(train):
        return [""] * len(test)
    if len(set(truths)) == 1:
        return [truths[0]] * len(test)
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    centre, spread = train.mean(axis=0), train.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    network = MLPClassifier(
        (options.hidden,),
        alpha=options.weight_decay,
        batch_size=min(options.batch_size, len(train)),
        learning_rate_init=options.learning_rate,
        max_iter=options.epochs,
        n_iter_no_change=options.epochs,
        random_state=seed,
    )
    # One thread: sums in another order would give other weights on another machine.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of epochs is an option, not a failure
        network.fit((train - centre) / scale, list(truths))
        return [str(answer) for answer in network.predict((test - centre) / scale)]


def _scope(run: CellRun, i: int) -> str:
    return run.records[i].site if run.plan.protocol.mode == "vertical" else ""


def _prediction(run: CellRun, i: int, fold: int, answer: str) -> Prediction:
    record = run.records[i]
    return Prediction(record.id, target_of(record, run.plan.protocol), record.patient, str(fold), answer)
