"""Mean gradients of slides: canonical patch order, fixed chunks, many slides a pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from typing import TypeAlias

import numpy as np
import torch

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

_BLOCK = 48
"""Rows a thread takes at least: with fewer, reading the weights takes longer than the arithmetic."""

Chunks: TypeAlias = list[tuple[int, Float32]]
"""Chunks of patches, each with the number of its slide."""


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
class Gradients:
    """Take mean gradients of the reconstruction loss with respect to the parameters of `layers`.

    The result is the same bits whatever the order of a slide's patches, whichever slides share a pass, and whatever
    the number of `threads`: these share passes, patches and layers out between them, and every matrix product runs on
    one (callers see to that by `reproducible(1)`).
    """

    network: CVAE
    inputs: Inputs
    layers: dict[str, tuple[int, int]]
    threads: int = 1

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

    def means(self, jobs: Sequence[Job]) -> Iterator[Float32 | Float64]:
        """Yield, slide by slide, the mean over patches: (size,) or (M,).

        Chunks are added up in float64. The whole gradient of a slide of one chunk stays in the type of the pass: it
        is long, and there is nothing to add up.
        """
        sums: dict[int, Float32 | Float64] = {}
        done = 0
        # Whole gradients are long: one pass of small slides makes many of them, and one is enough at a time.
        together = self.threads if all(job.part.entries for job in jobs) else 1
        passes = _passes(jobs)
        while group := list(islice(passes, together)):
            tasks = [partial(self._take, chunks, jobs, max(1, self.threads // len(group))) for chunks in group]
            for chunks, taken in zip(group, run(tasks, self.threads)):
                for (number, _), found in zip(chunks, taken):
                    sums[number] = sums[number].astype(np.float64) + found if number in sums else found
            unfinished = group[-1][-1][0]
            while done < unfinished:
                yield sums.pop(done)
                done += 1
        yield from sums.values()

    def traces(self, features: Float32, site: int, wanted: Sequence[str]) -> Iterator[tuple[Int64, dict[str, Trace]]]:
        """Yield (row numbers, traces of the `wanted` layers) of a slide's patches, chunk by chunk."""
        for rows, chunk in canonical_chunks(features):
            traces = self._pass([(site, 1, chunk)], wanted, (), self.threads)
            yield rows, {name: trace.rows(0, len(chunk)) for name, trace in traces.items()}

    def _take(self, chunks: Chunks, jobs: Sequence[Job], threads: int) -> list[Float32 | Float64]:
        """Return what each of `chunks`, in one pass, adds to the mean of its slide."""
        wanted, fed = self._asked([jobs[number].part for number, _ in chunks])
        parts = [(jobs[number].site, len(jobs[number].features), chunk) for number, chunk in chunks]
        traces = self._pass(parts, wanted, fed, threads)
        start, tasks = 0, []
        for number, chunk in chunks:
            own = {name: trace.rows(start, start + len(chunk)) for name, trace in traces.items()}
            tasks.append(partial(self._sums, own, jobs[number].part, max(1, threads // len(chunks))))
            start += _padded(len(chunk))
        return run(tasks, threads)

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

    def _pass(
        self, parts: Sequence[tuple[int, int, Float32]], wanted: Sequence[str], fed: Sequence[str], threads: int
    ) -> dict[str, Trace]:
        """Run chunks given as (site, patches in the whole slide, rows) through the network, one after another."""
        total = sum(_padded(len(chunk)) for _, _, chunk in parts)
        x = np.zeros((total, self.network.shape.width), dtype=np.float32)
        site, weight = np.zeros(total, dtype=np.int64), np.zeros(total)
        start = 0
        for number, count, chunk in parts:
            stop = start + len(chunk)
            x[start:stop], site[start:stop], weight[start:stop] = chunk, number, 1 / count
            start += _padded(len(chunk))
        y = self.inputs(x, self.dtype, self.device)
        sites, weights = torch.from_numpy(site).to(self.device), torch.from_numpy(weight).to(self.device, self.dtype)
        bounds = _blocks(total, threads)
        tasks = [
            partial(backpropagate, self.network, y[start:stop], sites[start:stop], wanted, weights[start:stop], fed)
            for start, stop in pairwise(bounds)
        ]
        return joined(run(tasks, threads))

    def _sums(self, traces: dict[str, Trace], part: Part, threads: int) -> Float32 | Float64:
        if part.chosen is not None and part.entries:
            values = np.empty(len(part.chosen))
            own = {part.narrow.layer: part.narrow.trace(self.network, traces)} if part.narrow else {}
            tasks = [partial(entry.sums, own.get(entry.layer, traces[entry.layer])) for entry in part.entries]
            for entry, found in zip(part.entries, run(tasks, threads)):
                values[entry.place] = found
            return values
        out = torch.empty(self.size, dtype=self.dtype, device=self.device)
        run(full_sums(self.layers, {name: trace.aligned() for name, trace in traces.items()}, out), threads)
        gradient: Float32 | Float64 = out.cpu().numpy()
        return gradient if part.chosen is None else gradient[part.chosen]


def _passes(jobs: Sequence[Job]) -> Iterator[Chunks]:
    """Yield the chunks that go through the network in one pass, slide by slide in the order of `jobs`."""
    waiting: Chunks = []
    rows = 0
    for number, job in enumerate(jobs):
        for _, chunk in canonical_chunks(job.features):
            if waiting and rows + _padded(len(chunk)) > CHUNK:
                yield waiting
                waiting, rows = [], 0
            waiting.append((number, chunk))
            rows += _padded(len(chunk))
    if waiting:
        yield waiting


def _blocks(rows: int, threads: int) -> list[int]:
    """Return where the blocks begin that threads share the rows of a pass out in, and `rows`.

    Blocks begin at multiples of `_ALIGN` as slides do, so that no bit changes by it.
    """
    count = max(1, min(threads, rows // _BLOCK))
    return [rows // _ALIGN * i // count * _ALIGN for i in range(count)] + [rows]


def _padded(rows: int) -> int:
    return -(-rows // _ALIGN) * _ALIGN
