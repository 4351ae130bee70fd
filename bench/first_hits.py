"""Measure how soon a new archive can be searched: `python -m bench.first_hits [--slides 200] [--engine FILE]`.

Paints slides, adds them and runs `slideseek build` in another process, while this one searches with the first slide
twenty times per second. Prints when the first hit was found, and how many slides could be searched at each quarter of
the build, as shares of the build's time from the start of its process to its end. The same share is printed of CPU
seconds, of the build and of every process it started, which other work on the machine disturbs less (Linux).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.ingest import cpu_seconds
from slideseek.api import create_archive, open_archive
from slideseek.archive.adding import add_slides
from slideseek.archive.archive import Archive
from slideseek.archive.manifest import read_manifest
from slideseek.errors import SlideseekError
from slideseek.slides.discovery import find_slides
from slideseek_apps.demo.histology.demo import write_demo

PER_PATIENT = 4
"""Slides that the demo paints for each number of a patient: one per subtype."""


@dataclass(frozen=True)
class Measured:
    """One build. first, total: seconds by the clock. first_cpu, total_cpu: of CPU. seen: (seconds, slides)."""

    first: float
    total: float
    first_cpu: float
    total_cpu: float
    seen: list[tuple[float, int]]


def searched(root: Path, slide_id: str) -> tuple[int, int]:
    """Return the hits of a search and the slides that can be searched now; none before the first."""
    with suppress(SlideseekError), open_archive(root) as archive:
        answer = archive.search(slide_id, k=1).answer
        return len(answer.found), answer.candidates + 1
    return 0, 0


def measure(root: Path, first: str, workers: int) -> Measured:
    """Build in another process, and search meanwhile."""
    command = [sys.executable, "-m", "slideseek", "build", "-a", str(root), "--workers", str(workers)]
    searched(root, first)  # imports what a search needs
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        found_after, found_cpu = float("inf"), float("inf")
        seen: list[tuple[float, int]] = []
        while True:
            pid, _, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = 0
                total = time.monotonic() - started
                return Measured(found_after, total, found_cpu, usage.ru_utime + usage.ru_stime, seen)
            hits, slides = searched(root, first)
            now = time.monotonic() - started
            seen.append((now, slides))
            if hits and found_after == float("inf"):
                found_after, found_cpu = now, cpu_seconds(process.pid)
            time.sleep(0.05 if found_after == float("inf") else 1.0)


def prepared(folder: Path, slides: int, side: int) -> Path:
    """Paint slides into a folder, unless they are there; return their manifest."""
    manifest = folder / "manifest.csv"
    return manifest if manifest.exists() else write_demo(folder, patients=-(-slides // PER_PATIENT), side=side)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slides", type=int, default=200)
    parser.add_argument("--side", type=int, default=2048, help="side of a slide in pixels")
    parser.add_argument("--engine", type=Path, help="a slideseek.toml (default: the default engine)")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1, help="builds of the same slides")
    parser.add_argument("--work", type=Path, help="keeps the slides between runs of this program")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() if given.work is None else nullcontext(given.work) as folder:
        slides, root = Path(folder, f"slides-{given.slides}-{given.side}"), Path(folder, "archive")
        manifest = prepared(slides, given.slides, given.side)
        for _ in range(given.runs):
            shutil.rmtree(root, ignore_errors=True)
            create_archive(root, given.engine.read_text() if given.engine else None).close()
            with Archive(root) as archive, archive.writing():
                add_slides(archive, find_slides([slides]), (manifest, read_manifest(manifest)))
                ids = archive.catalog.slides.ids()
            found = measure(root, ids[0], given.workers)
            print(f"{len(ids)} slides of {given.side} x {given.side} pixels, built in {found.total:.1f} s")
            print(f"first hit after {found.first:.2f} s: {found.first / found.total:.2%} of the build")
            cpu, whole = found.first_cpu, found.total_cpu
            print(f"first hit after {cpu:.2f} of {whole:.1f} CPU seconds: {cpu / whole:.2%}")
            for quarter in (0.25, 0.5, 0.75):
                most = max((slides for now, slides in found.seen if now <= quarter * found.total), default=0)
                print(f"at {quarter:.0%} of the build {most} slides can be searched ({most / len(ids):.0%})")


if __name__ == "__main__":
    main()
