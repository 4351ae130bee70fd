"""Run a benchmark: check the data for leaks, make the grid, and run the cells that are missing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w
from filelock import FileLock, Timeout

from slideseek.archive.files import clear_temporary, write_text
from slideseek.building.reporting import Reporter, SlideReport
from slideseek.errors import SlideseekError
from slideseek.plugins import Registry
from slideseek_apps.bench.cell_run import CellRun
from slideseek_apps.bench.classification import classify
from slideseek_apps.bench.config import BenchConfig
from slideseek_apps.bench.datasets.dataset import Dataset
from slideseek_apps.bench.finished_cells import CELLS, CellResult, cell_folder, is_done, write_cell
from slideseek_apps.bench.folds import taking_part, target_of
from slideseek_apps.bench.grid import CellPlan, make_grid
from slideseek_apps.bench.leak_guards import check_duplicates
from slideseek_apps.bench.memory import peak_mb, reset_peak
from slideseek_apps.bench.progress import RunProgress
from slideseek_apps.bench.ranked_lists import QueryHits
from slideseek_apps.bench.results import read_cell
from slideseek_apps.bench.retrieval import retrieve
from slideseek_apps.bench.shuffled_control import ControlVerdict, judge_control
from slideseek_apps.bench.training_curves import curves

TRAINING = "training"
CONFIG = "bench.toml"
LOCK = ".lock"


@dataclass
class BenchSummary:
    """What a run did.

    ran, done: names of the cells run now and of those finished before. failed: by cell name, why. verdicts: of
    controls, by cell name. stale: number of cells of earlier configurations in the folder.
    """

    folder: Path
    plans: Sequence[CellPlan] = ()
    ran: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    failed: dict[str, SlideseekError] = field(default_factory=dict)
    verdicts: dict[str, ControlVerdict] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    stale: int = 0

    @property
    def sound(self) -> bool:
        """Whether no cell failed and every control is at chance."""
        return not self.failed and all(verdict.at_chance for verdict in self.verdicts.values())


class BenchRunner:
    """Run one configuration over one dataset into one folder."""

    def __init__(
        self, config: BenchConfig, dataset: Dataset, registry: Registry, folder: Path, reporter: Reporter
    ) -> None:
        self.config, self.dataset, self.registry = config, dataset, registry
        self.folder, self.reporter = folder, reporter
        self.summary = BenchSummary(folder)
        self._progress = RunProgress(reporter)
        self._last: tuple[str, CellResult] | None = None

    def run(self, only: Sequence[str] = (), control: bool = False) -> BenchSummary:
        """Run the cells that are missing. A cell that fails is reported, and the others still run.

        A leak in the data stops the run before it begins. A run that was killed resumes at the first missing cell.
        """
        if self.config.guards.duplicates:
            check_duplicates(self.dataset)
        plans = [
            plan
            for plan in make_grid(self.config, self.dataset, self.registry, only, control)
            if self._has_targets(plan)
        ]
        if not plans:
            raise SlideseekError("no protocol can be used with this dataset", "see the notes above")
        self.summary.plans = plans
        for name in self.config.guards.off:
            self._note(f"the guard {name!r} is off; the results record this")
        with self._writing():
            write_text(self.folder / CONFIG, tomli_w.dumps(self.config.data))
            self.reporter.phase("cells", len(plans))
            for plan in plans:
                self._cell(plan)
        self._judge([plan for plan in plans if plan.control])
        keys = {plan.key for plan in plans}
        cells = self.folder / CELLS
        others = [p for p in cells.glob("[!.]*") if p.name not in keys] if cells.is_dir() else []
        self.summary.stale = len(others)
        return self.summary

    def _has_targets(self, plan: CellPlan) -> bool:
        """Say whether the dataset has two or more targets for a protocol; note once when it does not."""
        records = taking_part(self.dataset.records, plan.protocol)
        targets = {target_of(record, plan.protocol) for record in records}
        if len(targets) > 1:
            return True
        found = f"all slides are {next(iter(targets))!r}" if targets else f"no slide has a {plan.protocol.target}"
        text = f"protocol {plan.protocol.name!r} is left out: {found}, so there is nothing to distinguish"
        if text not in self.summary.notes:
            self._note(text)
        return False

    def _cell(self, plan: CellPlan) -> None:
        if is_done(self.folder, plan):
            self.summary.done.append(plan.name)
            self.reporter.slide(SlideReport(plan.name, "skipped"))
            return
        self.reporter.begin(plan.name)
        self._progress.start_cell()
        try:
            result = self._result(plan)
        except SlideseekError as error:
            self.summary.failed[plan.name] = error
            self.reporter.slide(SlideReport(plan.name, "failed", error.cause, error.fix))
            return
        write_cell(self.folder, plan, self.dataset, self.config, result)
        self.summary.ran.append(plan.name)
        self._progress.end_cell()
        self.reporter.slide(SlideReport(f"{plan.name}{self._progress.left(self._missing())}", "ok"))
        if result.failures:
            self.reporter.note(f"{plan.name}: {_not_encoded(result.failures)}")

    def _missing(self) -> int:
        """Return how many cells are still to run."""
        over = len(self.summary.ran) + len(self.summary.done) + len(self.summary.failed)
        return sum(not is_done(self.folder, plan) for plan in self.summary.plans[over:])

    def _result(self, plan: CellPlan) -> CellResult:
        """Run a cell, or reuse the result of another seed where the seed changes nothing."""
        work = plan.name_without_seed
        if plan.seedless and self._last is not None and self._last[0] == work:
            return self._last[1]
        result = self._run(plan)
        self._last = (work, result)
        return result

    def _run(self, plan: CellPlan) -> CellResult:
        reset_peak()
        epoch = partial(self._progress.epoch, plan.name)
        run = CellRun(plan, self.dataset, self.config.guards, self.folder / TRAINING, epoch)
        found: Any
        if plan.task == "training":
            found = curves(run, self.config.top)
        elif plan.task == "classification":
            found = classify(run, self.config.classifier)
        else:
            found = retrieve(run)
        extra = {"measured_with_seed": plan.seed}
        return CellResult(found, run.costs, run.failures, peak_mb(), extra, run.candidates)

    def _judge(self, plans: Sequence[CellPlan]) -> None:
        """Compare every control with chance."""
        for plan in plans:
            if plan.name in self.summary.failed:
                continue
            queries: list[QueryHits] = read_cell(cell_folder(self.folder, plan)).hits()
            verdict = judge_control(queries, plan.protocol, plan.seed, len(plans))
            self.summary.verdicts[plan.name] = verdict
            self._note(f"control {plan.variant.name}, {plan.protocol.name}: {verdict}")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lock of the results folder, and remove what a killed run left half-written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / LOCK)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise SlideseekError(
                f"another benchmark is writing to {self.folder}", "wait until it is done, or choose another folder"
            ) from error
        try:
            clear_temporary(self.folder, [CELLS, TRAINING])
            yield
        finally:
            lock.release()

    def _note(self, text: str) -> None:
        self.summary.notes.append(text)
        self.reporter.note(text)


def _not_encoded(failures: Mapping[str, str]) -> str:
    slide, cause = next(iter(sorted(failures.items())))
    return f"{len(failures)} slide(s) could not be encoded and find nothing, such as {slide!r}: {cause}"
