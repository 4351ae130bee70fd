"""Encode the slides of a fold, in batches where the encoder offers them, and check every code."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from slideseek.boundary import Owner, same_code
from slideseek.errors import PluginError, SlideseekError
from slideseek.interfaces import BatchEncoder, Encoder, implements
from slideseek.types import Bag, Code, CodeSpec, SlideRecord
from slideseek_apps.bench.grid import CellPlan
from slideseek_apps.bench.opaque_ids import OpaqueIds

BATCH_SLIDES = 32
BATCH_BYTES = 1 << 26
"""Slides and bytes of features in one batch, to bound memory: a batch ends at whichever is reached first."""


@dataclass(slots=True)
class EncodedSlides:
    """What became of the slides of a fold.

    codes: by slide id; the codes themselves carry opaque ids. failures: by slide id, why it has no code. seconds: wall
    time per encoded slide; slides of one batch share its time equally. patches: by slide id, the rows of its bag.
    """

    codes: dict[str, Code] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    patches: dict[str, int] = field(default_factory=dict)


def encode_slides(plan: CellPlan, encoder: Encoder, opaque: OpaqueIds, records: Sequence[SlideRecord]) -> EncodedSlides:
    """Encode slides. One that cannot be encoded (no patches, an unknown site) has no code.

    A code that breaks the encoder's promise is a `PluginError`. So is `encode_many` that returns other codes than
    `encode`, which is checked for the first slide.
    """
    work = _Encoding(plan, encoder, opaque)
    if implements(encoder, BatchEncoder):
        for batch in _batches(opaque, records):
            work.encode_batch(encoder, batch)
    else:
        for record in records:
            work.encode_one(record.id, opaque.bag(record.id))
    return work.result


def encode_checked(encoder: Encoder, bag: Bag, spec: CodeSpec, owner: Owner) -> Code:
    """Encode one bag; a crash or a code that breaks the encoder's promise is a `PluginError`."""
    return owner.check_code(owner.call(f"encode() for {bag.slide_id!r}", encoder.encode, bag), bag, spec)


class _Encoding:
    """The encoding of some slides with one encoder."""

    def __init__(self, plan: CellPlan, encoder: Encoder, opaque: OpaqueIds) -> None:
        self._encoder, self._spec, self._owner, self._opaque = encoder, plan.spec, plan.owner("encoder"), opaque
        self.result = EncodedSlides()

    def encode_one(self, slide_id: str, bag: Bag) -> None:
        """Encode one slide, or keep the reason why it cannot be encoded."""
        started = time.perf_counter()
        try:
            code = encode_checked(self._encoder, bag, self._spec, self._owner)
        except PluginError as error:
            raise self._opaque.with_real_ids(error) from error
        except SlideseekError as error:
            self.result.failures[slide_id] = self._opaque.with_real_ids(error).cause
            return
        self.result.seconds.append(time.perf_counter() - started)
        self.result.codes[slide_id] = code
        self.result.patches[slide_id] = len(bag)

    def encode_batch(self, encoder: BatchEncoder, batch: Sequence[tuple[str, Bag]]) -> None:
        """Encode a batch of (slide id, bag). If it fails, encode its slides one by one, to name the one that fails."""
        bags = [bag for _, bag in batch]
        started = time.perf_counter()
        try:
            answer = self._owner.call("encode_many()", encoder.encode_many, bags)
        except SlideseekError:  # one by one shows which slide fails
            for slide_id, bag in batch:
                self.encode_one(slide_id, bag)
            if not any(slide_id in self.result.failures for slide_id, _ in batch):
                raise  # no slide is to blame
            return
        seconds = (time.perf_counter() - started) / len(batch)
        try:
            codes = self._owner.check_batch(answer, len(batch), "encode_many")
            for code, bag in zip(codes, bags):
                self._owner.check_code(code, bag, self._spec)
            if not self.result.codes:
                self._compare(codes[0], bags[0])
        except PluginError as error:
            raise self._opaque.with_real_ids(error) from error
        self.result.codes |= {slide_id: code for (slide_id, _), code in zip(batch, codes)}
        self.result.seconds += [seconds] * len(batch)
        self.result.patches |= {slide_id: len(bag) for slide_id, bag in batch}

    def _compare(self, code: Code, bag: Bag) -> None:
        """Raise `PluginError` unless `encode` gives the same code as `encode_many` gave."""
        try:
            same = same_code(code, encode_checked(self._encoder, bag, self._spec, self._owner))
        except PluginError:
            raise
        except SlideseekError:  # encode refuses what encode_many takes
            same = False
        if not same:
            raise self._owner.wrong(f"returned other codes from encode_many() than from encode() for {bag.slide_id!r}")


def _batches(opaque: OpaqueIds, records: Sequence[SlideRecord]) -> Iterator[list[tuple[str, Bag]]]:
    """Yield slides with their bags, a bounded number at a time."""
    batch: list[tuple[str, Bag]] = []
    held = 0
    for record in records:
        bag = opaque.bag(record.id)
        batch.append((record.id, bag))
        held += bag.features.nbytes
        if len(batch) == BATCH_SLIDES or held >= BATCH_BYTES:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch
