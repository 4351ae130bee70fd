"""Run the work of a build on the workers of a Dask scheduler (https://distributed.dask.org)."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from slideseek.errors import SlideError, SlideseekError, UsageError, message, one_line
from slideseek.interfaces import Executor, Work
from slideseek_components.executors.background import Background

CLUSTERS = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster", "sge": "SGECluster"}
"""By batch system, the class of dask-jobqueue that submits workers to it."""

TICK_SECONDS = 2.0
"""Longest time without a look at the scheduler and its workers."""

LEAST_WAITING = 8
"""Slides given to the scheduler at least; beyond it, two per thread of all workers."""

_computing = threading.Lock()
"""Of the slides that one worker process has, one is computed and the others are read: featurizers use all cores."""


@dataclass(frozen=True)
class Dask(Executor):
    """Give each slide to a worker of a Dask scheduler; the process that builds only commits the results.

    Workers need the same slideseek and plugins, and the archive and the slides under the same paths: a file system that
    all machines share. A worker that dies loses nothing: its slides go to others. Dask gives a slide up after as many
    workers have died on it as its option `distributed.scheduler.allowed-failures` allows (3), and that slide fails.
    A worker with two threads reads one slide while it computes another.

    address: of a running scheduler, such as `tcp://10.0.0.5:8786`. Without it and without `cluster`, Dask's own
    configuration names it (`DASK_SCHEDULER_ADDRESS`).

    scheduler_file: the file that `dask scheduler --scheduler-file` writes, instead of the address.

    cluster: start workers as jobs of a batch system with dask-jobqueue, and end them with the build.

    jobs: options of dask-jobqueue for these jobs, such as `{ queue = "gpu", cores = 8, memory = "32GB" }`.

    workers: jobs to start; only with `cluster`.

    resources: what a slide takes of a worker's resources, such as `{ GPU = 1 }` for workers started with
    `dask worker --resources GPU=1`.

    wait: seconds to wait for the scheduler, and for the first worker, or for the next one after the last was lost.

    patience: seconds without progress in reading a slide before it is given up.
    """

    address: str = ""
    scheduler_file: str = ""
    cluster: Literal["", "slurm", "pbs", "lsf", "sge"] = ""
    jobs: dict[str, Any] = field(default_factory=dict)
    workers: int = 1
    resources: dict[str, float] = field(default_factory=dict)
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
        first = next(remaining, None)
        if first is None:  # nobody is bothered
            return
        finished: queue.Queue[Any] = queue.Queue()
        running: dict[Any, Work] = {}
        following: Work | None = first
        with self._client() as client:
            workers = _Workers(client, self.wait)
            while following is not None or running:
                while following is not None and len(running) < max(LEAST_WAITING, 2 * workers.threads):
                    future = client.submit(
                        work_here, *following.packed(), self.patience, resources=self.resources or None, pure=False
                    )
                    running[future] = following
                    future.add_done_callback(finished.put)
                    following = next(remaining, None)
                try:
                    future = finished.get(timeout=TICK_SECONDS)
                except queue.Empty:
                    workers.check()
                    continue
                work = running.pop(future)
                yield work, _results(future)

    @contextmanager
    def _client(self) -> Iterator[Any]:
        """Connect to the scheduler. Leaving cancels what is running: a worker stops at its next patches."""
        try:
            import distributed
        except ImportError as error:
            raise UsageError(
                f"the executor 'dask' cannot be used ({message(error)})", "pip install 'slideseek[dask]'"
            ) from error
        with ExitStack() as stack:
            where = self.address or self.scheduler_file or "the address in Dask's configuration"
            try:
                if self.cluster:
                    scheduler: Any = stack.enter_context(self._jobs())
                elif (
                    not self.address and not self.scheduler_file and not distributed.config.get("scheduler-address", "")
                ):
                    raise UsageError(
                        "the executor 'dask' has no scheduler",
                        'set address = "tcp://HOST:8786" or cluster = "slurm" in the table [executor]',
                    )
                else:
                    scheduler = self.address or distributed.config.get("scheduler-address", "")
                given = {"scheduler_file": self.scheduler_file} if self.scheduler_file else {"address": scheduler}
                client = distributed.Client(**given, timeout=min(self.wait, 30), set_as_default=False, name="slideseek")
            except (OSError, TimeoutError, ValueError) as error:
                raise SlideseekError(
                    f"cannot reach a Dask scheduler at {where} ({message(error)})",
                    "start one with 'dask scheduler', or build with --executor local",
                ) from error
            # Not a context manager: leaving one waits for the scheduler, which may be gone.
            stack.callback(lambda: client.close(timeout=5))
            yield client

    def _jobs(self) -> Any:
        """Submit the jobs of the workers."""
        try:
            import dask_jobqueue
        except ImportError as error:
            raise UsageError(
                f"workers cannot be submitted as jobs ({message(error)})", "pip install 'slideseek[dask]'"
            ) from error
        try:
            cluster = getattr(dask_jobqueue, CLUSTERS[self.cluster])(**self.jobs)
            cluster.scale(jobs=self.workers)
        except (TypeError, ValueError, RuntimeError) as error:
            raise UsageError(
                f"executor.jobs: {CLUSTERS[self.cluster]} does not take them ({message(error)})",
                "see the options in the documentation of dask-jobqueue",
            ) from error
        return cluster


class _Workers:
    """The workers of a scheduler, looked at now and then. wait: seconds to wait when there is none."""

    def __init__(self, client: Any, wait: float) -> None:
        self._client, self._wait = client, wait
        self._seen = time.monotonic()
        self.threads = 0
        self.check()

    def check(self) -> None:
        """Count the threads of all workers; raise an error if the scheduler is gone, or no worker came for long."""
        try:
            if self._client.status not in ("running", "newly-created"):
                raise OSError(f"the connection is {self._client.status}")
            self.threads = sum(self._client.nthreads().values())
        except Exception as error:  # closed connections raise many kinds
            raise SlideseekError(
                f"the Dask scheduler was lost ({message(error)})", "start it again and build: finished slides are kept"
            ) from error
        now = time.monotonic()
        if self.threads:
            self._seen = now
        elif now - self._seen > self._wait:
            raise SlideseekError(
                f"the Dask scheduler had no worker for {self._wait:g} s",
                "start workers with 'dask worker', or look at the jobs of the batch system",
            )


def _results(future: Any) -> Iterator[Any]:
    """Yield what a worker returned for a slide; raise its error."""
    from distributed import KilledWorker

    try:
        error = future.exception()
        found = None if error is not None else future.result()
    except Exception as problem:
        error, found = problem, None
    finally:
        with suppress(Exception):
            future.release()
    if isinstance(error, KilledWorker):
        raise SlideError(
            "the workers that it was given to died, one after the other",
            "look at their logs: they may need more memory for this slide, or a library crashes on it",
        )
    if found is None:
        raise SlideseekError(
            f"a Dask worker failed ({one_line(error) if error else 'no result'})",
            "install the same slideseek, plugins and Dask on all workers",
        )
    if "cause" in found:
        raise (SlideError if found["slide"] else SlideseekError)(found["cause"], found["fix"])
    yield from found["results"]


def work_here(restore: Callable[[str], Work], packed: str, patience: float) -> Mapping[str, Any]:
    """Do the work on a slide in this worker; return its results, or the error that every slide here would meet."""
    try:
        work = restore(packed)
        reading = Background(work.read, patience)
        try:
            with _computing:
                return {"results": list(work.compute(_while_wanted(reading)))}
        finally:
            reading.cancel()
    except SlideseekError as error:  # as data: not every exception can be sent
        return {"cause": error.cause, "fix": error.fix, "slide": isinstance(error, SlideError)}


def _while_wanted(items: Iterable[Any]) -> Iterator[Any]:
    """Yield items until the build no longer waits for this slide: it was interrupted, or given to another worker."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()
    for item in items:
        task = worker.state.tasks.get(key)
        if task is None or task.state != "executing":
            raise SlideseekError("the build was interrupted", "build again")
        yield item
