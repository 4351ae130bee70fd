"""Take in the slides of a folder as they come: once their files have stopped changing, and never before.

What was taken in is in the catalogue and nowhere else, so a watch that is stopped or killed goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from slideseek.archive.adding import AddSummary, StatedMpp, add_slides
from slideseek.archive.archive import Archive
from slideseek.archive.known_files import KnownFiles
from slideseek.archive.manifest import Manifest, read_manifest
from slideseek.archive.matching import match_rows
from slideseek.building.build import Builder, BuildOptions
from slideseek.building.reporting import Reporter
from slideseek.engine import Engine
from slideseek.errors import BusyError, SlideseekError, UsageError
from slideseek.slides.discovery import find_slides
from slideseek.slides.file_formats import possible_files
from slideseek.slides.reader import open_slide

Stamp: TypeAlias = tuple[tuple[str, int, int, int], ...]
"""Name, size, and times of the last change of content and of attributes (ns) of every file of a slide."""

SETTLE_SECONDS, POLL_SECONDS = 10.0, 5.0
"""How long the files of a slide must not have changed, and how often to look."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What to watch and how.

    folder: searched recursively. settle: seconds without a change before a slide is read. poll: seconds between looks.
    manifest: read again whenever it changes; with one, only the slides it lists are added.
    """

    folder: Path
    settle: float = SETTLE_SECONDS
    poll: float = POLL_SECONDS
    manifest: Path | None = None
    stated: StatedMpp | None = None
    allow_missing_patient: bool = False


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """Something to report: slides taken in, a build, a file that cannot be opened, an archive that is in use."""

    event: Literal["taken", "built", "waiting", "busy", "error"]
    data: dict[str, Any] = field(default_factory=dict)


class Arrivals:
    """The slides of a folder by whether their files have stopped changing, as seen by this process.

    Only names, sizes and dates are looked at until then. What counts is that nothing changed between two looks and for
    `settle` seconds: a file's own date may be that of its source, or of another clock.
    """

    def __init__(self, folder: Path, settle: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._settle, self._clock = folder, settle, clock
        self._seen: dict[Path, tuple[Stamp, float]] = {}
        self._done: dict[Path, Stamp] = {}
        self.moving: set[Path] = set()

    def look(self) -> list[Path]:
        """Return the slides that are complete and were not taken as they are now."""
        now, before, self._seen = self._clock(), self._seen, {}
        self.moving = set()
        groups: dict[Path, Stamp] = {}

        def settled(path: Path) -> bool:
            stamp = _stamp(path, groups)
            then, since = before.get(path, (None, now))
            self._seen[path] = stamp, since if then == stamp else now
            if stamp and then == stamp and now - since >= self._settle:
                return True
            self.moving.add(path)
            return False

        found = find_slides([self._folder], settled)
        return [path for path in found if self._done.get(path) != self._seen[path][0]]

    def take(self, slides: Iterable[Path]) -> None:
        """Do not return these slides again until their files change."""
        self._done.update((path, self._seen[path][0]) for path in slides)

    def again(self) -> None:
        """Return all slides again."""
        self._done.clear()


def _stamp(path: Path, groups: dict[Path, Stamp]) -> Stamp:
    """Return the stamp of all files that may belong to a slide; () if one of them vanished."""
    shared = path.parent if path.suffix.lower() == ".dcm" else path  # all series of a folder have the same
    if shared not in groups:
        try:
            stats = [(file.name, file.stat()) for file in possible_files(path)]
            groups[shared] = tuple((name, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in stats)
        except OSError:
            groups[shared] = ()
    return groups[shared]


class Watch:
    """Watch a folder for an archive. engines: as in a build; those that learn must be fitted before."""

    def __init__(
        self,
        archive: Archive,
        engines: Sequence[Engine],
        options: WatchOptions,
        build: BuildOptions,
        reporter: Callable[[], Reporter],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._archive, self._engines, self._options = archive, engines, options
        self._build, self._reporter = build, reporter
        self._arrivals = Arrivals(options.folder, options.settle, clock)
        self._failed: set[str] = set()
        self._left_out: frozenset[str] = frozenset()
        self._manifest: tuple[tuple[int, int], Manifest] | None = None
        self._to_build = True  # at first, whatever an earlier build left
        if not options.folder.is_dir():
            raise UsageError(f"{options.folder} is not a folder", "name the folder that slides are written to")
        for engine in engines:
            if engine.resolved.trainable and archive.catalog.model(engine.encoder_digest) is None:
                raise UsageError(
                    f"engine {engine.name!r} is not fitted: a watch would fit it on the first slides that come",
                    "add slides and run 'slideseek build' first, or name other engines with --engine",
                )

    def run(self, sleep: Callable[[float], None] = time.sleep) -> Iterator[WatchEvent]:
        """Look, take in and build until interrupted."""
        while True:
            yield from self.once()
            sleep(self._options.poll)

    def once(self) -> Iterator[WatchEvent]:
        """Look once; take in what is complete and build it."""
        try:
            if self._manifest_changed():
                self._arrivals.again()
            complete = self._arrivals.look()
            readable = []
            for path in complete:
                if cause := _cannot_open(path):
                    self._arrivals.take([path])  # until its files change
                    yield WatchEvent("waiting", {"file": str(path), "cause": cause})
                else:
                    readable.append(path)
            if readable:
                with self._archive.writing():
                    added = self._add(readable)
                self._arrivals.take(readable)
                self._failed.difference_update(added.updated)
                self._to_build |= bool(added.added or added.updated)
                yield WatchEvent("taken", asdict(added))
            moving = self._moving_slides()
            if self._to_build or self._left_out - moving:
                yield self._built(moving)
        except BusyError as error:
            yield WatchEvent("busy", {"cause": error.cause})
        except SlideseekError as error:
            self._to_build = False  # the same would happen at every look: again with the next slides
            yield WatchEvent("error", {"cause": error.cause, "fix": error.fix})

    def _built(self, moving: frozenset[str]) -> WatchEvent:
        """Build everything but slides whose files change now, and those that failed and are as they were."""
        options = replace(self._build, leave_out=moving | self._failed)
        builder = Builder(self._archive, self._engines, self._reporter(), options)
        summary = builder.run()
        self._engines = builder.engines  # with their components, which need not be imported again
        self._to_build, self._left_out = False, moving
        self._failed |= set(summary.failures)
        failures = {name: {"cause": one.cause, "fix": one.fix} for name, one in sorted(summary.failures.items())}
        done = {"slides": dict(summary.counts), "failures": failures, "indexed": summary.indexed}
        return WatchEvent("built", {**done, "report": str(summary.report)})

    def _moving_slides(self) -> frozenset[str]:
        """Return the slides of the archive whose files are being written at this moment."""
        if not self._arrivals.moving:
            return frozenset()
        known = KnownFiles(self._archive)
        rows = (known.find(path) for path in self._arrivals.moving)
        return frozenset(row.id for row in rows if row is not None and row.file_state(self._archive.root) != "same")

    def _manifest_changed(self) -> bool:
        """Read the manifest if it is new or was written since the last look."""
        path = self._options.manifest
        if path is None:
            return False
        try:
            stat = path.stat()
        except OSError as error:
            raise UsageError(f"cannot read the manifest {path}: {error.strerror}") from error
        stamp = stat.st_size, stat.st_mtime_ns
        if self._manifest is not None and self._manifest[0] == stamp:
            return False
        self._manifest = stamp, read_manifest(path, self._options.allow_missing_patient)
        return True

    def _add(self, slides: Sequence[Path]) -> AddSummary:
        """Record slides. Rows of the manifest whose slide has not come, or is not complete, wait."""
        path = self._options.manifest
        if path is None or self._manifest is None:
            return add_slides(self._archive, slides, None, self._options.stated)
        table, complete = self._manifest[1], {slide.resolve() for slide in slides}
        matches, _, _ = match_rows(table, path.parent, slides)
        rows = [row for row, file in matches if file.resolve() in complete]
        return add_slides(self._archive, slides, (path, replace(table, rows=rows)), self._options.stated)


def _cannot_open(path: Path) -> str:
    """Return why a slide cannot be opened, "" if it can. Its resolution, if it states none, is the build's concern."""
    try:
        open_slide(path, mpp=1.0).close()
    except SlideseekError as error:
        return error.cause
    return ""
