"""Make the archive of the paper's experiment: its slides where they lie, and their mosaics and features."""

from __future__ import annotations

from pathlib import Path

from slideseek.api import OpenArchive, create_archive, open_archive
from slideseek.archive.adding import add_slides
from slideseek.cli import EXIT_FAILED_SLIDES
from slideseek.cli.output import say_problem
from slideseek.cli.progress import counting, make_reporter
from slideseek.config import CONFIG_NAME, default_config
from slideseek_apps.bench.paper_slides import PaperSlides

PRESET = "paper"


def build_archive(folder: Path, slides: PaperSlides) -> int:
    """Make or open the archive, add what is missing, and build it; return the exit code of the build."""
    with _opened(folder) as archive:
        with archive.archive.writing(), counting("adding", len(slides.records)) as advance:
            added = add_slides(archive.archive, [], slides.manifest(), on_slide=advance)
        for problem in added.problems:
            say_problem(problem.subject, problem.cause, problem.fix)
        with make_reporter() as reporter:
            reporter.loading("engines")
            summary = archive.build(reporter=reporter)
    return EXIT_FAILED_SLIDES if added.problems or summary.failures else 0


def _opened(folder: Path) -> OpenArchive:
    """Open the archive, or create it with the mosaics of the paper. Another configuration in it is respected."""
    if (folder / CONFIG_NAME).is_file():
        return open_archive(folder)
    return create_archive(folder, default_config(PRESET))
