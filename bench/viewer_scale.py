"""Measure the viewer over an archive of many slides of imported features: browse, filter, search; and its memory.

    python -m bench.viewer_scale [--slides 20000] [--archive FOLDER]

Times are taken inside a headless Chromium, from the click to the frame that shows the new rows or hits, after one of
each kind to warm up. The server runs in a process of its own; its resident memory is read before and after all of it.
FOLDER keeps the archive for the next run; without it the archive is made in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from playwright.sync_api import Page, sync_playwright

from bench.serve_latency import FLAGS
from slideseek.cli import main as slideseek

WIDTH, PATCHES, DIAGNOSES, CENTRES = 64, 8, 30, 12
CONFIG = """
[[engine]]
name       = "means"
selector   = {{ use = "imported", set = "{name}" }}
featurizer = {{ use = "imported", set = "{name}", width = 64 }}
encoder    = {{ use = "mean" }}
index      = {{ use = "cosine" }}

[[engine]]
name       = "sets"
selector   = {{ use = "imported", set = "{name}" }}
featurizer = {{ use = "imported", set = "{name}", width = 64 }}
encoder    = {{ use = "yottixel" }}
index      = {{ use = "hamming" }}
"""

# Each resolves with milliseconds from the action to the frame after `ready` holds.
TIMED = """([action, ready]) => new Promise((done) => {
  const from = performance.now(), all = (selector) => document.querySelectorAll(selector);
  const list = () => document.querySelector('#slides')?.textContent;
  const act = {
    filter: () => all('.facet input[type=checkbox]')[window.at].click(),
    page: () => document.getElementById('next').click(),
    search: () => all('.card-row a')[window.at].click(),
    hits: () => all('.hit .open')[0].click(),
  }[action];
  const tests = {
    rows: () => window.before !== list() && all('.card-row').length,
    hits: () => all('.hit:not(.skeleton)').length,
    evidence: () => all('#sum strong').length,
  };
  const look = () => {
    if (tests[ready]()) requestAnimationFrame(() => done(performance.now() - from));
    else requestAnimationFrame(look);
  };
  window.before = list();
  act();
  look();
})"""


def run(*words: object) -> None:
    """Run a command; one that fails ends the benchmark."""
    try:
        slideseek([str(word) for word in words])
    except SystemExit as done:
        if done.code:
            raise


def make_archive(folder: Path, slides: int) -> Path:
    """Write the features of slides as TRIDENT does, import and build them."""
    root, job = folder / "archive", folder / "job" / "20x_256px_0px_overlap" / "features_bench"
    if (root / "slideseek.toml").exists():
        return root
    job.mkdir(parents=True)
    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(DIAGNOSES, WIDTH))
    rows = ["slide_id,patient,site,diagnosis,center,age"]
    xy = np.array([(x * 512, y * 512) for x in range(4) for y in range(2)], np.int64)
    stated = {"patch_size": 256, "patch_size_level0": 512, "level0_magnification": 40, "target_magnification": 20}
    for number in range(slides):
        kind = int(rng.integers(DIAGNOSES))
        with h5py.File(job / f"S{number:06d}.h5", "w") as file:
            file["features"] = (kinds[kind] + rng.normal(size=(PATCHES, WIDTH))).astype(np.float32)
            file.create_dataset("coords", data=xy).attrs.update(stated)
        about = f"site {kind % 9},diagnosis {kind},centre {rng.integers(CENTRES)},{rng.integers(20, 95)}"
        rows.append(f"S{number:06d},P{number // 2:05d},{about}")
    (folder / "manifest.csv").write_text("\n".join(rows) + "\n")
    (folder / "engines.toml").write_text(CONFIG.format(name="bench"))
    run("init", root, "--config", folder / "engines.toml")
    run("import", folder / "job", "-a", root, "--manifest", folder / "manifest.csv", "--set", "bench")
    run("build", "-a", root)
    return root


def timed(page: Page, action: str, ready: str, at: int) -> float:
    """Return the milliseconds of one action on the page. at: which facet, row or hit is clicked."""
    page.evaluate("(at) => { window.at = at; }", at)
    return float(page.evaluate(TIMED, [action, ready]))


def measure(page: Page, origin: str, rounds: int) -> dict[str, list[float]]:
    """Return milliseconds by action; the first round warms up and is left out."""
    times: dict[str, list[float]] = {
        "next page": [],
        "filter": [],
        "search": [],
        "search among filtered": [],
        "hit": [],
    }
    for number in range(rounds + 1):
        page.goto(origin)
        page.wait_for_selector(".card-row")
        page.wait_for_load_state("networkidle")
        times["next page"].append(timed(page, "page", "rows", 0))
        times["search"].append(timed(page, "search", "hits", number % 40))
        times["hit"].append(timed(page, "hits", "evidence", 0))
        page.goto(origin)
        page.wait_for_selector(".card-row")
        page.wait_for_load_state("networkidle")
        times["filter"].append(timed(page, "filter", "rows", number % 9))
        page.wait_for_load_state("networkidle")
        times["search among filtered"].append(timed(page, "search", "hits", number % 40))
    return {name: values[1:] for name, values in times.items()}


def resident(process: int) -> float:
    """Return the resident memory of a process in MiB."""
    fields = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in fields if line.startswith("VmRSS"))


@contextmanager
def started_server(root: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Run `slideseek serve` in a process of its own; yield its address and its number."""
    command = [sys.executable, "-m", "slideseek", "serve", str(root), "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None:
            raise RuntimeError("the server has no output")
        yield json.loads(process.stdout.readline()), process.pid
    finally:
        process.terminate()
        process.wait(timeout=60)


def main() -> None:
    """Make the archive if needed, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--slides", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--archive", type=Path, help="a folder that keeps the archive")
    given = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with nullcontext(given.archive) if given.archive else tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        root = make_archive(Path(folder), given.slides)
        print(f"archive of {given.slides:,} slides ready after {time.perf_counter() - began:.0f} s")
        began = time.perf_counter()
        with started_server(root) as (address, process), sync_playwright() as started:
            print(f"server ready after {time.perf_counter() - began:.1f} s")
            browser = started.chromium.launch(executable_path=program, args=FLAGS)
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(address["url"])
            first = measure(page, address["origin"], 1)
            before = resident(process)
            times = measure(page, address["origin"], given.rounds)
            after = resident(process)
            browser.close()
    for name, values in times.items():
        print(f"{name}: median {statistics.median(values):.0f} ms, worst {max(values):.0f} ms of {len(values)}")
    print(
        f"server memory: {before:.0f} MiB after {len(first['search'])} round, {after:.0f} MiB after {given.rounds} more"
    )


if __name__ == "__main__":
    main()
