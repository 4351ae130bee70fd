"""Mean gradients of slides: canonical patch order, fixed chunks, many slides a pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice, pairwise
from typing import TypeAlias

import numpy as np
import torch

from slideseek.types import Float32, Float64, Int64
from slideseek_components.encoders.deep.chunks import Chunk, Load
from slideseek_components.encoders.deep.extraction import Entries, entries_of, full_sums
from slideseek_components.encoders.deep.inputs import Inputs
from slideseek_components.encoders.deep.narrowing import Narrow, narrowed
from slideseek_components.encoders.deep.network import CVAE
from slideseek_components.encoders.deep.traces import Pass, Traces
from slideseek_components.encoders.deep.workers import longest_first, run
from slideseek_components.encoders.order import CHUNK, canonical_rows

_FEW = 16
"""Entries are taken one by one when they are fewer than one in so many, else picked from the whole gradient."""

_ALIGN = 8
"""Slides start at multiples of this row in a pass and are padded to it: matrix products treat the rows of a full tile
alike, so that a patch gets the same bits alone and in company. Tiles of 4 rows were seen; 8 leaves room for others."""

_STEP = 32
"""Values that activations compute in one step. Those left over at the end may be rounded otherwise, so there are none:
rows are padded further where a layer is no multiple of a few outputs."""

_BLOCK = 48
"""Rows a thread takes at least: with fewer, reading the weights takes longer than the arithmetic."""

_LINE = 16
"""So many rows of any width fill whole cache lines: a precaution, no bit was seen to depend on it."""

Values: TypeAlias = Float32 | Float64


@dataclass(frozen=True)
class Part:
    """Which entries of the gradient are wanted: flat positions, None for all; `entries` when they are few.

    narrow: of the first layer of `entries`, whose outputs are then numbered as it does.
    """

    chosen: Int64 | None = None
    entries: tuple[Entries, ...] = ()
    narrow: Narrow | None = None


@dataclass(frozen=True)
class Job:
    """One slide to take the gradient of: raw features (n, width), the number of its site, which part of it."""

    features: Float32
    site: int
    part: Part


@dataclass(frozen=True)
class Sum:
    """A sum over patches: `result` once all `tasks`, in any order, have run."""

    tasks: Sequence[Callable[[], None]]
    result: Callable[[], Values]


@dataclass(frozen=True)
class Gradients:
    """Take mean gradients of the reconstruction loss with respect to the parameters of `layers`.

    On the CPU the result is the same bits whatever the order of a slide's patches, whichever slides share a pass, and
    whatever the number of threads: these share passes, patches and layers out between them, and every matrix product
    runs on one (callers see to that by `reproducible(1)`). The network's parameters are looked up once and must not be
    replaced afterwards.
    """

    network: CVAE
    inputs: Inputs
    layers: dict[str, tuple[int, int]]

    @property
    def size(self) -> int:
        """Length of the whole gradient."""
        return sum(outputs * (inputs + 1) for outputs, inputs in self.layers.values())

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return self.network.mu.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The type the passes are computed in."""
        return self.network.mu.weight.dtype

    def part(self, chosen: Int64 | None) -> Part:
        """Prepare flat positions, int64 (M,), for a `Job`; None is the whole gradient."""
        if chosen is None or len(chosen) * _FEW > self.size:
            return Part(chosen)
        return Part(chosen, *narrowed(self.network, entries_of(self.layers, chosen)))

    def means(self, jobs: Sequence[Job], threads: int = 1) -> Iterator[Values]:
        """Yield, slide by slide, the mean over patches: (size,) or (M,). threads: of the CPU, 1 on other devices.

        Chunks are added up in float64. The whole gradient of a slide of one chunk stays in the type of the pass: it
        is long, and there is nothing to add up.
        """
        sums: dict[int, Values] = {}
        done = 0
        # Whole gradients are long: one pass of small slides makes many of them, and one is enough at a time.
        together = threads if all(job.part.entries for job in jobs) else 1
        passes = self._passes(jobs)
        while group := list(islice(passes, together)):
            for number, found in self._take(group, jobs, threads):
                sums[number] = sums[number].astype(np.float64) + found if number in sums else found
            unfinished = group[-1][-1].slide
            while done < unfinished:
                yield sums.pop(done)
                done += 1
        yield from sums.values()

    def traces(self, features: Float32, site: int, wanted: Sequence[str]) -> Iterator[tuple[Int64, Traces]]:
        """Yield (row numbers, traces of the `wanted` layers) of a slide's patches, chunk by chunk."""
        for rows in canonical_rows(features):
            load = self._load([Chunk(0, features, rows, site, 1)])
            traces = self._room(load, wanted)
            self._trace(load, traces)
            yield rows, traces.rows(0, len(rows))

    def _take(self, group: Sequence[list[Chunk]], jobs: Sequence[Job], threads: int) -> Iterator[tuple[int, Values]]:
        """Yield, chunk by chunk, the number of the slide and what the chunk adds to its mean.

        Each of `group` is a pass; passes run side by side, and are cut into blocks of rows where threads are left.
        """
        passed: list[Traces] = []
        blocks: list[tuple[int, Callable[[], None]]] = []
        for chunks in group:
            load = self._load(chunks)
            traces = self._room(load, self._asked([jobs[chunk.slide].part for chunk in chunks]))
            for start, stop in pairwise(self._blocks(len(load.factor), threads // len(group))):
                blocks.append((stop - start, partial(self._trace, load, traces.rows(start, stop))))
            passed.append(traces)
        sums: list[tuple[int, Sum]] = []

        def prepare() -> None:  # needs no results: the thread that is done first does it
            for chunks, traces in zip(group, passed):
                start = 0
                for chunk in chunks:
                    own = traces.rows(start, start + len(chunk.rows))
                    sums.append((chunk.slide, self._sum(own, jobs[chunk.slide].part)))
                    start += self._padded(len(chunk.rows))

        run([*longest_first(blocks), prepare], threads)
        run([task for _, found in sums for task in found.tasks], threads)
        for number, found in sums:
            yield number, found.result()

    def _asked(self, parts: Sequence[Part]) -> set[str]:
        """Return the layers whose traces are wanted."""
        asked: set[str] = set()
        for part in parts:
            layers = {entry.layer for entry in part.entries} or set(self.layers)
            if part.narrow:
                layers = layers - {part.narrow.layer} | {part.narrow.following}
            asked |= layers
        return asked

    def _load(self, chunks: Sequence[Chunk]) -> Load:
        """Put `chunks` below each other, each filled up to a multiple of rows with its last one; sums leave those out
        again."""
        sites, lengths = self.network.shape.sites, [self._padded(len(chunk.rows)) for chunk in chunks]
        site, factor = np.zeros((sum(lengths), sites)), np.empty((sum(lengths), 1))
        parts, start = [], 0
        for chunk, length in zip(chunks, lengths):
            rows = np.append(chunk.rows, chunk.rows[-1:].repeat(length - len(chunk.rows)))
            parts.append((start, chunk.features, rows))
            if sites:
                site[start : start + length, chunk.site] = 1
            factor[start : start + length] = 2 / chunk.count
            start += length
        return Load(parts, *(torch.from_numpy(array).to(self.device, self.dtype) for array in (site, factor)))

    def _room(self, load: Load, wanted: Iterable[str]) -> Traces:
        return Traces.room(self.network.shape, len(load.factor), wanted, self.dtype, self.device)

    def _trace(self, load: Load, traces: Traces) -> None:
        """Write the rows of `load` that `traces` means."""
        span = traces.span
        self.inputs.write(load.rows(span.start, span.stop), traces.inward["encoder.0"][span])
        self._pass(traces, load.site[span], load.factor[span])

    def _sum(self, traces: Traces, part: Part) -> Sum:
        """Prepare the sum over the patches of one slide."""
        if part.chosen is not None and part.entries:
            values = np.empty(len(part.chosen))
            few: list[Callable[[], None]] = [
                partial(self._write, values, entry, traces, part.narrow) for entry in part.entries
            ]
            return Sum(few, lambda: values)
        out = torch.empty(self.size, dtype=self.dtype, device=self.device)

        def whole() -> Values:
            gradient: Values = out.cpu().numpy()
            return gradient if part.chosen is None else gradient[part.chosen]

        return Sum(full_sums(self.layers, traces, out), whole)

    def _write(self, values: Float64, entry: Entries, traces: Traces, narrow: Narrow | None) -> None:
        own = narrow is not None and narrow.layer == entry.layer
        trace = narrow.trace(self.network, traces) if narrow and own else traces[entry.layer]
        values[entry.place] = entry.sums(trace)

    def _passes(self, jobs: Sequence[Job]) -> Iterator[list[Chunk]]:
        """Yield the chunks that go through the network in one pass, slide by slide in the order of `jobs`."""
        waiting: list[Chunk] = []
        filled = 0
        for number, job in enumerate(jobs):
            for rows in canonical_rows(job.features):
                if waiting and filled + self._padded(len(rows)) > CHUNK:
                    yield waiting
                    waiting, filled = [], 0
                waiting.append(Chunk(number, job.features, rows, job.site, len(job.features)))
                filled += self._padded(len(rows))
        if waiting:
            yield waiting

    def _blocks(self, rows: int, threads: int) -> list[int]:
        """Return where the blocks begin that threads share the rows of a pass out in, and `rows`.

        Blocks begin where slides may and where memory is aligned as at its beginning, so that no bit changes by it.
        """
        count = max(1, min(threads, rows // _BLOCK))
        step = max(self._align, _LINE)
        return [rows // step * i // count * step for i in range(count)] + [rows]

    def _padded(self, rows: int) -> int:
        return -(-rows // self._align) * self._align

    @cached_property
    def _pass(self) -> Pass:
        return Pass(self.network)

    @cached_property
    def _align(self) -> int:
        """Rows that slides and blocks are a multiple of."""
        return max(_ALIGN, *(_STEP // math.gcd(_STEP, outputs) for outputs in self.network.shape.hidden))
