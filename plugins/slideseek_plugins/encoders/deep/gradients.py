"""Mean gradients of slides: canonical patch order, fixed chunks, many slides a pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice, pairwise
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from slideseek.types import Float32, Float64, Int64
from slideseek_plugins.encoders.deep.extraction import Entries, Trace, backpropagate, entries_of, full_sums, joined
from slideseek_plugins.encoders.deep.inputs import Inputs
from slideseek_plugins.encoders.deep.narrowing import Narrow, narrowed
from slideseek_plugins.encoders.deep.network import CVAE
from slideseek_plugins.encoders.deep.workers import run
from slideseek_plugins.encoders.order import CHUNK, canonical_chunks

_FEW = 16
"""Entries are taken one by one when they are fewer than one in so many, else picked from the whole gradient."""

_ALIGN = 8
"""Slides start at multiples of this row in a pass and are padded to it: matrix products treat the rows of a full tile
alike, so that a patch gets the same bits alone and in company."""

_STEP = 32
"""Values that activations compute in one step. Those left over at the end may be rounded otherwise, so there are none:
rows are padded further where a layer is no multiple of a few outputs."""

_BLOCK = 48
"""Rows a thread takes at least: with fewer, reading the weights takes longer than the arithmetic."""

Chunks: TypeAlias = list[tuple[int, Float32]]
"""Chunks of patches, each with the number of its slide."""

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

    The result is the same bits whatever the order of a slide's patches, whichever slides share a pass, and whatever
    the number of threads: these share passes, patches and layers out between them, and every matrix product runs on
    one (callers see to that by `reproducible(1)`).
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
            unfinished = group[-1][-1][0]
            while done < unfinished:
                yield sums.pop(done)
                done += 1
        yield from sums.values()

    def traces(self, features: Float32, site: int, wanted: Sequence[str]) -> Iterator[tuple[Int64, dict[str, Trace]]]:
        """Yield (row numbers, traces of the `wanted` layers) of a slide's patches, chunk by chunk."""
        for rows, chunk in canonical_chunks(features):
            x, sites, weight = self._input([(site, 1, chunk)])
            traces = backpropagate(self.network, x, sites, wanted, weight)
            yield rows, {name: trace.rows(0, len(chunk)) for name, trace in traces.items()}

    def _take(self, group: Sequence[Chunks], jobs: Sequence[Job], threads: int) -> Iterator[tuple[int, Values]]:
        """Yield, chunk by chunk, the number of the slide and what the chunk adds to its mean.

        Each of `group` is a pass; passes run side by side, and are cut into blocks of rows where threads are left.
        """
        passed: list[list[dict[str, Trace]]] = []
        tasks: list[Callable[[], None]] = []
        for chunks in group:
            wanted, fed = self._asked([jobs[number].part for number, _ in chunks])
            x, site, weight = self._input([(jobs[i].site, len(jobs[i].features), chunk) for i, chunk in chunks])
            bounds = self._blocks(len(x), threads // len(group))
            blocks: list[dict[str, Trace]] = [{} for _ in pairwise(bounds)]
            for (start, stop), block in zip(pairwise(bounds), blocks):
                rows = x[start:stop], site[start:stop], weight[start:stop]
                tasks.append(partial(self._trace, block, *rows, wanted, fed))
            passed.append(blocks)
        run(tasks, threads)

        sums: list[tuple[int, Sum]] = []
        for chunks, blocks in zip(group, passed):
            traces, start = joined(blocks), 0
            blocks.clear()
            for number, chunk in chunks:
                own = {name: trace.rows(start, start + len(chunk)) for name, trace in traces.items()}
                sums.append((number, self._sum(own, jobs[number].part)))
                start += self._padded(len(chunk))
        run([task for _, found in sums for task in found.tasks], threads)
        for number, found in sums:
            yield number, found.result()

    def _trace(
        self, block: dict[str, Trace], x: Tensor, site: Tensor, weight: Tensor, wanted: list[str], fed: list[str]
    ) -> None:
        block |= backpropagate(self.network, x, site, wanted, weight, fed)

    def _asked(self, parts: Sequence[Part]) -> tuple[list[str], list[str]]:
        """Return the layers whose traces are wanted, and those of which only what goes in is."""
        wanted: set[str] = set()
        fed: set[str] = set()
        for part in parts:
            layers = {entry.layer for entry in part.entries} or set(self.layers)
            if part.narrow:
                layers = layers - {part.narrow.layer} | {part.narrow.following}
                fed.add(part.narrow.layer)
            wanted |= layers
        return sorted(wanted), sorted(fed)

    def _input(self, parts: Sequence[tuple[int, int, Float32]]) -> tuple[Tensor, Tensor, Tensor]:
        """Return what `backpropagate` takes of chunks given as (site, patches in the whole slide, rows): x, site, w."""
        total = sum(self._padded(len(chunk)) for _, _, chunk in parts)
        x = np.zeros((total, self.network.shape.width), dtype=np.float32)
        site, weight = np.zeros(total, dtype=np.int64), np.zeros(total)
        start = 0
        for number, count, chunk in parts:
            stop = start + len(chunk)
            x[start:stop], site[start:stop], weight[start:stop] = chunk, number, 1 / count
            start += self._padded(len(chunk))
        y = self.inputs(x, self.dtype, self.device, reuse=True)
        return y, torch.from_numpy(site).to(self.device), torch.from_numpy(weight).to(self.device, self.dtype)

    def _sum(self, traces: dict[str, Trace], part: Part) -> Sum:
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

        return Sum(full_sums(self.layers, {name: trace.aligned() for name, trace in traces.items()}, out), whole)

    def _write(self, values: Float64, entry: Entries, traces: dict[str, Trace], narrow: Narrow | None) -> None:
        own = narrow is not None and narrow.layer == entry.layer
        trace = narrow.trace(self.network, traces) if narrow and own else traces[entry.layer]
        values[entry.place] = entry.sums(trace)

    def _passes(self, jobs: Sequence[Job]) -> Iterator[Chunks]:
        """Yield the chunks that go through the network in one pass, slide by slide in the order of `jobs`."""
        waiting: Chunks = []
        rows = 0
        for number, job in enumerate(jobs):
            for _, chunk in canonical_chunks(job.features):
                if waiting and rows + self._padded(len(chunk)) > CHUNK:
                    yield waiting
                    waiting, rows = [], 0
                waiting.append((number, chunk))
                rows += self._padded(len(chunk))
        if waiting:
            yield waiting

    def _blocks(self, rows: int, threads: int) -> list[int]:
        """Return where the blocks begin that threads share the rows of a pass out in, and `rows`.

        Blocks begin where slides may, so that no bit changes by it.
        """
        count = max(1, min(threads, rows // _BLOCK))
        return [rows // self._align * i // count * self._align for i in range(count)] + [rows]

    def _padded(self, rows: int) -> int:
        return -(-rows // self._align) * self._align

    @cached_property
    def _align(self) -> int:
        """Rows that slides and blocks are a multiple of."""
        return max(_ALIGN, *(_STEP // math.gcd(_STEP, outputs) for outputs in self.network.shape.hidden))
