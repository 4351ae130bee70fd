"""Featurizing real slides against the same model fed from memory, and memory over many slides.

    python -m bench.featurize [--data DIR] [--slides N]

Prints one ratio: patches a second of a build (open, select, read, decode, featurize, store) over patches a second of
the same featurizer given the same images from memory, in the same run. Then builds many generated slides and prints
the slope of resident memory a slide. Seconds differ from machine to machine; the ratio and the slope are what counts.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from slideseek.archive.adding import add_slides
from slideseek.archive.archive import Archive
from slideseek.archive.manifest import read_manifest
from slideseek.building.build import Builder, BuildOptions
from slideseek.building.reporting import SlideReport
from slideseek.config import EngineConfig, default_config, parse_config
from slideseek.engine import Engine, make_engine
from slideseek.plugins import load_registry
from slideseek.slides.discovery import find_slides
from slideseek.slides.patch_images import patch_images
from slideseek.slides.reader import open_slide
from slideseek.types import UInt8
from slideseek_apps.demo.histology import demo_slides, paint, write_slide

MEMORY_CONFIG = (
    default_config("paper").replace("size = 1000", "size = 128").replace("efficientnet-lite2", "efficientnet-lite0")
)


class Quiet:
    """A reporter that keeps resident memory after each slide and says nothing."""

    def __init__(self) -> None:
        self.resident: list[float] = []

    def phase(self, name: str, total: int, brief: bool = False) -> None: ...

    def skip(self, slide_ids: Sequence[str]) -> None: ...

    def begin(self, slide_id: str) -> None: ...

    def slide(self, report: SlideReport) -> None:
        self.resident.append(resident_megabytes())

    def epoch(self, engine: str, metrics: Mapping[str, float]) -> None: ...

    def note(self, text: str) -> None: ...


def resident_megabytes() -> float:
    """Return the resident memory of this process (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def from_memory(engine: Engine, archive: Archive) -> tuple[int, float]:
    """Return patches and seconds of featurizing images that are in memory already."""
    chunks: list[UInt8] = []
    for row in archive.catalog.slides:
        with open_slide(archive.slide_path(row.record), row.id, row.record.mpp) as slide:
            patches = engine.select(slide)
            chunks += [images for _, images in patch_images(slide, patches, engine.read_side(patches))]
    engine.features(chunks[0])  # the network is loaded and warm
    started = time.perf_counter()
    for images in chunks:
        engine.features(images)
    return sum(map(len, chunks)), time.perf_counter() - started


def throughput(data: Path, folder: Path, workers: int) -> float:
    """Return the ratio of a build's throughput to that of the same model fed from memory."""
    engine = make_engine(_grid_config(), load_registry())
    with Archive.create(folder / "real", default_config()) as archive:
        manifest = data / "slides-atlas" / "slides.csv"
        files = find_slides([data / "slides-atlas"])
        add_slides(archive, files, (manifest, read_manifest(manifest)))
        count, memory = from_memory(engine, archive)
        started = time.perf_counter()
        Builder(archive, [engine], Quiet(), BuildOptions(workers=workers)).run()
        build = time.perf_counter() - started
    print(f"{count} patches: {count / memory:.1f} a second from memory, {count / build:.1f} a second from slides")
    return memory / build


def _grid_config() -> EngineConfig:
    text = default_config("paper").replace(
        'use = "mosaic", size = 1000, mpp = 0.5, percent = 15', 'use = "grid", size = 448, mpp = 0.5'
    )
    return parse_config(text).engine()


def memory_slope(folder: Path, slides: int) -> float:
    """Return the growth of resident memory in MB a slide, by least squares over the last two thirds of a build."""
    (folder / "slides").mkdir(parents=True)
    plan = demo_slides(patients=-(-slides // 4))[:slides]
    for slide in plan:
        write_slide(folder / "slides" / f"{slide.record.id}.svs", paint(slide, 512))
    with Archive.create(folder / "many", MEMORY_CONFIG) as archive:
        add_slides(archive, find_slides([folder / "slides"]))
        watch = Quiet()
        Builder(archive, [make_engine(archive.config.engine(), load_registry())], watch).run()
    resident = np.array(watch.resident[slides // 3 : slides])
    return float(np.polyfit(np.arange(len(resident)), resident, 1)[0])


def main() -> None:
    """Print the ratio and the slope."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--slides", type=int, default=100, help="generated slides for the memory slope")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"slides / memory: {throughput(options.data, folder, options.workers):.1%} (target: at least 90 %)")
        print(f"memory: {memory_slope(folder, options.slides):+.3f} MB a slide over {options.slides} (target: under 1)")


if __name__ == "__main__":
    main()
