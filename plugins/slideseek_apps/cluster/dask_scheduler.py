"""Reach a Dask scheduler, start workers as jobs, and look after the workers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from slideseek.errors import SlideseekError, UsageError, message

CLUSTERS = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster", "sge": "SGECluster"}
"""By batch system, the class of dask-jobqueue that submits workers to it."""

WORKER_ENVIRONMENT = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "500ms",
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
    "MALLOC_MMAP_THRESHOLD_": str(2**25),
}
"""Variables of a worker. Its profiler looks a hundred times per second at what it runs, which takes 5 % of a core. Each
process of Dask also wakes up fifty times per second to see whether it is late, which takes about 1 % each. And Dask has
glibc give back all memory at once (`MALLOC_TRIM_THRESHOLD_` of 64 KiB), so that each batch of images asks the system
for it again, page by page: a third more CPU time. Both thresholds are needed, since one alone fixes the other.
"""

TICK_SECONDS = 2.0
"""Longest time without a look at the scheduler and its workers."""


@contextmanager
def connected(address: str, file: str, jobs: Any, wait: float) -> Iterator[Any]:
    """Connect to a scheduler. Leaving cancels what is running: a worker stops at its next patches.

    jobs: a function that submits workers as jobs and returns their cluster, None to use a running scheduler, which is
    found by its address, its file or Dask's configuration. wait: seconds to wait for it, at most 30.
    """
    try:
        import distributed
    except ImportError as error:
        raise UsageError(
            f"the executor 'dask' cannot be used ({message(error)})", "pip install 'slideseek[dask]'"
        ) from error
    with ExitStack() as stack:
        where = address or file or "the address in Dask's configuration"
        try:
            found = address or distributed.config.get("scheduler-address", "")
            if jobs is not None:
                found = stack.enter_context(jobs())
            elif not found and not file:
                raise UsageError(
                    "the executor 'dask' has no scheduler",
                    'set address = "tcp://HOST:8786" or cluster = "slurm" in the table [executor]',
                )
            given = {"scheduler_file": file} if file else {"address": found}
            client = distributed.Client(**given, timeout=min(wait, 30), set_as_default=False, name="slideseek")
        except (OSError, TimeoutError, ValueError) as error:
            raise SlideseekError(
                f"cannot reach a Dask scheduler at {where} ({message(error)})",
                "start one with 'dask scheduler', or build with --executor local",
            ) from error
        # Not a context manager: leaving one waits for the scheduler, which may be gone.
        stack.callback(lambda: client.close(timeout=5))
        yield client


def submitted(cluster: str, options: Mapping[str, Any], count: int) -> Any:
    """Submit workers as jobs of a batch system; they end when the returned cluster is closed."""
    try:
        import dask_jobqueue
    except ImportError as error:
        raise UsageError(
            f"workers cannot be submitted as jobs ({message(error)})", "pip install 'slideseek[dask]'"
        ) from error
    try:
        exports = [f"export {name}={value}" for name, value in WORKER_ENVIRONMENT.items()]
        made = getattr(dask_jobqueue, CLUSTERS[cluster])(**{"job_script_prologue": exports, **options})
        made.scale(jobs=count)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"executor.jobs: {CLUSTERS[cluster]} does not take them ({message(error)})",
            "see the options in the documentation of dask-jobqueue",
        ) from error
    return made


class Workers:
    """The workers of a scheduler, looked at now and then. wait: seconds to wait when there is none."""

    def __init__(self, client: Any, wait: float) -> None:
        self._client, self._wait = client, wait
        self._seen = time.monotonic()
        self._looked = -TICK_SECONDS
        self.threads = 0
        self.check()

    def check(self) -> None:
        """Count the threads of all workers; raise an error if the scheduler is gone, or no worker came for long."""
        now = time.monotonic()
        if now - self._looked < TICK_SECONDS:
            return
        self._looked = now
        try:
            if self._client.status not in ("running", "newly-created"):
                raise OSError(f"the connection is {self._client.status}")
            self.threads = sum(self._client.nthreads().values())
        except Exception as error:  # closed connections raise many kinds
            raise SlideseekError(
                f"the Dask scheduler was lost ({message(error)})", "start it again and build: finished slides are kept"
            ) from error
        if self.threads:
            self._seen = now
        elif now - self._seen > self._wait:
            raise SlideseekError(
                f"the Dask scheduler had no worker for {self._wait:g} s",
                "start workers with 'dask worker', or look at the jobs of the batch system",
            )
