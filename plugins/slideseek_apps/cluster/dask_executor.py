"""Run the work of a build on the workers of a Dask scheduler (https://distributed.dask.org)."""

from __future__ import annotations

import queue
import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from slideseek.archive.records import ModelRow
from slideseek.building.fit_work import FitWork
from slideseek.building.slide_work import SlideWork
from slideseek.errors import SlideError, SlideseekError, one_line
from slideseek.interfaces import FitsElsewhere, Progress, Work
from slideseek_apps.cluster.dask_scheduler import TICK_SECONDS, Workers, connected, submitted
from slideseek_apps.cluster.dask_worker import fit_here, has_device, work_here
from slideseek_apps.cluster.packed_work import pack_fit, pack_slide
from slideseek_apps.cluster.suspects import Suspects

LEAST_WAITING = 8
"""Slides given to the scheduler at least; beyond it, two per thread of all workers."""

DIED = "look at their logs: they may need more memory for this, or a library crashes on it"


@dataclass(frozen=True)
class Dask(FitsElsewhere):
    """Give each slide to a worker of a Dask scheduler; the process that builds only commits the results.

    Workers need the same slideseek and plugins, and the archive and the slides under the same paths: a file system that
    all machines share. A worker that dies loses nothing: its slides go to others. A slide that Dask gives up, after
    as many workers as its option `distributed.scheduler.allowed-failures` allows (3), is tried again alone, and fails
    if it ends three more.
    A worker with two threads reads one slide while it computes another.

    address: of a running scheduler, such as `tcp://10.0.0.5:8786`. Without it and without `cluster`, Dask's own
    configuration names it (`DASK_SCHEDULER_ADDRESS`).

    scheduler_file: the file that `dask scheduler --scheduler-file` writes, instead of the address.

    cluster: start workers as jobs of a batch system with dask-jobqueue, and end them with the build.

    jobs: options of dask-jobqueue for these jobs, such as `{ queue = "gpu", cores = 8, memory = "32GB" }`.

    workers: jobs to start; only with `cluster`.

    resources: what a slide, and a fit, take of a worker's resources, such as `{ GPU = 1 }` for workers started with
    `dask worker --resources GPU=1`.

    fit_on: where encoders are fitted: on one "worker", which has a GPU if any of them has one, or "here", in the
    process that builds.

    wait: seconds to wait for the scheduler, and for the first worker, or for the next one after the last was lost.

    patience: seconds without progress in reading a slide before it is given up.
    """

    address: str = ""
    scheduler_file: str = ""
    cluster: Literal["", "slurm", "pbs", "lsf", "sge"] = ""
    jobs: dict[str, Any] = field(default_factory=dict)
    workers: int = 1
    resources: dict[str, float] = field(default_factory=dict)
    fit_on: Literal["worker", "here"] = "worker"
    wait: float = 300.0
    patience: float = 600.0

    def __post_init__(self) -> None:
        if sum(map(bool, (self.address, self.scheduler_file, self.cluster))) > 1:
            raise ValueError("address, scheduler_file and cluster each name a scheduler: set one of them")
        if self.workers < 1:
            raise ValueError(f"workers must be at least 1, not {self.workers}")
        if self.wait <= 0 or self.patience <= 0:
            raise ValueError("wait and patience must be positive")

    def run(self, works: Iterable[Work]) -> Generator[tuple[Work, Iterable[Any]], None, None]:
        """Yield each work with its results, as they come."""
        remaining = iter(works)
        following = next(remaining, None)
        if following is None:  # nobody is bothered
            return
        topic, finished = f"slideseek-{uuid.uuid4()}", queue.Queue[Any]()
        running: dict[Any, Work] = {}
        suspects = Suspects()
        with self._client(self.workers) as client:
            workers = Workers(client, self.wait)
            client.subscribe_topic(topic, lambda event: suspects.heard(event[1]))

            def submit(work: Work, alone: bool = False) -> None:
                if not isinstance(work, SlideWork):
                    raise TypeError(f"a build gives slides to an executor, not {type(work).__name__}")
                given = (pack_slide(work), self.patience, topic, alone)
                future = client.submit(work_here, *given, resources=self.resources or None, pure=False)
                running[future] = work
                future.add_done_callback(finished.put)

            while following is not None or running or suspects:
                while following is not None and len(running) < max(LEAST_WAITING, 2 * workers.threads):
                    submit(following)
                    following = next(remaining, None)
                if (suspect := suspects.next()) is not None:
                    submit(suspect, alone=True)
                workers.check()
                try:
                    future = finished.get(timeout=TICK_SECONDS)
                except queue.Empty:
                    continue
                work = running.pop(future)
                if not _killed(future):
                    suspects.done(work)
                elif (verdict := suspects.killed(work)) != "blame":
                    future.release()
                    if verdict == "again":
                        submit(work, alone=True)
                    continue
                yield work, _results(future)

    def fit(self, work: Any, progress: Progress) -> ModelRow | None:
        """Fit on one worker. If it dies, another one goes on from the last checkpoint."""
        if self.fit_on == "here" or not isinstance(work, FitWork):
            return None
        topic, heard = f"slideseek-{uuid.uuid4()}", queue.Queue[Any]()
        packed = pack_fit(work)
        with self._client(1) as client:
            workers = Workers(client, self.wait)
            client.subscribe_topic(topic, lambda event: heard.put(event[1]))
            further = True
            while True:
                able = [] if self.resources else [where for where, able in client.run(has_device).items() if able]
                given = {"workers": able, "allow_other_workers": True} if able else {}
                future = client.submit(fit_here, packed, topic, resources=self.resources or None, pure=False, **given)
                future.add_done_callback(lambda _: heard.put({}))
                while not future.done() or not heard.empty():
                    workers.check()
                    with suppress(queue.Empty):
                        if "epoch" in (said := heard.get(timeout=TICK_SECONDS)):
                            further = True
                            progress(said["epoch"])
                if not _killed(future):
                    return ModelRow(**_answer(future)["model"])
                if not further:
                    raise SlideseekError(
                        f"the workers that fitted engine {work.engine.name!r} died, one after the other", DIED
                    )
                further = False  # machines vanish: as long as the training comes further, it goes on

    def _client(self, jobs: int) -> AbstractContextManager[Any]:
        start = partial(submitted, self.cluster, self.jobs, jobs) if self.cluster else None
        return connected(self.address, self.scheduler_file, start, self.wait)


def _killed(future: Any) -> bool:
    """Return whether Dask gave a task up because the workers that had it died."""
    from distributed import KilledWorker

    with suppress(Exception):
        return isinstance(future.exception(), KilledWorker)
    return False


def _results(future: Any) -> Iterator[Any]:
    """Yield what a worker returned for a slide; raise its error."""
    if _killed(future):
        raise SlideError("the workers that it was given to died, one after the other", DIED)
    yield from _answer(future)["results"]


def _answer(future: Any) -> Mapping[str, Any]:
    """Return what a worker returned; raise its error."""
    try:
        error = future.exception()
        found: Mapping[str, Any] | None = None if error is not None else future.result()
    except Exception as problem:
        error, found = problem, None
    finally:
        with suppress(Exception):
            future.release()
    if found is None:
        raise SlideseekError(
            f"a Dask worker failed ({one_line(error) if error else 'no result'})",
            "install the same slideseek, plugins and Dask on all workers",
        )
    if "cause" in found:
        raise (SlideError if found["slide"] else SlideseekError)(found["cause"], found["fix"])
    return found
