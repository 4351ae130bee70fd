"""Measure what checking a saved index costs a cold search: `python -m bench.checked_index [--slides N]`.

An archive of synthetic slides (`bench.archive_growth`); each search is a new process, and the files of the archive are
dropped from the cache of the operating system before it. Alternately, all files of the index are compared with their
checksums when it is opened, as in the product, or not. Prints medians over the pairs: seconds of the search (open the
archive and the index, search once; and with the start of the process), of the check itself, the ratios, and the same
for a second search in the same process, for which nothing is checked again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.archive_growth import ENGINES, build, synthetic_archive
from slideseek.archive.archive import Archive
from slideseek.plugins import load_registry

CHILD = """
import json, sys, time
start = time.perf_counter()
from slideseek.indexing import live_index
from slideseek.api import open_archive
real, spent = live_index.broken_seal, [0.0]
def checked(*given):
    began = time.perf_counter()
    try:
        return real(*given) if sys.argv[2] == "checked" else ""
    finally:
        spent[0] += time.perf_counter() - began
live_index.broken_seal = checked
import slideseek_components.indexes.hamming, slideseek_components.indexes.cosine
opened = time.perf_counter()
with open_archive(sys.argv[1]) as archive:
    archive.search(archive.slides[0], k=5)
    cold = time.perf_counter()
    archive.search(archive.slides[1], k=5)
    warm = time.perf_counter()
print(json.dumps([cold - opened, cold - start, spent[0], warm - cold]))
"""


def drop_from_cache(root: Path) -> None:
    """Ask the operating system to forget the content of all files below a folder."""
    os.sync()
    for file in root.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def main() -> None:
    """Make the archive, search in pairs, print the table."""
    parser = argparse.ArgumentParser(description="what checking a saved index costs a cold search")
    parser.add_argument("--slides", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=11)
    given = parser.parse_args()
    environment = {**os.environ, "SLIDESEEK_NO_QUERY_LOG": "1"}
    print(f"{given.slides:,} slides, {given.pairs} pairs; seconds")
    for name in ENGINES:
        with tempfile.TemporaryDirectory() as work:
            root = Path(work) / "archive"
            synthetic_archive(root, name, given.slides)
            with Archive(root) as archive:
                build(archive, load_registry())
            size = sum(file.stat().st_size for file in (root / "index").rglob("*") if file.is_file())
            times: dict[str, list[list[float]]] = {"checked": [], "unchecked": []}
            for _ in range(given.pairs):
                for how, found in times.items():
                    drop_from_cache(root)
                    command = [sys.executable, "-c", CHILD, str(root), how]
                    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
                    found.append(json.loads(done.stdout))
        cold, whole, spent, warm = (
            [statistics.median(one[column] for one in times[how]) for how in ("checked", "unchecked")]
            for column in range(4)
        )
        print(f"{name}: index of {size / 2**20:.1f} MiB, {spent[0]:.4f} s to check")
        for label, (with_check, without) in (("cold search", cold), ("with start", whole), ("second search", warm)):
            print(f"  {label}: {with_check:.4f} checked, {without:.4f} unchecked, ratio {with_check / without:.3f}")
        print(f"  check as a share of the cold search: {spent[0] / cold[0]:.1%}; with start: {spent[0] / whole[0]:.1%}")


if __name__ == "__main__":
    main()
