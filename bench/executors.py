"""Two Dask workers against the local build: `python -m bench.executors [--slides N] [--rounds N]`.

Each side has one core per process, as two machines would: a local build pinned to one core, and two workers pinned to
one core each, with the process that builds beside them. The efficiency is the local time over twice that of
the two workers, for the phase that reads slides. Rounds alternate, so that other load meets both; the median counts.
On a machine that others use too, the CPU time of all processes says more than the clock: `cpu_efficiency` is that of
the local build over that of the build on Dask, scheduler and workers included. Both contain the start of a build, but
only the local one loads a network: workers have done so in a first build, which is not counted. Make
slides larger (`--side`) to see what a slide costs: one of 2,688 pixels is a small biopsy, and takes about a second.
Workers have the variables that the documentation recommends: without Dask's statistical profiler, and with an
allocator that keeps memory, as it does in a local build. `--defaults` leaves Dask's defaults.
With `--kills N`, workers are also killed N times during one more build, and what it stores is compared.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.servers import DaskCluster
from slideseek_apps.cluster.dask_scheduler import WORKER_ENVIRONMENT

CONFIG = """
[[engine]]
name       = "lite"
selector   = { use = "grid", size = 224, mpp = 0.5, min_tissue = 0.5 }
featurizer = { use = "efficientnet-lite0" }
encoder    = { use = "yottixel" }
index      = { use = "hamming" }
"""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def say(text: str) -> None:
    """Print what is done now, beside the results."""
    print(text, file=sys.stderr, flush=True)


def run(*command: object, core: int | None = None) -> str:
    """Run a command, pinned to a core if one is given, and return what it printed."""
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    done = subprocess.run(
        [*pinned, *map(str, command)], env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def make_archive(folder: Path, slides: int, side: int) -> Path:
    """Paint slides of tissue and add them to an archive; nothing is built."""
    import numpy as np
    from PIL import Image

    (folder / "slides").mkdir(parents=True)
    for number in range(slides):
        rng = np.random.default_rng(number)
        texture = np.kron(rng.random((side // 16, side // 16)), np.ones((16, 16)))[..., None]
        image = np.array([225.0, 150.0, 190.0]) * (1 - texture) + np.array([110.0, 60.0, 140.0]) * texture
        Image.fromarray(image.astype(np.uint8)).save(folder / "slides" / f"s{number:03}.png", compress_level=1)
    (folder / "config.toml").write_text(CONFIG)
    slideseek = (sys.executable, "-m", "slideseek")
    run(*slideseek, "init", folder / "archive", "--config", folder / "config.toml")
    run(*slideseek, "add", folder / "slides", "--mpp", "0.5", "-a", folder / "archive")
    return folder / "archive"


def build(archive: Path, *options: object, core: int | None = None) -> dict[str, Any]:
    """Build an archive and return the summary."""
    command = (sys.executable, "-m", "slideseek", "build", "-a", archive, "--json", *options)
    found: dict[str, Any] = json.loads(run(*command, core=core))
    return found


def children_seconds() -> float:
    """Return the CPU time of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def codes(archive: Path) -> list[Any]:
    """Return every stored result but for times."""
    import sqlite3

    with sqlite3.connect(archive / "catalog.sqlite") as db:
        found = db.execute("SELECT key, kind, sha256, data, file FROM payloads ORDER BY key").fetchall()
        found += db.execute("SELECT slide_id, stage, key, status, attempts FROM stages ORDER BY 1, 2, 3").fetchall()
    db.close()
    return found


def kills(archive: Path, cluster: DaskCluster, dask: tuple[object, ...], count: int) -> tuple[int, dict[str, Any]]:
    """Build while workers are killed, every few seconds of work; return how many were, and the summary."""
    command = (sys.executable, "-m", "slideseek", "build", "-a", archive, "--json", *dask)
    building = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    killed = 0
    while building.poll() is None:
        time.sleep(1.0)
        done = len(list((archive / "features").rglob("*.h5"))) if (archive / "features").exists() else 0
        if killed < count and done > killed:
            killed += cluster.kill_a_worker()
    assert building.stdout is not None
    return killed, json.loads(building.stdout.read())


def main() -> None:
    """Print one JSON line per round, and the efficiency."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slides", type=int, default=24)
    parser.add_argument("--side", type=int, default=2688, help="pixels of a slide's side")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--defaults", action="store_true", help="start workers without the recommended variables")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-executors-"))
    cluster = None
    try:
        say(f"painting {given.slides} slides of {given.side} x {given.side} pixels")
        made = make_archive(folder, given.slides, given.side)
        cluster = DaskCluster(folder, ONE_THREAD | ({} if given.defaults else WORKER_ENVIRONMENT), pinned=True)
        cluster.wait()
        with (made / "slideseek.toml").open("a") as config:
            config.write(f'\n[executor]\nuse = "dask"\nscheduler_file = "{cluster.file}"\n')
        say("a first build, in which workers import and load their networks")
        build(Path(shutil.copytree(made, folder / "warm")))
        ratios, cpu, stored = [], [], []
        for number in range(given.rounds):
            local, far = (Path(shutil.copytree(made, folder / f"{name}{number}")) for name in ("local", "dask"))
            began = children_seconds()
            alone = build(local, "--executor", "local", "--workers", 1, core=0)["seconds"]["features"]
            between, cluster_before = children_seconds(), cluster.cpu_seconds()
            both = build(far)["seconds"]["features"]
            parts = {name: used - cluster_before[name] for name, used in cluster.cpu_seconds().items()}
            parts["build"] = children_seconds() - between
            used = sum(parts.values())
            ratios.append(alone / (2 * both))
            cpu.append((between - began) / used)
            stored += [codes(local), codes(far)]
            line = {"round": number, "local_s": alone, "two_workers_s": both, "local_cpu_s": between - began}
            line |= {f"{name}_cpu_s": round(value, 2) for name, value in parts.items()}
            print(json.dumps({**line, "efficiency": ratios[-1], "cpu_efficiency": cpu[-1]}), flush=True)
        same = all(one == stored[0] for one in stored)
        medians = {"efficiency": statistics.median(ratios), "cpu_efficiency": statistics.median(cpu)}
        print(json.dumps({"slides": given.slides, **medians, "same_results": same}), flush=True)
        if given.kills:
            archive = Path(shutil.copytree(made, folder / "killed"))
            count, summary = kills(archive, cluster, (), given.kills)
            same = codes(archive) == stored[0]
            print(json.dumps({"kills": count, "slides": summary["slides"], "same_results": same}))
    finally:
        if cluster is not None:
            cluster.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
