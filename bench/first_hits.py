"""Measure how soon a new archive can be searched: `python -m bench.first_hits [--slides 200] [--engine FILE]`.

Paints slides, adds them and runs `slideseek build` in another process, while this one searches with the first slide
ten times per second. Prints when the first hit was found, and how many slides could be searched at each quarter of
the build, as shares of the build's time from the start of its process to its end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from slideseek.api import create_archive, open_archive
from slideseek.archive.adding import add_slides
from slideseek.archive.archive import Archive
from slideseek.archive.manifest import read_manifest
from slideseek.errors import SlideseekError
from slideseek.slides.discovery import find_slides
from slideseek_apps.demo.histology.demo import write_demo

PER_PATIENT = 4
"""Slides that the demo paints for each number of a patient: one per subtype."""


def searched(root: Path, slide_id: str) -> tuple[int, int]:
    """Return the hits of a search and the slides that can be searched now; none before the first."""
    with suppress(SlideseekError), open_archive(root) as archive:
        answer = archive.search(slide_id, k=1).answer
        return len(answer.found), answer.candidates + 1
    return 0, 0


def measure(root: Path, first: str, workers: int) -> tuple[float, float, list[tuple[float, int]]]:
    """Build in another process; return the seconds to the first hit and to the end, and (seconds, slides) between."""
    command = [sys.executable, "-m", "slideseek", "build", "-a", str(root), "--workers", str(workers)]
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        found_after, seen = float("inf"), []
        while process.poll() is None:
            hits, slides = searched(root, first)
            now = time.monotonic() - started
            seen.append((now, slides))
            if hits:
                found_after = min(found_after, now)
            time.sleep(0.1 if found_after == float("inf") else 1.0)
        return found_after, time.monotonic() - started, seen


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slides", type=int, default=200)
    parser.add_argument("--side", type=int, default=2048, help="side of a slide in pixels")
    parser.add_argument("--engine", type=Path, help="a slideseek.toml (default: the default engine)")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        slides, root = Path(folder, "slides"), Path(folder, "archive")
        manifest = write_demo(slides, patients=-(-given.slides // PER_PATIENT), side=given.side)
        create_archive(root, given.engine.read_text() if given.engine else None).close()
        with Archive(root) as archive, archive.writing():
            add_slides(archive, find_slides([slides]), (manifest, read_manifest(manifest)))
            ids = archive.catalog.slides.ids()
        first, total, seen = measure(root, ids[0], given.workers)
    print(f"{len(ids)} slides of {given.side} x {given.side} pixels, built in {total:.1f} s")
    print(f"first hit after {first:.2f} s: {first / total:.2%} of the build")
    for quarter in (0.25, 0.5, 0.75):
        most = max((slides for now, slides in seen if now <= quarter * total), default=0)
        print(f"at {quarter:.0%} of the build {most} slides can be searched ({most / len(ids):.0%})")


if __name__ == "__main__":
    main()
