"""A toy archive whose features are given, so that a slide costs next to nothing."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from slideseek.archive.archive import Archive
from slideseek.archive.removing import remove_slides
from slideseek.archive.slide_table import SlideRow
from slideseek.building.build import Builder, BuildOptions
from slideseek.digests import digest
from slideseek.engine import make_engines
from slideseek.plugins import load_registry
from slideseek.searching.searcher import Searcher
from slideseek.types import Bag, Patches, SlideRecord
from slideseek_apps.interchange.imported_engine import SetSettings
from slideseek_apps.interchange.patch_places import Placed
from slideseek_apps.interchange.store_imported import store_imported

WIDTH = 24
ENGINE = """
[[engine]]
name       = "toy"
selector   = {{ use = "imported", set = "toy" }}
featurizer = {{ use = "imported", set = "toy", width = 24 }}
encoder    = {{ use = "{encoder}" }}
index      = {{ {index} }}
"""


class Silent:
    """A reporter that keeps the notes."""

    def __init__(self):
        self.notes = []

    def phase(self, name, total, brief=False): ...

    def skip(self, slide_ids): ...

    def begin(self, slide_id): ...

    def slide(self, report): ...

    def epoch(self, engine, metrics): ...

    def note(self, text):
        self.notes.append(text)


class ToyArchive:
    """An archive that is opened anew for every step, as by one command after the other."""

    def __init__(self, root: Path, encoder: str, index: str) -> None:
        self.root = root
        self.registry = load_registry()
        Archive.create(root, ENGINE.format(encoder=encoder, index=index)).close()

    def put(self, slide_id: str, seed: int, rows: int = 3) -> None:
        """Add a slide, or change it: its features are drawn from the seed."""
        features = np.random.default_rng(seed).normal(size=(rows, WIDTH)).astype(np.float32)
        patches = Patches.at(slide_id, np.arange(2 * rows).reshape(rows, 2), 8, 1.0)
        record = SlideRecord(slide_id, f"{slide_id}.h5", patient=slide_id, site="s", fields={"seed": str(seed)})
        slide = SlideRow(record, digest([slide_id, seed]), 1, 1)
        settings = SetSettings.of(self.registry, "toy", WIDTH)
        with Archive(self.root) as archive, archive.writing():
            store_imported(
                archive, settings, slide, Bag(slide_id, features, patches.xy, "s"), Placed(patches, 1.0), True
            )

    def remove(self, slide_id: str) -> None:
        """Remove a slide."""
        with Archive(self.root) as archive, archive.writing():
            remove_slides(archive, [slide_id])

    def build(self, **options: Any) -> list[str]:
        """Build and return what was said."""
        reporter = Silent()
        with Archive(self.root) as archive:
            engines = make_engines(archive.config.engines, self.registry)
            Builder(archive, engines, reporter, BuildOptions(**options)).run()
        return reporter.notes

    def searcher(self, archive: Archive) -> Searcher:
        """Return a searcher of an open archive."""
        return Searcher.open(archive, "toy", self.registry)


@pytest.fixture
def toy(tmp_path):
    """Make a toy archive: `toy(encoder, index options)`."""
    made = iter(range(10_000))

    def make(encoder: str = "yottixel", index: str = 'use = "hamming"') -> ToyArchive:
        return ToyArchive(tmp_path / f"toy{next(made)}", encoder, index)

    return make


@pytest.fixture(scope="session")
def growth() -> ModuleType:
    """The module `bench/archive_growth.py`, which makes large archives quickly."""
    path = Path(__file__).resolve().parents[3] / "bench" / "archive_growth.py"
    spec = importlib.util.spec_from_file_location("archive_growth", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
