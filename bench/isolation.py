"""What decoding slides in processes of their own costs: `python -m bench.isolation [--slides DIR] [--rounds N]`.

The same archive is built with and without isolation (`SLIDESEEK_ISOLATION=off`), in turns, so that other load meets
both; each build is a command of its own, with one thread for the network. Compared are the medians of the CPU time of
all processes, of the clock, and of both per slide. Without DIR, slides are generated. Exits with 1 above 3 %.
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
CONFIG = """
[[engine]]
name       = "lite"
selector   = { use = "mosaic" }
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


def main() -> int:
    """Build in turns, and print the share that isolation takes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--slides", type=Path, help="folder of slides; by default some are generated")
    parser.add_argument("--count", type=int, default=16, help="how many to generate")
    parser.add_argument("--side", type=int, default=4096, help="their side in pixels")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder, slides = Path(work), given.slides
        if slides is None:
            from slideseek_apps.demo.histology import write_demo

            slides = write_demo(folder / "slides", patients=-(-given.count // 4), side=given.side).parent
        (folder / "engines.toml").write_text(CONFIG)
        command("init", folder / "archive", "--config", folder / "engines.toml")
        command("add", slides, "--mpp", "0.5", "-a", folder / "archive")
        times: dict[str, list[tuple[float, float]]] = {"off": [], "on": []}
        for number in range(given.rounds):
            for isolation in ("off", "on") if number % 2 else ("on", "off"):
                archive = folder / f"{isolation}{number}"
                shutil.copytree(folder / "archive", archive)
                times[isolation].append(command("build", "-a", archive, isolation=isolation))
                shutil.rmtree(archive)
    shares = []
    for at, name in enumerate(("CPU", "clock")):
        off, on = (statistics.median(one[at] for one in times[which]) for which in ("off", "on"))
        shares.append(on / off - 1)
        print(f"{name}: {off:.2f} s without, {on:.2f} s with isolation: {on / off - 1:+.1%} (bar {BAR:.0%})")
    return 0 if max(shares) <= BAR else 1


if __name__ == "__main__":
    raise SystemExit(main())
