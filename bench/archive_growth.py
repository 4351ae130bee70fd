"""Measure what one slide more or less costs a large archive: `python -m bench.archive_growth [--slides N]`.

Makes an archive of synthetic slides through the catalogue's own interface (records, stages, codes, empty feature
files), then adds, builds, searches and removes one real slide. Prints CPU seconds of each step in this process, without
loading Python modules. `--engine mean` has float codes in `cosine`, `--engine bars` sets of barcodes in `hamming`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

from slideseek.archive.adding import StatedMpp, add_slides
from slideseek.archive.archive import Archive
from slideseek.archive.payloads import pack_code
from slideseek.archive.records import Payload, Stage, StageRecord
from slideseek.archive.removing import remove_slides
from slideseek.archive.slide_table import SlideRow
from slideseek.building import index_saving
from slideseek.building.build import Builder
from slideseek.building.index_saving import save_index
from slideseek.building.reporting import SlideReport
from slideseek.digests import digest
from slideseek.engine import Engine, make_engine
from slideseek.indexing.live_index import open_engine
from slideseek.indexing.stage_cache import StageCache, feature_folder
from slideseek.plugins import Registry, load_registry
from slideseek.searching.searcher import Answer, Searcher
from slideseek.types import Code, SlideRecord

CONFIG = """
[[engine]]
name       = "{name}"
selector   = {{ use = "grid", size = 64, mpp = 1.0 }}
featurizer = {{ use = "colour-texture" }}
encoder    = {{ use = "{encoder}" }}
index      = {{ use = "{index}" }}
"""
ENGINES = {"bars": ("yottixel", "hamming"), "mean": ("mean", "cosine")}
NEW = "the-new-one"


class Silent:
    """A reporter that says nothing."""

    def phase(self, name: str, total: int, brief: bool = False) -> None: ...

    def skip(self, slide_ids: Sequence[str]) -> None: ...

    def begin(self, slide_id: str) -> None: ...

    def slide(self, report: SlideReport) -> None: ...

    def epoch(self, engine: str, metrics: Mapping[str, float]) -> None: ...

    def note(self, text: str) -> None: ...


def synthetic_archive(root: Path, name: str, count: int) -> None:
    """Make an archive of `count` slides that are featurized and encoded, as far as its catalogue can tell."""
    encoder, index = ENGINES[name]
    registry = load_registry()
    with Archive.create(root, CONFIG.format(name=name, encoder=encoder, index=index)) as archive:
        engine = make_engine(archive.config.engine(name), registry)
        stages, rng = StageCache(archive, print), np.random.default_rng(0)
        folder = archive.root / feature_folder(engine.feature_digest)
        folder.mkdir(parents=True)
        with archive.catalog.transaction():
            for number in range(count):
                _put_slide(stages, engine, number, rng)
                (folder / f"{_name(number)}.h5").touch()


def _name(number: int) -> str:
    return f"s{number:07d}"


def _put_slide(stages: StageCache, engine: Engine, number: int, rng: np.random.Generator) -> None:
    name, catalog = _name(number), stages.catalog
    record = SlideRecord(
        *(name, f"slides/{name}.svs", f"p{number // 2:06d}", f"site{number % 30}", f"label{number % 60}"),
        center=f"c{number % 40}",
        mpp=1.0,
        fields={"age": str(30 + number % 60), "note": name},
    )
    slide = SlideRow(record, digest(["synthetic", number]), 1, 1)
    catalog.slides.put(slide)
    shape = (1 + number % 4 if engine.spec.many else 1, engine.spec.width)
    if engine.spec.kind == "bits":
        code = Code(name, np.packbits(rng.random((shape[0], engine.spec.width)) < 0.5, axis=1))
    else:
        code = Code(name, rng.normal(size=shape).astype(np.float32))
    file = f"{feature_folder(engine.feature_digest)}/{name}.h5"
    keys = {stage: stages.key(engine, stage, slide) for stage in _STAGES}
    payloads = (
        Payload(keys["select"], "patches", {"n": 1, "size": 64, "slide_mpp": 1.0}, "", data=bytes(16)),
        Payload(keys["featurize"], "features", {"n": 1, "width": 1}, "", file=file),
        pack_code(keys["encode"], code, engine.spec),
    )
    for stage, payload in zip(_STAGES, payloads, strict=True):
        catalog.put_payload(payload)
        catalog.put_stage(StageRecord(name, stage, stages.settings_digest(engine, stage), keys[stage], "done"))


_STAGES: tuple[Stage, ...] = ("select", "featurize", "encode")


def paint(path: Path) -> None:
    """Draw a small stained-looking slide."""
    rng = np.random.default_rng(1)
    texture = np.kron(rng.random((20, 20)), np.ones((16, 16)))[..., None]
    pixels = np.array([225.0, 150.0, 190.0]) * (1 - texture) + np.array([110.0, 60.0, 140.0]) * texture
    Image.fromarray(pixels.astype(np.uint8)).save(path)


def build(archive: Archive, registry: Registry) -> None:
    """Build the archive's engines."""
    Builder(archive, [make_engine(config, registry) for config in archive.config.engines], Silent()).run()


