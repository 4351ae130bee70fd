"""Open, select and read slides ahead of the one whose features are being computed.

Reading and decoding release the interpreter lock, so threads overlap them with inference. Each slide ahead has its own
thread and a short queue. Memory is bounded by the slides ahead times the images in a queue, and a slide that hangs can
be abandoned without stopping the others.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from slideseek.archive.records import Stage
from slideseek.archive.slide_table import SlideRow
from slideseek.building.parts import ReadSoFar
from slideseek.engine import Engine
from slideseek.errors import SlideError, SlideseekError, one_line
from slideseek.slides.content_fingerprint import fingerprint
from slideseek.slides.patch_images import MAX_UNREADABLE, READ_AT_ONCE, patch_images, read_mpp, selection_notes
from slideseek.slides.reader import open_slide
from slideseek.slides.resolution import finer_than_scanned
from slideseek.types import Float32, Int64, Patches, UInt8

DEBUG_VARIABLE = "SLIDESEEK_DEBUG"

QUEUED = 2
"""Messages a slide's queue holds; one of them is at most `READ_AT_ONCE` patches."""


@dataclass(frozen=True, slots=True)
class SelectTask:
    """Select with one engine's selector (unless `stored` holds the patches) and read for some engines' featurizers.

    begun: by engine, how far an interrupted build had read.
    """

    engine: Engine
    stored: Patches | None
    featurize: tuple[Engine, ...]
    begun: Mapping[str, ReadSoFar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlideTask:
    """What a slide needs: the slide, the places of the archive, its file and its outline, and the selections."""

    slide: SlideRow
    root: Path
    path: Path
    contours: Path | None
    selections: tuple[SelectTask, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about a slide's pixels: µm per level-0 pixel, notes, what could not be read, and the reader."""

    mpp: float
    notes: tuple[str, ...] = ()
    unreadable: int = 0
    filled: int = 0
    read_by: str = ""


@dataclass(frozen=True, slots=True)
class Selected:
    """The patches of one selection."""

    engine: Engine
    patches: Patches
    facts: Facts
    seconds: float


@dataclass(frozen=True, slots=True)
class Images:
    """Pixels of some patches for one engine's featurizer; rows are positions among the selected patches.

    blur: float32 (m,), how far they are out of focus in µm. read: how far the slide has been read with them.
    """

    engine: Engine
    rows: Int64
    images: UInt8
    blur: Float32
    read: ReadSoFar


@dataclass(frozen=True, slots=True)
class AllRead:
    """Every patch of one engine has been handed over."""

    engine: Engine
    facts: Facts


@dataclass(frozen=True, slots=True)
class Failed:
    """A stage could not be done for one engine."""

    engine: Engine
    stage: Stage
    error: SlideseekError


Message: TypeAlias = Selected | Images | AllRead | Failed


def read_slide(task: SlideTask, max_unreadable: float = MAX_UNREADABLE) -> Iterator[Message]:
    """Yield what a slide needs to have its features computed; every error is a message."""
    try:
        check_unchanged(task)
        slide = open_slide(task.path, task.slide.id, task.slide.record.mpp)
        slide.contours = task.contours
    except Exception as error:
        for selection in task.selections:
            yield Failed(selection.engine, "select", as_slide_error("opening", error))
        return
    with slide:

        def facts(*more: str, unreadable: int = 0, filled: int = 0) -> Facts:
            notes = (*slide.notes, *filter(None, more))
            return Facts(slide.mpp, notes, slide.unreadable + unreadable, slide.filled + filled, slide.read_by)

        for selection in task.selections:
            started = time.perf_counter()
            try:
                patches = selection.stored if selection.stored is not None else selection.engine.select(slide)
            except Exception as error:
                yield Failed(selection.engine, "select", as_slide_error("selecting", error))
                continue
            seen = selection_notes(slide, patches)
            yield Selected(selection.engine, patches, facts(*seen), time.perf_counter() - started)
            for engine in selection.featurize if len(patches) else ():
                side, begun = engine.read_side(patches), selection.begun.get(engine.name)
                first = begun.next if begun else 0
                # What an interrupted build could not read counts as if it had been read now.
                lost = begun.unreadable - slide.unreadable if begun else 0
                blank = begun.filled - slide.filled if begun else 0
                skipped = begun.left_out if begun else 0
                try:
                    for rows, images in patch_images(slide, patches, side, max_unreadable, first, skipped):
                        after = min(len(patches), (int(rows[-1]) // READ_AT_ONCE + 1) * READ_AT_ONCE)
                        read = ReadSoFar(after, slide.unreadable + lost, slide.filled + blank)
                        blur = engine.blur_um(images, patches.take(rows), slide.mpp)
                        yield Images(engine, rows, images, blur, read)
                    check_unchanged(task)
                except Exception as error:
                    yield Failed(engine, "featurize", as_slide_error("reading", error))
                else:
                    finer = finer_than_scanned(slide.mpp, read_mpp(patches, side))
                    yield AllRead(engine, facts(*seen, finer, unreadable=lost, filled=blank))


def check_unchanged(task: SlideTask) -> None:
    """Raise `SlideError` if a slide changed during the build: its results would be stored for other content."""
    path = task.path
    if task.slide.file_state(task.root) == "changed" and fingerprint(path) != task.slide.fingerprint:
        raise SlideError(f"{path.name} changed while it was read", "wait until it is complete, then build again")


def as_slide_error(doing: str, error: Exception) -> SlideseekError:
    """Return the error of a bad slide as a readable one; a component may raise anything.

    With SLIDESEEK_DEBUG set, an unexpected error is raised unchanged.
    """
    if isinstance(error, SlideseekError):
        return error
    if os.environ.get(DEBUG_VARIABLE):
        raise error
    return SlideError(f"{doing} crashed ({one_line(error)})", f"set {DEBUG_VARIABLE}=1 to see where, and report it")


Item = TypeVar("Item")


class Ahead(Generic[Item]):
    """Run iterators in their own threads, a few ahead of the one being consumed, and yield them in order.

    workers: how many run ahead; 0 runs each in the caller's thread when its turn comes. patience: seconds to wait for
    the next item before `TimeoutError`.
    """

    def __init__(self, workers: int, patience: float) -> None:
        self._workers = workers
        self._patience = patience

    def run(self, sources: Iterable[Callable[[], Iterator[Item]]]) -> Iterator[Iterator[Item]]:
        """Yield one iterator of items per source, in order."""
        if self._workers == 0:
            for source in sources:
                yield source()
            return
        waiting: deque[_Background[Item]] = deque()
        remaining = iter(sources)
        try:
            while True:
                while len(waiting) <= self._workers and (following := next(remaining, None)) is not None:
                    waiting.append(_Background(following, self._patience))
                if not waiting:
                    return
                current = waiting.popleft()
                try:
                    yield iter(current)
                finally:
                    current.cancel()
        finally:
            for background in waiting:
                background.cancel()


class _Background(Generic[Item]):
    """One iterator run in a daemon thread behind a short queue. A thread that hangs is left behind."""

    def __init__(self, source: Callable[[], Iterator[Item]], patience: float) -> None:
        self._queue: queue.Queue[Item | BaseException | None] = queue.Queue(QUEUED)
        self._patience = patience
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(source,), daemon=True, name="slideseek-read")
        self._thread.start()

    def _work(self, source: Callable[[], Iterator[Item]]) -> None:
        try:
            for item in source():
                if not self._put(item):
                    return
            self._put(None)
        except BaseException as error:  # passed to the consumer, which raises it
            self._put(error)

    def _put(self, item: Item | BaseException | None) -> bool:
        while not self._cancelled.is_set():
            try:
                self._queue.put(item, timeout=0.2)
                return True
            except queue.Full:
                continue
        return False

    def __iter__(self) -> Iterator[Item]:
        while True:
            try:
                item = self._queue.get(timeout=self._patience)
            except queue.Empty:
                self.cancel()
                raise TimeoutError(f"no progress for {self._patience:g} s") from None
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    def cancel(self) -> None:
        """Let the thread end at its next item; what it has queued is dropped."""
        self._cancelled.set()
