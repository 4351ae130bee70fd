"""Measure what the checks at the plugin boundary cost: `python -m bench.boundary_cost [--slides DIR]`.

Search: the same index, bare and checked, takes turns in this process; the medians of the CPU time of a search over
100,000 codes of 5,000 bits are compared. Build: slides (generated, unless DIR has some) are built with the default
featurizer, and what is spent in checks, in the calls around components and in probes is added up. Loading the network
counts as neither. Exits with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.search_speed import clustered_bits
from slideseek.archive.adding import StatedMpp, add_slides
from slideseek.archive.archive import Archive
from slideseek.boundary import CheckedIndex, Owner
from slideseek.building.build import Builder
from slideseek.building.reporting import Silent
from slideseek.config import parse_config
from slideseek.engine import Engine, make_engine
from slideseek.plugins import load_registry
from slideseek.types import Code, Mask
from slideseek_apps.demo.histology import write_demo
from slideseek_components.indexes.hamming import Hamming

CODES, BITS, K, ROUNDS = 100_000, 5_000, 10, 1501
SEARCH_BAR, BUILD_BAR = 0.02, 0.01
CONFIG = """
[[engine]]
name       = "cost"
selector   = { use = "grid", size = 256, mpp = 0.5 }
featurizer = { use = "efficientnet-lite2" }
encoder    = { use = "yottixel" }
index      = { use = "hamming" }
"""


def search_share() -> float:
    """Print the time of a search, bare and checked, and return the largest share that the checks take."""
    rows, asked = clustered_bits(CODES, BITS, 1), clustered_bits(ROUNDS, BITS, 2)
    bare = Hamming()
    bare.add([Code(f"s{number:07d}", row[None]) for number, row in enumerate(rows)])
    checked = CheckedIndex(bare, Owner("index", "hamming", "slideseek"))
    began = time.process_time()
    assert len(checked.row_of) == CODES
    once = time.process_time() - began
    among: Mask = np.ones(CODES, np.bool_)
    among[:3] = False
    shares = []
    for name, mask in (("all slides", None), ("own patient excluded", among)):
        times: dict[Callable[..., Any], list[float]] = {bare.search: [], checked.search: []}
        for number, row in enumerate(asked):
            code = Code("query", row[None])
            # Each comes first in every other round, so that neither always finds the query in the caches.
            for search in list(times)[:: 1 if number % 2 else -1]:
                began = time.process_time()
                search(code, K, mask)
                times[search].append(time.process_time() - began)
        plain, owned = (statistics.median(spent) for spent in times.values())
        shares.append((owned - plain) / plain)
        print(f"search, {name}: bare {1e3 * plain:.3f} ms, checked {1e3 * owned:.3f} ms, checks {shares[-1]:+.2%}")
    print(f"once for every index that is opened: {1e3 * once:.1f} ms")
    return max(shares)


class _Depth(threading.local):
    """How deep a thread is inside what is timed: slides are read in threads of their own."""

    depth = 0


class Spent:
    """Seconds spent at the boundary, by what they went into; nested parts count once."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {"calls": 0.0, "checks": 0.0, "probes": 0.0}
        self._at = _Depth()

    def timed(self, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method that adds its own time; of a call, the time around the component's method."""

        def run(owner: Any, *args: Any, **kwargs: Any) -> Any:
            if self._at.depth:
                return function(owner, *args, **kwargs)
            own = 0.0

            def component(*given: Any, **named: Any) -> Any:
                nonlocal own
                began, depth = time.perf_counter(), self._at.depth
                self._at.depth = 0  # a component may use another one
                try:
                    return method(*given, **named)
                finally:
                    self._at.depth = depth
                    own = time.perf_counter() - began

            if what == "calls":
                label, method, *rest = args
                args = (label, component, *rest)
            self._at.depth += 1
            began = time.perf_counter()
            try:
                return function(owner, *args, **kwargs)
            finally:
                self.seconds[what] += time.perf_counter() - began - own
                self._at.depth -= 1

        return run

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Time every call, check and probe meanwhile."""
        parts: list[tuple[type[Any], str, str]] = [
            (Engine, name, "probes") for name in ("probe_codes", "probe_features", "ready_featurizer")
        ]
        parts += [(Owner, name, "checks") for name in vars(Owner) if name.startswith("check_")]
        parts.append((Owner, "call", "calls"))
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in parts]
        for owner, name, what in parts:
            setattr(owner, name, self.timed(what, getattr(owner, name)))
        try:
            yield
        finally:
            for owner, name, method in before:
                setattr(owner, name, method)


def build_share(slides: Path | None) -> float:
    """Print what a build spends at the boundary and return its share."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "archive"
        if slides is None:
            slides = write_demo(Path(folder) / "slides", patients=3, side=2048).parent
        archive = Archive.create(root, CONFIG)
        with archive.writing():
            files = sorted(path for path in slides.iterdir() if path.suffix in (".svs", ".tif", ".tiff", ".png"))
            add_slides(archive, files, stated=StatedMpp(0.5))
        config = parse_config(CONFIG).engines[0]
        warm = make_engine(config, load_registry())
        warm.probe_features()  # reads the weights
        spent, began = Spent(), time.perf_counter()
        with spent.watching():
            engine = make_engine(config, warm.registry)
            engine.__dict__["featurizer"] = warm.featurizer
            summary = Builder(archive, [engine], Silent()).run()
        wall = time.perf_counter() - began
        archive.close()
    parts = ", ".join(f"{name} {1e3 * seconds:.1f} ms" for name, seconds in spent.seconds.items())
    share = sum(spent.seconds.values()) / wall
    print(f"build of {sum(summary.counts.values())} slides: {wall:.2f} s, of which {parts}: {share:.2%}")
    return share


def main() -> None:
    """Print both costs and compare them with the bars."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slides", type=Path, help="folder of slides to build instead of generated ones")
    given = parser.parse_args()
    missed = []
    for what, share, bar in (
        ("search", search_share(), SEARCH_BAR),
        ("build", build_share(given.slides), BUILD_BAR),
    ):
        print(f"{what}: checks take {share:.2%}, at most {bar:.0%} allowed")
        if share > bar:
            missed.append(what)
    if missed:
        sys.exit(f"too expensive: {', '.join(missed)}")


if __name__ == "__main__":
    main()