@contextmanager
def cpu(step: str) -> Iterator[None]:
    """Print the CPU seconds of the block."""
    began = time.process_time()
    yield
    print(f"  {step:48} {time.process_time() - began:8.3f} s", flush=True)


def _warm_up(root: Path, name: str, slide: Path) -> None:
    """Do everything once in a small archive, so that loading modules is not measured."""
    synthetic_archive(root, name, 10)
    with Archive(root) as archive:
        add_slides(archive, [slide], stated=StatedMpp(1.0))
        build(archive, load_registry())
        found = Searcher.open(archive, name)
        found.search(found.query(NEW))


def measure(root: Path, name: str, slide: Path) -> None:
    """Print what each step costs."""
    registry = load_registry()

    def searcher(archive: Archive) -> Searcher:
        return Searcher.open(archive, name, registry)

    def ask(found: Searcher, **options: object) -> Answer:
        return found.search(found.query(_name(7)), k=10, **options)  # type: ignore[arg-type]

    with Archive(root) as archive, archive.writing(), cpu("first build: save the index of all codes"):
        save_index(
            archive, open_engine(archive, archive.config.engine(name), registry), StageCache(archive, print), print
        )
    with cpu("build with nothing to do"), Archive(root) as archive:
        build(archive, registry)
    with cpu("open"), Archive(root) as archive:
        searcher(archive)
    with Archive(root) as archive:
        opened = searcher(archive)
        for step, options in _SEARCHES.items():
            with cpu(f"search, {step}"):
                ask(opened, **options)
        with cpu("search again"):
            ask(opened)
    with cpu("add one slide"), Archive(root) as archive, archive.writing():
        add_slides(archive, [slide], stated=StatedMpp(1.0))
    with cpu("build it"), Archive(root) as archive:
        build(archive, registry)
    with cpu("open, with one change, and find it"), Archive(root) as archive:
        found = searcher(archive)
        assert found.search(found.query(NEW), 1, include_same_patient=True).found[0].hit.slide_id == NEW
    with cpu("remove it"), Archive(root) as archive, archive.writing():
        remove_slides(archive, [NEW])
    with cpu("open and search"), Archive(root) as archive:
        found = searcher(archive)
        assert NEW not in found.index.ids
        ask(found)
    index_saving.CHANGED_SHARE = 0.0
    with cpu("build that saves the whole index again"), Archive(root) as archive:
        build(archive, registry)
    with Archive(root) as archive:
        assert NEW not in searcher(archive).index.ids


_SEARCHES: dict[str, dict[str, object]] = {
    "other patients": {},
    "vertical": {"mode": "vertical"},
    "where label=label7": {"where": ["label=label7"]},
    "where age>=60": {"where": ["age>=60"]},
}


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--slides", type=int, default=100_000)
    parser.add_argument("--engine", choices=sorted(ENGINES), default="bars")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slideseek-growth-") as folder:
        root, slide = Path(folder) / "archive", Path(folder) / f"{NEW}.png"
        paint(slide)
        _warm_up(Path(folder) / "small", given.engine, slide)
        began = time.process_time()
        synthetic_archive(root, given.engine, given.slides)
        print(f"{given.slides:,} slides, made in {time.process_time() - began:.0f} s of CPU; CPU time of:")
        measure(root, given.engine, slide)


if __name__ == "__main__":
    main()
