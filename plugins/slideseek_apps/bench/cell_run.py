"""The run of one cell: in each fold, an encoder fitted on the training slides alone encodes the slides needed."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from slideseek.errors import SlideseekError
from slideseek.interfaces import Encoder
from slideseek.types import SlideRecord
from slideseek_apps.bench.datasets.dataset import Dataset
from slideseek_apps.bench.encoding import EncodedSlides, encode_slides
from slideseek_apps.bench.fitting import Fitter, OnEpoch
from slideseek_apps.bench.folds import Fold, make_folds, taking_part
from slideseek_apps.bench.grid import CellPlan
from slideseek_apps.bench.hub_counts import Candidates
from slideseek_apps.bench.leak_guards import Guards, LabelProbe, check_sides
from slideseek_apps.bench.opaque_ids import OpaqueIds
from slideseek_apps.bench.shuffled_control import shuffle_labels


@dataclass
class Costs:
    """What a cell cost.

    fit: seconds, all folds. encode, search: seconds per slide and per query; those of a batch share its time equally.
    stored: bytes per slide in the index, one number per fold.
    """

    fit: float = 0.0
    encode: list[float] = field(default_factory=list)
    search: list[float] = field(default_factory=list)
    stored: list[float] = field(default_factory=list)

    def times(self) -> dict[str, float | None]:
        """Return the times of the cell's record: total of fitting, median per encoded slide and per query."""
        return {
            "fit_s": self.fit,
            "encode_ms_per_slide": 1000 * statistics.median(self.encode) if self.encode else None,
            "search_ms_median": 1000 * statistics.median(self.search) if self.search else None,
        }


@dataclass
class CellRun:
    """The run of one cell over a dataset.

    training: folder of checkpoints. records: the slides that take part, in a control with shuffled labels. failures: by
    slide id, why it has no code. candidates: how often each slide could be found.
    """

    plan: CellPlan
    dataset: Dataset
    guards: Guards
    training: Path
    on_epoch: OnEpoch
    records: list[SlideRecord] = field(init=False)
    opaque: OpaqueIds = field(init=False)
    costs: Costs = field(init=False, default_factory=Costs)
    failures: dict[str, str] = field(init=False, default_factory=dict)
    candidates: Candidates = field(init=False, default_factory=Candidates)

    def __post_init__(self) -> None:
        plan = self.plan
        self.records = taking_part(self.dataset.records, plan.protocol)
        if plan.control:
            self.records = shuffle_labels(self.records, plan.protocol, plan.seed)
        self.opaque = OpaqueIds.make(self.dataset, self.records, plan.protocol)

    def __iter__(self) -> Iterator[tuple[Fold, Encoder, EncodedSlides]]:
        """Yield each fold with its encoder and the codes of its queries and candidates."""
        plan, kept = self.plan, EncodedSlides()
        fitted = plan.learns or plan.task == "classification"
        for fold in make_folds(self.records, plan.protocol, plan.seed, fitted):
            if self.guards.patients:
                check_sides(self.records, fold, plan.protocol)
            fitter = Fitter(plan, self.opaque, self.training, self.on_epoch)
            encoder = fitter.fit([self.records[i] for i in fold.train])
            self.costs.fit += fitter.seconds
            probe = None
            if self.guards.labels:
                probe = LabelProbe(encoder, plan.spec, plan.owner("encoder"), self.opaque, self.records, fold.test)
                probe.check_ids_ignored()
            needed = [self.records[i] for i in sorted({*fold.test, *fold.among})]
            if plan.learns:
                kept = EncodedSlides()  # the codes of another model do not compare
            missing = [r for r in needed if r.id not in kept.codes and r.id not in kept.failures]
            encoded = encode_slides(plan, encoder, self.opaque, missing)
            kept.codes |= encoded.codes
            self.candidates.patches |= encoded.patches
            kept.failures |= encoded.failures
            self.costs.encode += encoded.seconds
            self.failures |= encoded.failures
            if probe is not None:
                probe.check_state_unchanged()
            if not kept.codes:
                first = next(iter(kept.failures.items()))
                raise SlideseekError(f"no slide could be encoded ({first[0]}: {first[1]})")
            yield fold, encoder, kept
