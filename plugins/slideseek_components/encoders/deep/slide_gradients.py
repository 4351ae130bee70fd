"""Mean gradients of slides (Eq. 15): canonical patch order, fixed chunks, many slides per pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice, pairwise
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from slideseek.types import Float32, Float64, Int64
from slideseek_components.encoders.bags import CHUNK, canonical_rows
from slideseek_components.encoders.deep.network import CVAE, Inputs
from slideseek_components.encoders.deep.patch_gradients import (
    LayerEntries,
    NarrowedLayer,
    Pass,
    Traces,
    entries_of,
    full_sums,
    narrowed,
)
from slideseek_components.single_core import longest_first, run_tasks

_FEW = 16
"""Entries are computed one by one if they are fewer than one in this many, else taken from the whole gradient."""

_ALIGN = 8
"""Slides start at multiples of this row in a pass and are padded to it: matrix products treat the rows of a full tile
alike, so a patch gets the same bits alone and with others. Tiles of 4 rows were observed; 8 is a safety margin."""

_STEP = 32
"""Values that activations compute in one step. A remainder at the end might be rounded differently, so it is avoided:
rows are padded further if the outputs of a layer are not a multiple of this."""

_BLOCK = 48
"""Least rows per thread: with fewer, reading the weights takes longer than the arithmetic."""

_LINE = 16
"""This many rows of any width fill whole cache lines. A precaution: no difference was observed."""

Values: TypeAlias = Float32 | Float64


@dataclass(frozen=True)
class WantedEntries:
    """The entries of a gradient to compute: flat positions, None for all; `entries` if they are few.

    narrow: the first layer of `entries`, whose outputs are then numbered as in it.
    """

    chosen: Int64 | None = None
    entries: tuple[LayerEntries, ...] = ()
    narrow: NarrowedLayer | None = None


@dataclass(frozen=True)
class SlideInput:
    """One slide to compute the gradient of: raw features (n, width), the number of its site, the entries to keep."""

    features: Float32
    site: int
    wanted: WantedEntries


@dataclass(frozen=True)
class Chunk:
    """Patches of one slide that go through the network together.

    slide: its number among the slides. features: all of the slide's, (n, width). rows: int64 (m,), those in use.
    site: the number of its site. count: a patch weighs 1 / count.
    """

    slide: int
    features: Float32
    rows: Int64
    site: int
    count: int


@dataclass(frozen=True)
class PassInput:
    """The input of one pass: n rows, the stacked chunks of some slides.

    parts: the first row, the features of a slide, and which rows of them follow. site: (n, sites), one-hot. factor:
    (n, 1), as `Pass` takes it.
    """

    parts: Sequence[tuple[int, Float32, Int64]]
    site: Tensor
    factor: Tensor

    def rows(self, start: int, stop: int) -> Float32:
        """Return the raw features of rows `start` to `stop`."""
        found = []
        for first, features, rows in self.parts:
            own = rows[max(start - first, 0) : max(stop - first, 0)]
            if len(own):
                found.append(features[own])
        return found[0] if len(found) == 1 else np.concatenate(found)


@dataclass(frozen=True)
class PendingSum:
    """A sum over patches: `result` once all `tasks`, in any order, have run."""

    tasks: Sequence[Callable[[], None]]
    result: Callable[[], Values]


@dataclass(frozen=True)
class Gradients:
    """Compute mean gradients of the reconstruction loss with respect to the parameters of `layers`.

    On the CPU the bits of the result do not depend on the order of a slide's patches, on the slides that share a pass,
    or on the number of threads. Threads share passes, patches and layers, and every matrix product runs on one thread
    (callers ensure this with `reproducible(1)`). The network's parameters are looked up once and must not be replaced
    afterwards.
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
        """The network's device."""
        return self.network.mu.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The data type of the passes."""
        return self.network.mu.weight.dtype

    def wanted(self, chosen: Int64 | None) -> WantedEntries:
        """Prepare flat positions, int64 (M,), for a `SlideInput`; None is the whole gradient."""
        if chosen is None or len(chosen) * _FEW > self.size:
            return WantedEntries(chosen)
        return WantedEntries(chosen, *narrowed(self.network, entries_of(self.layers, chosen)))

    def means(self, slides: Sequence[SlideInput], threads: int = 1) -> Iterator[Values]:
        """Yield, slide by slide, the mean over patches: (size,) or (M,). threads: of the CPU, 1 on other devices.

        Chunks are summed in float64. The whole gradient of a slide of one chunk keeps the data type of the pass: it is
        long, and there is nothing to sum.
        """
        sums: dict[int, Values] = {}
        done = 0
        # Whole gradients are long, and one pass of small slides makes many of them: one pass at a time is enough.
        together = threads if all(slide.wanted.entries for slide in slides) else 1
        passes = self._passes(slides)
        while group := list(islice(passes, together)):
            for number, found in self._take(group, slides, threads):
                sums[number] = sums[number].astype(np.float64) + found if number in sums else found
            unfinished = group[-1][-1].slide
            while done < unfinished:
                yield sums.pop(done)
                done += 1
        yield from sums.values()

    def traces(self, features: Float32, site: int, wanted: Sequence[str]) -> Iterator[tuple[Int64, Traces]]:
        """Yield (row numbers, traces of the `wanted` layers) of a slide's patches, chunk by chunk."""
        for rows in canonical_rows(features):
            stacked = self._stacked([Chunk(0, features, rows, site, 1)])
            traces = self._unwritten(stacked, wanted)
            self._trace(stacked, traces)
            yield rows, traces.rows(0, len(rows))

    def _take(
        self, group: Sequence[list[Chunk]], slides: Sequence[SlideInput], threads: int
    ) -> Iterator[tuple[int, Values]]:
        """Yield, chunk by chunk, the number of the slide and the chunk's contribution to its mean.

        Each of `group` is a pass; passes run side by side, and are cut into blocks of rows where threads are left.
        """
        passed: list[Traces] = []
        blocks: list[tuple[int, Callable[[], None]]] = []
        for chunks in group:
            stacked = self._stacked(chunks)
            traces = self._unwritten(stacked, self._asked([slides[chunk.slide].wanted for chunk in chunks]))
            for start, stop in pairwise(self._blocks(len(stacked.factor), threads // len(group))):
                blocks.append((stop - start, partial(self._trace, stacked, traces.rows(start, stop))))
            passed.append(traces)
        sums: list[tuple[int, PendingSum]] = []

        def prepare() -> None:  # needs no results: the first free thread does it
            for chunks, traces in zip(group, passed):
                start = 0
                for chunk in chunks:
                    own = traces.rows(start, start + len(chunk.rows))
                    sums.append((chunk.slide, self._sum(own, slides[chunk.slide].wanted)))
                    start += self._padded(len(chunk.rows))

        run_tasks([*longest_first(blocks), prepare], threads)
        run_tasks([task for _, found in sums for task in found.tasks], threads)
        for number, found in sums:
            yield number, found.result()

    def _asked(self, wanted: Sequence[WantedEntries]) -> set[str]:
        """Return the layers whose traces are needed."""
        asked: set[str] = set()
        for each in wanted:
            layers = {entry.layer for entry in each.entries} or set(self.layers)
            if each.narrow:
                layers = layers - {each.narrow.layer} | {each.narrow.following}
            asked |= layers
        return asked

    def _stacked(self, chunks: Sequence[Chunk]) -> PassInput:
        """Stack `chunks`, each padded to a multiple of rows with its last row; sums leave the padding out
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
        return PassInput(parts, *(torch.from_numpy(array).to(self.device, self.dtype) for array in (site, factor)))

    def _unwritten(self, stacked: PassInput, wanted: Iterable[str]) -> Traces:
        return Traces.unwritten(self.network.shape, len(stacked.factor), wanted, self.dtype, self.device)

    def _trace(self, stacked: PassInput, traces: Traces) -> None:
        """Write the rows of `stacked` that `traces` covers."""
        span = traces.span
        self.inputs.write(stacked.rows(span.start, span.stop), traces.inward["encoder.0"][span])
        self._pass(traces, stacked.site[span], stacked.factor[span])

    def _sum(self, traces: Traces, wanted: WantedEntries) -> PendingSum:
        """Prepare the sum over the patches of one slide."""
        if wanted.chosen is not None and wanted.entries:
            values = np.empty(len(wanted.chosen))
            few: list[Callable[[], None]] = [
                partial(self._write, values, entry, traces, wanted.narrow) for entry in wanted.entries
            ]
            return PendingSum(few, lambda: values)
        out = torch.empty(self.size, dtype=self.dtype, device=self.device)

        def whole() -> Values:
            gradient: Values = out.cpu().numpy()
            return gradient if wanted.chosen is None else gradient[wanted.chosen]

        return PendingSum(full_sums(self.layers, traces, out), whole)

    def _write(self, values: Float64, entry: LayerEntries, traces: Traces, narrow: NarrowedLayer | None) -> None:
        own = narrow is not None and narrow.layer == entry.layer
        trace = narrow.trace(self.network, traces) if narrow and own else traces[entry.layer]
        values[entry.place] = entry.sums(trace)

    def _passes(self, slides: Sequence[SlideInput]) -> Iterator[list[Chunk]]:
        """Yield the chunks that go through the network in one pass, slide by slide in the order of `slides`."""
        waiting: list[Chunk] = []
        filled = 0
        for number, slide in enumerate(slides):
            for rows in canonical_rows(slide.features):
                if waiting and filled + self._padded(len(rows)) > CHUNK:
                    yield waiting
                    waiting, filled = [], 0
                waiting.append(Chunk(number, slide.features, rows, slide.site, len(slide.features)))
                filled += self._padded(len(rows))
        if waiting:
            yield waiting

    def _blocks(self, rows: int, threads: int) -> list[int]:
        """Return the first rows of the blocks in which threads share a pass, followed by `rows`.

        Blocks start where slides may start and where memory is aligned as at its start, so no bit changes.
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
        """Slides and blocks have a multiple of this many rows."""
        return max(_ALIGN, *(_STEP // math.gcd(_STEP, outputs) for outputs in self.network.shape.hidden))
