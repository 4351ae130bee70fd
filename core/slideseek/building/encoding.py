"""Encode slides: in small batches while the features of others are computed, and all that is left at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from slideseek.archive.payloads import pack_code
from slideseek.archive.slide_table import SlideRow
from slideseek.building.attempts import Attempts
from slideseek.building.reporting import SlideReport
from slideseek.building.slide_work import as_slide_error
from slideseek.engine import Engine
from slideseek.errors import SlideseekError
from slideseek.indexing.stage_cache import StageCache
from slideseek.types import Bag, Code

ENCODE_BATCH, ENCODE_BYTES = 16, 64 * 2**20
"""Slides encoded together at most, and bytes of their features: enough to share the cost of a pass."""

MOST_SECONDS = 10.0
"""Longest time that a finished slide waits for others, if another slide is finished: then all are encoded."""


class Encoding:
    """Encode slides whose features are stored. read: returns a slide's bag, computed again if its file is damaged."""

    def __init__(self, stages: StageCache, attempts: Attempts, read: Callable[[Engine, SlideRow], Bag]) -> None:
        self._stages = stages
        self._attempts = attempts
        self._read = read

    def run(
        self, engine: Engine, slide_ids: Sequence[str], begin: Callable[[str], None] = lambda _: None
    ) -> Iterator[SlideReport]:
        """Yield one report per slide, in order, after its commit."""
        for batch in self._batches(engine, self._stages.catalog.slides.some(slide_ids)):
            yield from self._encode_batch(engine, batch, begin)

    def _batches(self, engine: Engine, slides: Sequence[SlideRow]) -> Iterator[list[SlideRow]]:
        """Yield the slides to encode together: one by one unless the encoder takes several."""
        batch: list[SlideRow] = []
        held, most = 0, ENCODE_BATCH if engine.batches else 1
        for slide in slides:
            record = self._stages.record(engine, "featurize", slide)
            size = 4 * engine.width * record.items if record else 0
            if batch and (len(batch) == most or held + size > ENCODE_BYTES):
                yield batch
                batch, held = [], 0
            batch.append(slide)
            held += size
        if batch:
            yield batch

    def _encode_batch(
        self, engine: Engine, slides: Sequence[SlideRow], begin: Callable[[str], None]
    ) -> Iterator[SlideReport]:
        """Encode some slides together where the encoder can, and commit them one by one."""
        together: dict[str, tuple[Code, float]] = {}
        if len(slides) > 1:
            started = time.perf_counter()
            # Whatever goes wrong in a batch, each slide is then encoded alone, and the one to blame is named.
            with suppress(SlideseekError):
                bags = [self._read(engine, slide) for slide in slides if self._uncoded(engine, slide)]
                codes = engine.encode_many(bags)
                share = (time.perf_counter() - started) / max(1, len(codes))
                together = {code.slide_id: (code, share) for code in codes}
        for slide in slides:
            begin(slide.id)
            yield self._encode_one(engine, slide, together.get(slide.id))

    def _encode_one(self, engine: Engine, slide: SlideRow, made: tuple[Code, float] | None) -> SlideReport:
        """Keep a slide's code. made: the code and its share of the time, where the slide was encoded in a batch."""
        started = time.perf_counter()
        key = self._stages.key(engine, "encode", slide)
        try:
            payload = self._stages.sound(key)
            if payload is None:
                code = made[0] if made else engine.encode(self._read(engine, slide))
                payload = pack_code(key, code, engine.spec)
        except Exception as error:
            failure = as_slide_error("encoding", error)
            return self._attempts.fail(engine, "encode", slide, failure, time.perf_counter() - started)
        seconds = time.perf_counter() - started + (made[1] if made else 0.0)
        return self._attempts.keep(engine, "encode", slide, payload, seconds)

    def _uncoded(self, engine: Engine, slide: SlideRow) -> bool:
        return self._stages.catalog.payload(self._stages.key(engine, "encode", slide)) is None


class EarlyCodes:
    """Make slides searchable while the features of others are computed.

    engines: those that can encode now. save: saves an engine's index if it is far behind. The first two slides are
    encoded at once, then batches that double up to `ENCODE_BATCH`.
    """

    def __init__(
        self, engines: Sequence[Engine], encoding: Encoding, stages: StageCache, save: Callable[[Engine], None]
    ) -> None:
        self._engines = list(engines)
        self._encoding = encoding
        self._stages = stages
        self._save = save
        self._waiting: list[str] = []
        self._encoded = 0
        self._last = time.monotonic()
        self.reports: dict[str, list[SlideReport]] = {engine.name: [] for engine in engines}

    def add(self, slide_id: str) -> None:
        """Take a slide whose features are done; encode all that wait if there are enough or they waited for long."""
        self._waiting.append(slide_id)
        enough = len(self._waiting) >= min(ENCODE_BATCH, max(1, self._encoded))  # two slides: the first hit
        if enough or time.monotonic() - self._last >= MOST_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Encode the slides that wait, for every engine that has their features and not yet their code."""
        waiting, self._waiting = self._waiting, []
        for engine in list(self._engines):
            rows = self._stages.catalog.slides.some(waiting)
            todo = [row.id for row in rows if self._uncoded(engine, row)]
            try:
                for report in self._encoding.run(engine, todo):
                    self.reports[engine.name].append(report)
                self._save(engine)
            except SlideseekError:  # the same error stops the engine at the end of the build, and is reported there
                self._engines.remove(engine)
        self._encoded += len(waiting)
        self._last = time.monotonic()

    def _uncoded(self, engine: Engine, row: SlideRow) -> bool:
        return self._stages.done(engine, "featurize", row) and not self._stages.done(engine, "encode", row)
