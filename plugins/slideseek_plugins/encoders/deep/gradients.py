"""Mean gradients of slides: canonical patch order, fixed chunks, many slides a pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

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
    the number of `threads`: these share out patches and layers between them, and every matrix product runs on one
    (callers see to that by `reproducible(1)`).
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
        waiting: list[tuple[int, Float32]] = []
        sums: dict[int, Float32 | Float64] = {}
        rows = done = 0
        for number, job in enumerate(jobs):
            for _, chunk in canonical_chunks(job.features):
                if waiting and rows + _padded(len(chunk)) > CHUNK:
                    self._add(waiting, jobs, sums)
                    waiting, rows = [], 0
                    while done < number:
                        yield sums.pop(done)
                        done += 1
                waiting.append((number, chunk))
                rows += _padded(len(chunk))
        self._add(waiting, jobs, sums)
        while done < len(jobs):
            yield sums.pop(done)
            done += 1

    def traces(self, features: Float32, site: int, wanted: Sequence[str]) -> Iterator[tuple[Int64, dict[str, Trace]]]:
        """Yield (row numbers, traces of the `wanted` layers) of a slide's patches, chunk by chunk."""
        for rows, chunk in canonical_chunks(features):
            traces = self._pass([(site, 1, chunk)], wanted)
            yield rows, {name: trace.rows(0, len(chunk)) for name, trace in traces.items()}

    def _add(self, waiting: list[tuple[int, Float32]], jobs: Sequence[Job], sums: dict[int, Float32 | Float64]) -> None:
        if not waiting:
            return
        wanted, fed = self._asked([jobs[number].part for number, _ in waiting])
        traces = self._pass([(jobs[i].site, len(jobs[i].features), chunk) for i, chunk in waiting], wanted, fed)
        start, tasks = 0, []
        for number, chunk in waiting:
            own = {name: trace.rows(start, start + len(chunk)) for name, trace in traces.items()}
            tasks.append(partial(self._sums, own, jobs[number].part, 1 if len(waiting) > 1 else self.threads))
            start += _padded(len(chunk))
        for (number, _), found in zip(waiting, run(tasks, self.threads)):
            sums[number] = sums[number].astype(np.float64) + found if number in sums else found

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
        self, parts: Sequence[tuple[int, int, Float32]], wanted: Sequence[str], fed: Sequence[str] = ()
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
        bounds = self._blocks(total)
        tasks = [
            partial(backpropagate, self.network, y[start:stop], sites[start:stop], wanted, weights[start:stop], fed)
            for start, stop in pairwise(bounds)
        ]
        return joined(run(tasks, self.threads))

    def _blocks(self, rows: int) -> list[int]:
        """Return where the blocks begin that threads share the rows of a pass out in, and `rows`.

        Blocks begin at multiples of `_ALIGN` as slides do, so that no bit changes by it.
        """
        count = max(1, min(self.threads, rows // _BLOCK))
        return [rows // _ALIGN * i // count * _ALIGN for i in range(count)] + [rows]

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


def _padded(rows: int) -> int:
    return -(-rows // _ALIGN) * _ALIGN
