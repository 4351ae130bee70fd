"""Mean gradients of slides: canonical patch order, fixed chunks, many slides a pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from slideseek.types import Float32, Float64, Int64
from slideseek_plugins.encoders.deep.extraction import Entries, Trace, backpropagate, entries_of, full_sums
from slideseek_plugins.encoders.deep.inputs import Inputs
from slideseek_plugins.encoders.deep.network import CVAE
from slideseek_plugins.encoders.order import CHUNK, canonical_chunks

_ALIGN = 8
"""Slides start at multiples of this row in a pass and are padded to it: matrix products treat the rows of a full tile
alike, so that a patch gets the same bits alone and in company."""


@dataclass(frozen=True)
class Job:
    """One slide to take the gradient of: raw features (n, width), the number of its site, which entries.

    entries: None for the whole gradient.
    """

    features: Float32
    site: int
    entries: tuple[Entries, ...] | None


@dataclass(frozen=True)
class Gradients:
    """Take mean gradients of the reconstruction loss with respect to the parameters of `layers`.

    The result is the same bits whatever the order of a slide's patches, whichever slides share a pass, and whatever
    the number of threads the process is set to: callers run it on one thread (`reproducible(1)`).
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

    def entries(self, chosen: Int64) -> tuple[Entries, ...]:
        """Prepare flat positions, int64 (M,), for a `Job`."""
        return tuple(entries_of(self.layers, chosen, self.device))

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
                        yield _divided(sums.pop(done), len(jobs[done].features))
                        done += 1
                waiting.append((number, chunk))
                rows += _padded(len(chunk))
        self._add(waiting, jobs, sums)
        while done < len(jobs):
            yield _divided(sums.pop(done), len(jobs[done].features))
            done += 1

    def traces(self, features: Float32, site: int, wanted: Sequence[str]) -> Iterator[tuple[Int64, dict[str, Trace]]]:
        """Yield (row numbers, traces of the `wanted` layers) of a slide's patches, chunk by chunk."""
        for rows, chunk in canonical_chunks(features):
            traces = self._pass([(site, chunk)], wanted)
            yield rows, {name: trace.rows(0, len(chunk)) for name, trace in traces.items()}

    def _add(self, waiting: list[tuple[int, Float32]], jobs: Sequence[Job], sums: dict[int, Float32 | Float64]) -> None:
        if not waiting:
            return
        wanted = self._wanted([jobs[number] for number, _ in waiting])
        traces = self._pass([(jobs[number].site, chunk) for number, chunk in waiting], wanted)
        start = 0
        for number, chunk in waiting:
            part = {name: trace.rows(start, start + len(chunk)) for name, trace in traces.items()}
            found = self._sums(part, jobs[number].entries)
            sums[number] = sums[number].astype(np.float64) + found if number in sums else found
            start += _padded(len(chunk))

    def _wanted(self, jobs: Sequence[Job]) -> list[str]:
        if any(job.entries is None for job in jobs):
            return list(self.layers)
        asked = {entry.layer for job in jobs for entry in job.entries or ()}
        return [name for name in self.layers if name in asked]

    def _pass(self, parts: Sequence[tuple[int, Float32]], wanted: Sequence[str]) -> dict[str, Trace]:
        total = sum(_padded(len(chunk)) for _, chunk in parts)
        x = np.zeros((total, self.network.shape.width), dtype=np.float32)
        site = np.zeros(total, dtype=np.int64)
        start = 0
        for number, chunk in parts:
            x[start : start + len(chunk)], site[start : start + _padded(len(chunk))] = chunk, number
            start += _padded(len(chunk))
        y = self.inputs(x, self.dtype, self.device)
        return backpropagate(self.network, y, torch.from_numpy(site).to(self.device), wanted)

    def _sums(self, traces: dict[str, Trace], entries: tuple[Entries, ...] | None) -> Float32 | Float64:
        if entries is None:
            out = torch.empty(self.size, dtype=self.dtype, device=self.device)
            # Copies start at the same alignment in memory for every slide of a pass.
            own = {name: Trace(t.delta.clone(), t.inward.clone()) for name, t in traces.items()}
            full_sums(self.layers, own, out)
            found: Float32 | Float64 = out.cpu().numpy()
            return found
        values = np.empty(sum(len(entry.place) for entry in entries))
        for entry in entries:
            values[entry.place] = entry.sums(traces[entry.layer])
        return values


def _divided(total: Float32 | Float64, count: int) -> Float32 | Float64:
    total /= count
    return total


def _padded(rows: int) -> int:
    return -(-rows // _ALIGN) * _ALIGN
