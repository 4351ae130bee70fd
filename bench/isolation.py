"""What decoding slides in processes of their own costs: `python -m bench.isolation [--slides DIR] [--rounds N]`.

The same archive is built with and without isolation (`SLIDESEEK_ISOLATION=off`), in turns, so that other load meets
both; each build is a command of its own, with one thread for the network. Compared are the medians of the CPU time of
all processes and of the clock. Without DIR, slides are generated. Exits with 1 above 3 % of the realistic build.

Two builds are measured. The realistic one takes every patch: a whole slide is about 100,000 pixels wide, and even a
mosaic of 15 % takes hundreds of patches of it, as many as there are at all in a slide of 4,096 pixels. The small one
takes a mosaic of the same slides, a dozen patches each. It takes seconds, so the start of the process that forks, once
per build, and that of a process per slide show in it as they do in no real build. `--small` measures that one alone,
and exits with 1 if it is above 3 %.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.executors import ONE_THREAD

BAR = 0.03
SELECTORS = {"realistic": '{ use = "grid", size = 224, mpp = 0.5 }', "small": '{ use = "mosaic" }'}
CONFIG = """
[[engine]]
name       = "lite"
selector   = SELECTOR
featurizer = { use = "efficientnet-lite0" }
encoder    = { use = "yottixel" }
index      = { use = "hamming" }
"""


def command(*words: object, isolation: str = "on") -> tuple[float, float]:
    """Run slideseek; return the CPU time of all its processes, and the time by the clock, in seconds."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = {**os.environ, **ONE_THREAD, "SLIDESEEK_ISOLATION": isolation}
    line = [sys.executable, "-m", "slideseek", *map(str, words)]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.monotonic() - begun


def measured(folder: Path, slides: Path, selector: str, rounds: int) -> list[tuple[float, float]]:
    """Build in turns; return seconds without and with isolation, by CPU and by the clock."""
    folder.mkdir()
    (folder / "engines.toml").write_text(CONFIG.replace("SELECTOR", selector))
    command("init", folder / "archive", "--config", folder / "engines.toml")
    command("add", slides, "--mpp", "0.5", "-a", folder / "archive")
    times: dict[str, list[tuple[float, float]]] = {"off": [], "on": []}
    for number in range(rounds):
        for isolation in ("off", "on") if number % 2 else ("on", "off"):
            archive = folder / f"{isolation}{number}"
            shutil.copytree(folder / "archive", archive)
            times[isolation].append(command("build", "-a", archive, isolation=isolation))
            shutil.rmtree(archive)
    off, on = ([statistics.median(one) for one in zip(*times[which], strict=True)] for which in ("off", "on"))
    return list(zip(off, on, strict=True))


def main() -> int:
    """Print the share that isolation takes of each build."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--slides", type=Path, help="folder of slides; by default some are generated")
    parser.add_argument("--count", type=int, default=16, help="how many to generate")
    parser.add_argument("--side", type=int, default=4096, help="their side in pixels")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="measure the small build alone")
    given = parser.parse_args()
    sizes = ["small"] if given.small else list(SELECTORS)
    shares: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as work:
        slides = given.slides
        if slides is None:
            from slideseek_apps.demo.histology import write_demo

            slides = write_demo(Path(work) / "slides", patients=-(-given.count // 4), side=given.side).parent
        for size in sizes:
            found = measured(Path(work) / size, slides, SELECTORS[size], given.rounds)
            for name, (off, on) in zip(("CPU", "clock"), found, strict=True):
                share = f"{on / off - 1:+.1%} (bar {BAR:.0%})"
                print(f"{size} build, {name}: {off:.2f} s without, {on:.2f} s with isolation: {share}", flush=True)
            shares[size] = max(on / off - 1 for off, on in found)
    return 0 if shares[sizes[0]] <= BAR else 1


if __name__ == "__main__":
    raise SystemExit(main())
