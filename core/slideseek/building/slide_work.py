"""The work on one slide: open it, select patches, compute their features and store them.

It needs no catalogue: an executor runs it here or in another process, on any machine that sees the archive's folder.
Reading and decoding release the interpreter lock, so `read` may run in a thread, ahead of `compute`.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from slideseek.archive.archive import slide_file
from slideseek.archive.payloads import pack_patches, store_features, unpack_patches
from slideseek.archive.records import Payload, Stage
from slideseek.archive.slide_table import SlideRow
from slideseek.building.incoming import FOLDER, Facts, Incoming, Result
from slideseek.building.parts import Parts, ReadSoFar
from slideseek.engine import Engine, make_bag
from slideseek.errors import DISK_FAILURES, SlideError, SlideseekError, one_line
from slideseek.indexing.stage_cache import feature_folder
from slideseek.interfaces import Work
from slideseek.slides.content_fingerprint import fingerprint
from slideseek.slides.magnification import finer_than_scanned
from slideseek.slides.patch_images import MAX_UNREADABLE, READ_AT_ONCE, patch_images, read_mpp, selection_notes
from slideseek.slides.reader import open_slide
from slideseek.types import Float32, Int64, Patches, UInt8

DEBUG_VARIABLE = "SLIDESEEK_DEBUG"


@dataclass(frozen=True, slots=True)
class Selection:
    """Select with one engine's selector (unless `stored` holds the patches) and read for some engines' featurizers.

    key: of the selection. featurize: the engines, each with the key of its features.
    """

    engine: Engine
    key: str
    stored: Payload | None
    featurize: tuple[tuple[Engine, str], ...]


@dataclass(frozen=True, slots=True)
class Selected:
    """The patches of one selection. new: they were selected now."""

    key: str
    patches: Patches
    facts: Facts
    seconds: float
    new: bool


@dataclass(frozen=True, slots=True)
class Images:
    """Pixels of some patches; rows are positions among the selected patches. read: how far the slide has been read.

    blur: float32 (m,), how far they are out of focus in µm.
    """

    rows: Int64
    images: UInt8
    blur: Float32
    read: ReadSoFar


class Features:
    """The features of one slide for one engine, as far as they are computed; the last column is the blur in µm."""

    def __init__(self, key: str, parts: Parts) -> None:
        self.key, self.parts = key, parts
        self.rows: list[Int64] = []
        self.features: list[Float32] = []
        self.error: SlideseekError | None = None
        self.started = time.perf_counter()

    def take(self, engine: Engine, read: Images) -> None:
        """Compute the features of some patches; after an error the rest are skipped."""
        if self.error is not None:
            return
        try:
            self.features.append(np.column_stack([engine.features(read.images), read.blur]))
        except Exception as error:
            self.error = as_slide_error("featurizing", error)
            with suppress(SlideError):
                engine.probe_features()  # raises if it is not the slide: one error, not one per slide
            return
        self.rows.append(read.rows)
        self.parts.add(read.rows, self.features[-1], read.read)


Message: TypeAlias = tuple[Engine, Selected | Features | Images | Facts | Result]
"""What reading a slide hands over, in order: the patches; then for each engine its features so far, pixels, and facts
once all is read. An error takes the place of what it prevented."""


@dataclass(frozen=True, slots=True)
class SlideWork(Work):
    """What a slide still needs. root: the archive's folder. plugins: plugin files of the archive.

    incoming: where a process that does not commit leaves its results, None in the one that does. done: what an earlier
    attempt has left there.
    """

    slide: SlideRow
    root: Path
    selections: tuple[Selection, ...]
    plugins: tuple[str, ...] = ()
    incoming: Incoming | None = None
    done: tuple[Result, ...] = ()

    @property
    def slide_id(self) -> str:
        """The slide's id."""
        return self.slide.id

    def read(self) -> Iterator[Message]:
        """Yield what `compute` needs; every error is a message."""
        if not self.selections:
            return
        record = self.slide.record
        try:
            self._check_unchanged()
            slide = open_slide(slide_file(self.root, record.path), record.id, record.mpp)
            slide.contours = self.root / record.contours if record.contours else None
        except Exception as error:
            for selection in self.selections:
                yield selection.engine, failed(selection.engine, "select", "opening", error)
            return
        with slide:

            def facts(*more: str, unreadable: int = 0, filled: int = 0) -> Facts:
                notes = (*slide.notes, *filter(None, more))
                return Facts(slide.mpp, notes, slide.unreadable + unreadable, slide.filled + filled, slide.read_by)

            for selection in self.selections:
                started, first_engine, stored = time.perf_counter(), selection.engine, selection.stored
                try:
                    patches = unpack_patches(stored, slide.id) if stored else first_engine.select(slide)
                except Exception as error:
                    yield first_engine, failed(first_engine, "select", "selecting", error)
                    continue
                seen = selection_notes(slide, patches)
                seconds = time.perf_counter() - started
                yield first_engine, Selected(selection.key, patches, facts(*seen), seconds, stored is None)
                for engine, key in selection.featurize if len(patches) else ():
                    features = Features(key, Parts(self.root, engine.feature_digest, key))
                    try:
                        begun = features.parts.begun(engine.width + 1, len(patches)) if stored else None
                        if begun is not None:
                            features.rows.append(begun.rows)
                            features.features.append(begun.features)
                        yield engine, features
                        at, side = begun.read if begun else ReadSoFar(0), engine.read_side(patches)
                        # What an interrupted build could not read counts as if it had been read now.
                        lost = at.unreadable - slide.unreadable if begun else 0
                        blank = at.filled - slide.filled if begun else 0
                        for rows, images in patch_images(slide, patches, side, MAX_UNREADABLE, at.next, at.left_out):
                            after = min(len(patches), (int(rows[-1]) // READ_AT_ONCE + 1) * READ_AT_ONCE)
                            read = ReadSoFar(after, slide.unreadable + lost, slide.filled + blank)
                            blur = engine.blur_um(images, patches.take(rows), slide.mpp)
                            yield engine, Images(rows, images, blur, read)
                        self._check_unchanged()
                    except Exception as error:
                        yield engine, failed(engine, "featurize", "reading", error)
                    else:
                        finer = finer_than_scanned(slide.mpp, read_mpp(patches, side))
                        yield engine, facts(*seen, finer, unreadable=lost, filled=blank)

    def compute(self, read: Iterator[Message]) -> Iterator[Result]:
        """Compute and store features; yield each result as soon as it is stored."""
        yield from self.done
        for wanted in (each.featurize for each in self.selections):
            for engine, _ in wanted:
                with suppress(SlideError):  # such as imported features, which no image has: each slide reports it
                    engine.ready_featurizer()
        patches: Patches | None = None
        features: Features | None = None
        for engine, message in read:
            match message:
                case Selected(key, patches, facts, seconds, new):
                    features = None
                    if new:  # otherwise their record stays true
                        payload = pack_patches(key, patches, facts.mpp)
                        result = self._stored(engine, Result(engine.name, "select", seconds, payload, facts))
                        patches = None if result.cause else patches
                        yield result
                case Features() if patches:
                    features = message
                case Images() if features:
                    features.take(engine, message)
                case Facts() if features and patches:
                    yield self._finish(engine, features, patches, message)
                case Result():
                    yield message

    def _finish(self, engine: Engine, done: Features, patches: Patches, facts: Facts) -> Result:
        """Store one engine's features of a slide, or say why there are none."""
        slide, seconds = self.slide, time.perf_counter() - done.started
        try:
            if done.error is not None:
                raise done.error
            rows, table = np.concatenate(done.rows), np.concatenate(done.features)
            kept, sharp, notes = engine.in_focus(patches, rows, table[:, -1].copy(), facts.mpp)
            facts = replace(facts, notes=(*facts.notes, *notes))
            bag = make_bag(table[sharp, :-1], kept, slide.record.site, facts.mpp)
            file, folder = f"{FOLDER}/{done.key}.h5" if self.incoming else "", feature_folder(engine.feature_digest)
            payload = store_features(self.root, folder, done.key, bag, kept, facts.mpp, file)
        except Exception as error:  # a full disk, or a name the file system refuses: report it for this slide
            return failed(engine, "featurize", "storing", error, seconds)
        result = self._stored(engine, Result(engine.name, "featurize", seconds, payload, facts))
        if not result.cause:
            done.parts.remove()
        return result

    def _stored(self, engine: Engine, result: Result) -> Result:
        """Leave a result where the process that commits finds it, also if this one is killed."""
        try:
            if self.incoming:
                self.incoming.put(result)
        except OSError as error:
            return failed(engine, result.stage, "storing", error, result.seconds)
        return result

    def _check_unchanged(self) -> None:
        """Raise `SlideError` if a slide changed during the build: its results would be stored for other content."""
        path = slide_file(self.root, self.slide.record.path)
        if self.slide.file_state(self.root) == "changed" and fingerprint(path) != self.slide.fingerprint:
            raise SlideError(f"{path.name} changed while it was read", "wait until it is complete, then build again")


def failed(engine: Engine, stage: Stage, doing: str, problem: Exception, seconds: float = 0.0) -> Result:
    """Return that a stage could not be done, and why."""
    error = as_slide_error(doing, problem)
    # Libraries that read slides have the failure in their text only.
    passing = any(os.strerror(number) in f"{problem} {error.cause}" for number in DISK_FAILURES)
    return Result(engine.name, stage, seconds, cause=error.cause, fix=error.fix, passing=passing)


def as_slide_error(doing: str, error: Exception) -> SlideseekError:
    """Return the error of a bad slide as a readable one; a component may raise anything.

    With SLIDESEEK_DEBUG set, an unexpected error is raised unchanged.
    """
    if isinstance(error, SlideseekError):
        return error
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f"{os.uname().nodename} ({doing} {error.filename or ''}): {error.strerror}"
        return SlideError(f"no space left on {where}", "free some space, then build again")
    if isinstance(error, OSError) and error.errno in DISK_FAILURES:
        return SlideError(
            f"{doing} {error.filename or ''} failed: {error.strerror}", "check the disk, then build again"
        )
    if os.environ.get(DEBUG_VARIABLE):
        raise error
    return SlideError(f"{doing} crashed ({one_line(error)})", f"set {DEBUG_VARIABLE}=1 to see where, and report it")
