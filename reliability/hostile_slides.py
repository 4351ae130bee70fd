"""Slide files that crash, hang or balloon their decoder: each is one line of the report, and the build goes on."""

from __future__ import annotations

import io
import json
import os
import resource
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from reliability.row import Effort, Figure, Row
from slideseek.cli import EXIT_FAILED_SLIDES
from slideseek.types import UInt8

MEMORY_MIB = 1024
"""Limit for the processes that decode, in MiB."""

READER = '''
"""A reader whose files say what goes wrong in it, as it may in any decoder."""
import ctypes, os, signal, sys, time
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from PIL import Image
from slideseek.interfaces import Reader
from slideseek_components.pixels.levels import Level
from slideseek_components.pixels.pyramid import PyramidSlide
from slideseek_components.pixels.resolution import resolve


def fault(what):
    match what:
        case "segfault":
            ctypes.string_at(0)
        case "abort":
            os.abort()
        case "bus error":
            os.kill(os.getpid(), signal.SIGBUS)
        case "illegal instruction":
            os.kill(os.getpid(), signal.SIGILL)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(0)
        case "exit with a status":
            os._exit(3)
        case "spin":
            while True:
                pass
        case "balloon":
            held = []
            while True:
                held.append(np.ones(2**24))
        case "balloon in C":
            libc = ctypes.CDLL(None)
            libc.malloc.restype = ctypes.c_void_p
            while (at := libc.malloc(ctypes.c_size_t(2**26))):
                ctypes.memset(at, 1, 2**26)
            os.abort()
        case "close all files":
            os.closerange(3, 256)
            time.sleep(1)
        case "recursion":
            fault(what)
        case "garbage":
            for number in range(3, 64):
                try:
                    os.write(number, b"\\xff" * 4096)
                except OSError:
                    pass


@dataclass(frozen=True)
class FaultReader(Reader):
    rank: ClassVar[int] = 1

    def claims(self, path, head):
        return head.startswith(b"FAULT ")

    def open(self, path, slide_id, mpp):
        when, _, what = path.read_text().removeprefix("FAULT ").partition(" ")
        if when == "open":
            fault(what)
        slide = FaultSlide(slide_id, [Level(2048, 2048, 1.0)], resolve({}, 0.5, slide_id), format="fault")
        slide.what = what
        return slide


class FaultSlide(PyramidSlide):
    def _read_level(self, level, xy, size):
        fault(self.what)
        return Image.new("RGB", size, (180, 90, 150))
'''

FAULTS = (
    *("segfault", "abort", "bus error", "illegal instruction", "killed", "exit", "exit with a status", "spin"),
    *("balloon", "balloon in C", "close all files", "recursion", "garbage"),
)
CONFIG = """
[[engine]]
name       = "parts"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.2 }
featurizer = { use = "colour-texture" }
encoder    = { use = "mean" }
index      = { use = "cosine" }
"""


