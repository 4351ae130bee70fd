"""Measure the viewer as a person meets it: first hits on screen after a click, and the time of a tile.

    python -m bench.serve_latency [ARCHIVE]

Hits are timed inside a headless Chromium, from the click on a slide to the frame after the first hit's picture has been
decoded. Tiles are asked for one after the other, each for the first time, over the loopback; then 10,000 at once, to
see what a flood does. ARCHIVE is an archive that has been built; without it the demonstration is made first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from playwright.sync_api import Page, sync_playwright

from slideseek.cli import main as slideseek

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]

# Resolves with the milliseconds from the click on the card to the frame that shows the first hit.
TIMED = """(at) => new Promise((done) => {
  const from = performance.now();
  const look = () => {
    const image = document.querySelector('.hit:not(.skeleton) img');
    if (image && image.complete && image.naturalWidth) requestAnimationFrame(() => done(performance.now() - from));
    else requestAnimationFrame(look);
  };
  document.querySelectorAll('.card')[at].click();
  look();
})"""


def time_hits(page: Page, running: Address, clicks: int) -> list[float]:
    """Return milliseconds from click to hits, for a new slide each time; the first one warms up and is left out."""
    times = []
    for number in range(clicks + 1):
        page.goto(running.origin)
        page.wait_for_selector(".card img")
        page.wait_for_load_state("networkidle")
        times.append(float(page.evaluate(TIMED, number % page.locator(".card").count())))
    return times[1:]


def time_tiles(client: httpx.Client, count: int) -> list[float]:
    """Return milliseconds of tiles of the finest level that were not asked for before."""
    times: list[float] = []
    for slide in client.get("/api/slides", params={"limit": 200}).json()["slides"]:
        image = client.get(f"/api/slides/{slide['key']}").json()["image"]
        across, down = -(-image["width"] // image["tile"]), -(-image["height"] // image["tile"])
        for at in range(across * down):
            path = f"/api/slides/{slide['key']}/tiles/{image['levels'] - 1}/{at % across}/{at // across}"
            started = time.perf_counter()
            client.get(path).raise_for_status()
            times.append(1000 * (time.perf_counter() - started))
            if len(times) >= count:
                return times
    return times


async def flood(running: Address, path: str, count: int) -> Counter[str]:
    """Ask for one tile `count` times at once, each over a connection of its own; return the outcomes."""
    head = f"host: 127.0.0.1:{running.port}\r\nauthorization: Bearer {running.token}\r\nconnection: close\r\n\r\n"

    async def one() -> str:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            writer.write(f"GET {path} HTTP/1.1\r\n{head}".encode())
            status = (await reader.readline()).split()[1].decode()
            await reader.read()
            writer.close()
            return status
        except (OSError, IndexError):
            return "refused"

    return Counter(await asyncio.gather(*(one() for _ in range(count))))


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server answers."""

    url: str
    origin: str
    token: str

    @property
    def port(self) -> int:
        """The port of the origin."""
        return int(self.origin.rpartition(":")[2])


@contextmanager
def started_server(folder: Path) -> Iterator[Address]:
    """Run `slideseek serve` in a process of its own, as a person does."""
    command = [sys.executable, "-m", "slideseek", "serve", str(folder), "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None:
            raise RuntimeError("the server has no output")
        yield Address(**json.loads(process.stdout.readline()))
    finally:
        process.terminate()
        process.wait(timeout=60)


@contextmanager
def archive_or_demo(folder: Path | None) -> Iterator[Path]:
    """Yield the archive given, or a demonstration made for the occasion."""
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory() as made:
        try:
            slideseek(["demo", "--dir", f"{made}/demo"])
        except SystemExit as done:
            if done.code:
                raise
        yield Path(made) / "demo"


def run(folder: Path, clicks: int, tiles: int, requests: int) -> None:
    """Measure one archive and print what was found."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with started_server(folder) as running:
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=program, args=FLAGS)
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(running.url)
            hits = time_hits(page, running, clicks)
            browser.close()
        headers = {"authorization": f"Bearer {running.token}"}
        with httpx.Client(base_url=running.origin, headers=headers, trust_env=False, timeout=60) as client:
            times = sorted(time_tiles(client, tiles))
            key = client.get("/api/slides").json()["slides"][0]["key"]
            began = time.perf_counter()
            outcomes = asyncio.run(flood(running, f"/api/slides/{key}/tiles/8/0/0", requests))
            seconds = time.perf_counter() - began
            alive = client.get("/api/archive").status_code
    print(f"hits on screen: median {statistics.median(hits):.0f} ms, worst {max(hits):.0f} ms of {len(hits)} clicks")
    print(f"tiles, not cached: median {statistics.median(times):.1f} ms, p95 {times[int(0.95 * len(times))]:.1f} ms")
    told = ", ".join(f"{count} x {status}" for status, count in sorted(outcomes.items()))
    print(f"{requests} tiles at once: {told} in {seconds:.1f} s; afterwards the server answers {alive}")


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("archive", nargs="?", type=Path, help="a built archive (default: the demonstration, made now)")
    parser.add_argument("--clicks", type=int, default=12)
    parser.add_argument("--tiles", type=int, default=300)
    parser.add_argument("--requests", type=int, default=10_000)
    arguments = parser.parse_args()
    with archive_or_demo(arguments.archive) as folder:
        run(folder, arguments.clicks, arguments.tiles, arguments.requests)


if __name__ == "__main__":
    main()
