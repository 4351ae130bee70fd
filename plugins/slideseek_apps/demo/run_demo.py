"""The demo: generated slides, an archive of them, a search and a report, without any download."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from slideseek.archive.adding import add_slides
from slideseek.archive.archive import Archive
from slideseek.archive.files import write_text
from slideseek.archive.manifest import read_manifest
from slideseek.building.build import Builder
from slideseek.building.reporting import BuildSummary, Reporter
from slideseek.config import CONFIG_NAME
from slideseek.engine import make_engines
from slideseek.errors import SlideseekError, UsageError
from slideseek.searching.searcher import Answer, Searcher
from slideseek.slides.discovery import find_slides
from slideseek_apps.demo.histology import demo_slides, write_demo
from slideseek_apps.demo.leave_one_out import accuracy, leave_one_patient_out, majority_class_rate
from slideseek_apps.reports.report_page import TextTable, render_report
from slideseek_apps.reports.search_report import search_report

REPORT_NAME = "report.html"
MARK_NAME = ".slideseek-demo"
"""Marks a folder made by the demo. The demo writes to no other folder that is not empty."""

DEMO_CONFIG = """\
# The engines of the demo. The generated slides are 1 mm wide: patches of 128 µm keep it quick.

[[engine]]
name       = "yottixel"
selector   = { use = "mosaic", size = 256, mpp = 0.5, percent = 15 }
featurizer = { use = "efficientnet-lite2" }
encoder    = { use = "yottixel" }
index      = { use = "hamming" }

[[engine]]
name       = "mean"
selector   = { use = "mosaic", size = 256, mpp = 0.5, percent = 15 }
featurizer = { use = "efficientnet-lite2" }
encoder    = { use = "mean" }
index      = { use = "cosine" }
"""


@dataclass(slots=True)
class DemoResult:
    """The results of the demo.

    accuracies: by engine, (accuracy of the majority-3 vote, accuracy of a constant answer per site).
    """

    answer: Answer
    itself: Answer
    report: Path
    build: BuildSummary
    accuracies: dict[str, tuple[float, float]]
    seconds: dict[str, float] = field(default_factory=dict)


def run_demo(
    folder: Path, reporter: Reporter, patients: int = 6, progress: Callable[[str], None] = lambda _: None
) -> DemoResult:
    """Generate slides in `folder`/slides, build the archive `folder`, search it and write the report.

    A second run in the same folder reuses what is there.
    """
    seconds: dict[str, float] = {}

    @contextmanager
    def step(name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        seconds[name] = time.perf_counter() - started

    if folder.exists() and any(folder.iterdir()) and not (folder / MARK_NAME).exists():
        raise UsageError(f"{folder} is not empty and was not made by the demo", "choose a new folder with --dir")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK_NAME).touch()
    with step("generate"):
        manifest = folder / "slides" / "manifest.csv"
        if not manifest.exists() or len(read_manifest(manifest).rows) != len(demo_slides(patients)):
            write_demo(folder / "slides", patients=patients, on_slide=progress)
    with Archive(folder) if (folder / CONFIG_NAME).exists() else Archive.create(folder, DEMO_CONFIG) as archive:
        with step("add"), archive.writing():
            added = add_slides(archive, find_slides([folder / "slides"]), (manifest, read_manifest(manifest)))
            if added.problems:
                raise SlideseekError(f"{added.problems[0].subject}: {added.problems[0].cause}", added.problems[0].fix)
        engines = make_engines(archive.config.engines, archive.registry())
        with step("build"):
            build = Builder(archive, engines, reporter).run()
        searchers = {engine.name: Searcher(archive, engine) for engine in engines}
        with step("evaluate"):
            accuracies = {}
            for name, searcher in searchers.items():
                verdicts = leave_one_patient_out(searcher, "vertical", k=3)
                accuracies[name] = accuracy(verdicts), majority_class_rate(verdicts)
        searcher = next(iter(searchers.values()))
        query = searcher.queries.stored(sorted(searcher.index.ids)[0])
        with step("search"):
            answer = searcher.search(query, k=5, mode="vertical")
        itself = searcher.search(query, k=1, include_same_patient=True)
        with step("report"):
            table = TextTable(
                "Vertical search, leave one patient out, majority of the 3 nearest",
                ("engine", "correct", "always the most common diagnosis of the site"),
                [(name, f"{right:.1%}", f"{constant:.1%}") for name, (right, constant) in accuracies.items()],
            )
            answers = [s.search(s.queries.stored(query.record.id), 5, "vertical") for s in searchers.values()]
            page = search_report(archive, engines, answers, "slideseek demo", [table])
            path = folder / REPORT_NAME
            write_text(path, render_report(page))
    return DemoResult(answer, itself, path, build, accuracies, seconds)
