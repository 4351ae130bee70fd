"""Random add, remove, search, rebuild, crash and flip against a model that knows what has to be there."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from reliability.hostile_files import call
from reliability.hostile_slides import tissue
from reliability.row import Effort, Figure, Row
from reliability.trial import in_child

MINUTES_VARIABLE = "SLIDESEEK_SOAK_MINUTES"
"""Environment variable: how long the long form takes; 30 by default."""

CONFIG = """
[[engine]]
name       = "parts"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.2 }
featurizer = { use = "colour-texture" }
encoder    = { use = "mean" }
index      = { use = "cosine" }
"""
SLIDES = 24


class Soak:
    """One archive and the model of it: the slides that were added, and those that were built."""

    def __init__(self, work: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.slides, self.archive = work / "slides", work / "archive"
        self.slides.mkdir()
        for number in range(SLIDES):
            image = np.roll(tissue(256), 17 * number, number % 2)
            image[: 10 * number + 1] = (200, 120, 170 - number)
            Image.fromarray(image).save(self.slides / f"s{number:02}.png", dpi=(50_800, 50_800))
        (work / "engines.toml").write_text(CONFIG)
        self.call("init", self.archive, "--config", work / "engines.toml")
        self.added: set[str] = set()
        self.built: set[str] = set()
        self.first: dict[str, list[tuple[str, float]]] = {}
        self.counts = dict.fromkeys(("add", "remove", "search", "build", "crash", "flip"), 0)
        self.divergences: list[str] = []

    def call(self, *words: object, codes: tuple[int, ...] = (0,)) -> str:
        """Run a command in a fork of this process: its own memory stays flat."""
        done = in_child(lambda: call(list(words)), 120)
        code, text = done.value if done.end == "answered" else (-1, f"{done.end} {done.text}")
        if code not in codes:
            self.divergences.append(f"{' '.join(map(str, words))}: exit {code}: {text[-400:]}")
        return str(text)

    def step(self) -> None:
        """Do one thing at random, and check what can be seen of it."""
        free = [f"s{number:02}" for number in range(SLIDES) if f"s{number:02}" not in self.added]
        choices = ["search"] * 6 + ["build"] * 2 + ["crash", "flip"]
        choices += ["add"] * 3 * bool(free) + ["remove"] * bool(self.added)
        what = self.random.choice(choices)
        self.counts[what] += 1
        getattr(self, f"_{what}")(free)
        self._compare()

    def _add(self, free: list[str]) -> None:
        chosen = self.random.sample(free, min(len(free), self.random.randint(1, 4)))
        self.call("add", *(self.slides / f"{name}.png" for name in chosen), "-a", self.archive)
        self.added |= set(chosen)

    def _remove(self, _: list[str]) -> None:
        name = self.random.choice(sorted(self.added))
        self.call("remove", name, "-a", self.archive)
        self.added.discard(name)
        self.built.discard(name)

    def _build(self, _: list[str]) -> None:
        self.call("build", "-a", self.archive, codes=(0, 1) if not self.added else (0,))
        self.built = set(self.added)

    def _crash(self, free: list[str]) -> None:
        """Kill a build at a random instant; what was built before is still there, and may be more."""
        line = [sys.executable, "-m", "slideseek", "build", "-a", str(self.archive)]
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self.random.uniform(0.2, 2.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
        self._build(free)

    def _flip(self, free: list[str]) -> None:
        """Flip a bit of a derived or stored file: an answer is right, or refused; a rebuild repairs it."""
        files = [file for part in ("index", "features") for file in (self.archive / part).rglob("*") if file.is_file()]
        files = [file for file in files if file.stat().st_size]
        if not files or not self.built:
            return
        file = self.random.choice(sorted(files))
        stat, data = file.stat(), bytearray(file.read_bytes())
        data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        file.write_bytes(data)
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        self._search(free, codes=(0, 1))
        self.call("build", "-a", self.archive)
        self.built = set(self.added)

    def _search(self, _: list[str], codes: tuple[int, ...] = (0,)) -> None:
        if len(self.built) < 2:
            return
        name = self.random.choice(sorted(self.built))
        text = self.call("search", name, "-k", SLIDES, "-a", self.archive, "--json", codes=codes)
        try:
            hits = json.loads(text[text.index("{") :])["hits"]
        except (ValueError, KeyError):
            if codes == (0,):
                self.divergences.append(f"search {name}: {text[-300:]}")
            return
        found = {hit["slide"]["id"]: hit["distance"] for hit in hits}
        if set(found) != self.built - {name}:
            self.divergences.append(f"search {name}: found {sorted(found)}, expected {sorted(self.built - {name})}")
        for other, distance in found.items():
            pair = " ".join(sorted((name, other)))
            known = self.first.setdefault(pair, [(other, distance)])[0][1]
            if abs(known - distance) > 1e-6:
                self.divergences.append(f"distance of {pair}: {distance}, was {known}")

    def _compare(self) -> None:
        """Compare the slides that the archive lists with the model."""
        text = self.call("status", "-a", self.archive, "--json")
        try:
            listed = json.loads(text[text.index("{") :])
        except ValueError:
            return
        there = {one["id"] for one in listed["slides"]}
        if there != self.added:
            self.divergences.append(f"status: {sorted(there)}, expected {sorted(self.added)}")


def resident() -> int:
    """Return the memory of this process, MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024


def run(effort: Effort) -> Iterator[Figure]:
    """Soak for some minutes, then check the archive as a whole."""
    from slideseek.searching import searcher  # noqa: F401

    minutes = 10.0 if effort.short else float(os.environ.get(MINUTES_VARIABLE, "30"))
    most = 8 if effort.short else 10**9
    soak = Soak(effort.work, effort.seed)
    until, steps = time.monotonic() + 60 * minutes, 0
    for _ in range(3):
        soak.step()
    before = resident()
    while time.monotonic() < until and steps < most and len(soak.divergences) < 20:
        soak.step()
        steps += 1
    grown = resident() - before
    soak._build([])
    for _ in range(5):
        soak._search([])
    yield Figure(
        "random work against a model" if effort.short else f"{minutes:g} minutes of random work against a model",
        steps,
        {
            **soak.counts,
            "steps with a check of all slides": steps + 3,
            "divergences": len(soak.divergences),
            "memory grown, MiB": grown,
        },
        not soak.divergences and grown < 50,
        examples=tuple(soak.divergences[:10]),
    )


ROW = Row("soak", "Soak", "30 minutes of random work: no divergence from the model, memory flat", run)