def levelless_tiff(path: Path, side: int = 199_936, tile: int = 256, jpeg: bytes = b"") -> None:
    """Write a tiled TIFF without levels: 40 gigapixels in 5 MB, since all tiles are the same one.

    jpeg: the tile; by default one that looks like tissue.
    """
    if not jpeg:
        buffer = io.BytesIO()
        Image.fromarray(tissue(tile)).save(buffer, "JPEG", quality=50, subsampling=0)
        jpeg = buffer.getvalue()
    count = (side // tile) ** 2
    offsets = 8 + len(jpeg) + len(jpeg) % 2
    counts, resolution = offsets + 4 * count, offsets + 8 * count
    tags = [
        *((256, 4, 1, side), (257, 4, 1, side), (258, 3, 1, 8), (259, 3, 1, 7), (262, 3, 1, 6), (277, 3, 1, 3)),
        *((282, 5, 1, resolution), (283, 5, 1, resolution), (296, 3, 1, 3), (322, 4, 1, tile), (323, 4, 1, tile)),
        *((324, 4, count, offsets), (325, 4, count, counts), (530, 3, 2, 0x00010001)),
    ]
    with path.open("wb") as file:
        file.write(struct.pack("<2sHI", b"II", 42, resolution + 8) + jpeg + b"\0" * (len(jpeg) % 2))
        file.write(np.full(count, 8, "<u4").tobytes() + np.full(count, len(jpeg), "<u4").tobytes())
        file.write(struct.pack("<II", 20_000, 1) + struct.pack("<H", len(tags)))
        for tag in tags:
            file.write(struct.pack("<HHII", *tag))
        file.write(struct.pack("<I", 0))


def tissue(side: int) -> UInt8:
    """Return RGB uint8 (side, side, 3) with the colours of stained tissue."""
    noise = np.random.default_rng(0).integers([150, 60, 120], [230, 130, 190], (side, side, 3))
    return noise.astype(np.uint8)


def png(width: int, height: int, raw: bytes, depth: int = 8, colour: int = 0) -> bytes:
    """Return a PNG of any stated size, with `raw` as what its pixels decompress to."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    dots = part(b"pHYs", struct.pack(">IIB", 2_000_000, 2_000_000, 1))
    pixels = part(b"IDAT", zlib.compress(raw, 9))
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + dots + pixels + part(b"IEND", b"")


def write_hostile(folder: Path) -> list[str]:
    """Write 30 files and return their names: 17 name a fault, 13 are made for the decoders that are bundled."""
    folder.mkdir(parents=True)
    for what in FAULTS:
        (folder / f"open {what}.svs").write_text(f"FAULT open {what}")
    for what in ("segfault", "spin", "balloon", "exit"):
        (folder / f"read {what}.svs").write_text(f"FAULT read {what}")
    good = io.BytesIO()
    Image.fromarray(tissue(256)).save(good, "JPEG", quality=50, subsampling=0)
    sound = bytearray(good.getvalue())
    rng = np.random.default_rng(1)
    for number in range(4):  # a tile whose bytes are damaged behind the header
        damaged = bytearray(sound)
        for at in rng.integers(300, len(damaged), 200):
            damaged[at] = int(rng.integers(0, 256))
        levelless_tiff(folder / f"damaged tile {number}.tif", 2048, jpeg=bytes(damaged[: len(damaged) // (number + 1)]))
    levelless_tiff(folder / "tile smaller than stated.tif", 4096, 1024, jpeg=bytes(sound))
    huge = bytearray(sound)
    at = huge.index(b"\xff\xc0")
    huge[at + 5 : at + 9] = struct.pack(">HH", 65_500, 65_500)
    levelless_tiff(folder / "tile larger than stated.tif", 2048, jpeg=bytes(huge))
    levelless_tiff(folder / "tile of zeros.tif", 2048, jpeg=bytes(400))
    (folder / "more pixels than allowed.png").write_bytes(png(60_000, 60_000, bytes(10**6)))
    (folder / "fewer pixels than stated.png").write_bytes(png(13_000, 13_000, bytes(1000), 1))
    (folder / "cut off.tif").write_bytes((folder / "damaged tile 0.tif").read_bytes()[:5000])
    loop = struct.pack("<2sHIH", b"II", 42, 8, 1) + struct.pack("<HHII", 256, 4, 1, 100) + struct.pack("<I", 8)
    (folder / "pages in a circle.tif").write_bytes(loop)
    many = struct.pack("<2sHI", b"II", 42, 8) + struct.pack("<H", 65_535) + bytes(4096)
    (folder / "more tags than bytes.tif").write_bytes(many)
    (folder / "counts beyond the file.tif").write_bytes(
        struct.pack("<2sHIH", b"II", 42, 8, 1) + struct.pack("<HHII", 324, 4, 2**32 - 1, 8) + struct.pack("<I", 0)
    )
    return sorted(file.name for file in folder.iterdir())


def install_reader(site: Path) -> None:
    """Install the reader of faults, as a package of its own."""
    info = site / "slideseek_faults-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slideseek-faults\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[slideseek]\nfaults = slideseek_faults_plugin\n")
    (site / "slideseek_faults.py").write_text(READER)
    (site / "slideseek_faults_plugin.py").write_text(
        "from slideseek.hookspecs import hookimpl\n\n\n@hookimpl\ndef register_readers(register):\n"
        "    register('faults', 'slideseek_faults:FaultReader', 'faults on purpose')\n"
    )


def run(effort: Effort) -> Iterator[Figure]:
    """Build an archive of 30 hostile slides and three sound ones."""
    slides, archive, site = effort.work / "slides", effort.work / "archive", effort.work / "site"
    names = write_hostile(slides)
    install_reader(site)
    for number in range(3):
        Image.fromarray(np.roll(tissue(1024), 100 * number, 0)).save(
            slides / f"sound {number}.png", dpi=(50_800, 50_800)
        )
    config = effort.work / "engines.toml"
    config.write_text(CONFIG)
    environment = {
        **os.environ,
        "PYTHONPATH": str(site),
        "SLIDESEEK_SLIDE_MEMORY": str(MEMORY_MIB),
        "SLIDESEEK_SLIDE_SECONDS": "2",
    }

    def command(*words: object) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "slideseek", *map(str, words)]
        return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=600)

    command("init", archive, "--config", config)
    command("add", slides, "-a", archive, "--mpp", "0.5")
    begun = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    built = command("build", "-a", archive, "--json")
    seconds = time.monotonic() - begun
    peak = max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) // 1024
    found = command("search", "sound 0", "-a", archive, "--json")
    try:
        failed = json.loads(built.stdout)["failures"]
    except (ValueError, KeyError):
        failed = {}
    explained = [name for name in names if (one := failed.get(Path(name).stem)) and one["cause"] and one["fix"]]
    lost = [name for name in names if name not in explained]
    met = (
        not lost
        and built.returncode == EXIT_FAILED_SLIDES
        and found.returncode == 0
        and "Traceback" not in built.stderr
    )
    yield Figure(
        "30 hostile slides and 3 sound ones in one build",
        len(names),
        {
            "one line each, with cause and fix": len(explained),
            "sound slides searchable": 3 if found.returncode == 0 else 0,
            "seconds": seconds,
            "largest process, MiB": peak,
        },
        met,
        examples=(*lost[:5], built.stderr[-2000:]) if not met else (),
    )


ROW = Row(
    "hostile_slides",
    "Hostile slides",
    "30 files that crash, hang or balloon their decoder: the build goes on, one line each",
    run,
)
