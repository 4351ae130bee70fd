"""What a Dask worker does for a build: the work on a slide, or the fit of an encoder."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from slideseek.errors import SlideError, SlideseekError
from slideseek.interfaces import Executor, Work
from slideseek.plugins import load_registry
from slideseek_apps.cluster.packed_work import restore_fit, restore_slide

DEVICES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/kfd", "/dev/accel/accel0")
"""Files that Linux has where a GPU or another accelerator can be used."""

HEARD_SECONDS = 0.05
"""Time for a message to leave this process before work begins that may end it."""

_computing = threading.Lock()
"""Of the slides that one worker process has, one is computed and the others are read: featurizers use all cores."""


class Floor:
    """Who works in this process: any number of slides together, or one alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._working, self._claimed = 0, False

    @contextmanager
    def entered(self, alone: bool) -> Iterator[None]:
        """Wait until there is room, and hold it. alone: wait until the others are done, and let nobody else in."""
        with self._changed:
            self._changed.wait_for(lambda: not self._claimed)
            self._claimed = alone
            self._changed.wait_for(lambda: not alone or not self._working)
            self._working += 1
        try:
            yield
        finally:
            with self._changed:
                self._working -= 1
                self._claimed = self._claimed and not alone
                self._changed.notify_all()


_floor = Floor()


def work_here(packed: str, patience: float, topic: str, alone: bool = False) -> Mapping[str, Any]:
    """Do the work on a slide in this worker; return its results, or the error that every slide here would meet.

    patience: seconds without progress in reading before the slide is given up. alone: nothing else is done meanwhile,
    and the topic hears that it begins.
    """
    with _floor.entered(alone), _as_data() as answer:
        if alone:
            _say(topic, {"begun": _task()})
            time.sleep(HEARD_SECONDS)
        with _computing_of(patience, _Wanted(restore_slide(packed))) as results:
            answer["results"] = list(results)
    return answer


def fit_here(packed: str, topic: str) -> Mapping[str, Any]:
    """Fit an encoder in this worker; return the record of its model. The topic hears of every epoch."""
    wanted = _wanted()

    def progress(metrics: Mapping[str, float]) -> None:
        wanted()
        _say(topic, {"epoch": {name: float(value) for name, value in metrics.items()}})

    with _floor.entered(False), _as_data() as answer, _computing:
        answer["model"] = asdict(restore_fit(packed).run(progress))
    return answer


def has_device() -> bool:
    """Return whether this machine has a GPU that this process may use."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1")
    return not hidden and any(Path(name).exists() for name in DEVICES)


@contextmanager
def _as_data() -> Iterator[dict[str, Any]]:
    """Yield an answer; an error is put into it as data, since not every exception can be sent."""
    answer: dict[str, Any] = {}
    try:
        yield answer
    except SlideseekError as error:
        answer.update(cause=error.cause, fix=error.fix, slide=isinstance(error, SlideError))


@contextmanager
def _computing_of(patience: float, work: Work) -> Iterator[Iterable[Any]]:
    """Yield the results of a work, which is read at once and computed when the slides before are."""
    running = _local(patience).run([work])
    try:
        _, results = next(running)
        with _computing:
            yield results
    finally:
        running.close()


@lru_cache(maxsize=8)
def _local(patience: float) -> Executor:
    """Return what runs work in this process."""
    made: Executor = load_registry(kinds=("executor",)).load("executor", "local")(workers=1, patience=patience)
    return made


@dataclass(frozen=True)
class _Wanted(Work):
    """A work that ends when the build no longer waits for it."""

    work: Work

    @property
    def slide_id(self) -> str:
        return self.work.slide_id

    def read(self) -> Iterator[Any]:
        return self.work.read()

    def compute(self, read: Iterator[Any]) -> Iterator[Any]:
        wanted = _wanted()

        def items() -> Iterator[Any]:
            for item in read:
                wanted()
                yield item

        return self.work.compute(items())


def _wanted() -> Any:
    """Return a function that raises an error once the build was interrupted, or another worker has the task."""
    from distributed import get_worker

    worker, key = get_worker(), _task()

    def check() -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state != "executing":
            raise SlideseekError("the build was interrupted", "build again")

    return check


def _task() -> str:
    from distributed import get_worker

    return str(get_worker().get_current_task())


def _say(topic: str, message: Mapping[str, Any]) -> None:
    """Send a message to the build."""
    from distributed import get_worker

    get_worker().log_event(topic, message)
