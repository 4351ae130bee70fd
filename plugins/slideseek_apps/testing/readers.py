"""The checks for readers. What a reader reads is checked with a file of its format, which the author gives."""

from __future__ import annotations

import functools
import math
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from slideseek.errors import SlideseekError
from slideseek.interfaces import OpenedSlide
from slideseek.slides.slide_errors import first_bytes
from slideseek.types import UInt8
from slideseek_apps.testing.checks import Check, Make, demand, prepared, require_error
from slideseek_apps.testing.components import component_checks

STATED_MPP = 0.37
"""µm per pixel that no file is likely to state."""


def reader_checks(file: Path | None = None) -> tuple[Check, ...]:
    """Return all checks for a reader. file: a small slide of its format; without it, nothing is opened."""
    general = component_checks("reader") + prepared(rank_is_a_whole_number, other_files_are_left_alone)
    if file is None:
        return general
    return general + prepared(
        file_is_claimed,
        file_is_opened_as_a_slide,
        stated_resolution_is_used,
        same_file_same_pixels,
        several_threads_read_alike,
        truncated_file_is_refused,
        file=Path(file),
    )


def rank_is_a_whole_number(make: Make) -> None:
    """`rank` is a whole number: the reader's place in the order they are asked in."""
    rank = make().rank
    demand(type(rank) is int, repr(rank), "write rank: ClassVar[int] = 500")


def other_files_are_left_alone(make: Make) -> None:
    """A text file and an empty one are not claimed, or `open` raises SlideseekError for them."""
    reader = make()
    with tempfile.TemporaryDirectory() as folder:
        for text in (b"", b"slide,patient\nS-001,P-001\n"):
            path = Path(folder) / "notes.csv"
            path.write_bytes(text)
            claimed = reader.claims(path, text)
            fix = "compare the first bytes of the file with those of the format, and return a bool"
            demand(isinstance(claimed, bool), f"{claimed!r} for a file that begins with {text[:13]!r}", fix)
            if claimed:
                fix = "do not claim it, or raise DeclinedError, so that the next reader is asked"
                refuse = functools.partial(reader.open, path, "notes", 0.5)
                require_error(refuse, (SlideseekError,), f"for a file that begins with {text[:13]!r}", fix)


def file_is_claimed(make: Make, file: Path) -> None:
    """The reader claims the given file, also under another name in another folder."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / f"another{file.suffix}"
        copy.write_bytes(file.read_bytes())
        for path in (file, copy):
            claimed = make().claims(path, first_bytes(path))
            demand(claimed is True, f"{claimed!r} for {path.name}", "check the first bytes and the ending only")


def file_is_opened_as_a_slide(make: Make, file: Path) -> None:
    """`open` returns a slide with the given id, a size and a resolution in µm per pixel."""
    with make().open(file, "a-slide", 0.5) as slide:
        fix = "return a PyramidSlide, such as an ArraySlide"
        demand(isinstance(slide, OpenedSlide), type(slide).__name__, fix)
        demand(slide.id == "a-slide", f"the id {slide.id!r}", "pass slide_id to the slide")
        demand(min(slide.dimensions) > 0, f"a slide of {slide.dimensions} pixels", "state the size of level 0")
        passed = math.isfinite(slide.mpp) and slide.mpp > 0
        demand(passed, f"{slide.mpp} µm per pixel", "use slideseek_components.pixels.resolution.resolve")
        image = slide.thumbnail(64)
        passed = image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3
        demand(passed, f"a thumbnail {image.dtype} {image.shape}", "return RGB images from _read_level")


def stated_resolution_is_used(make: Make, file: Path) -> None:
    """A resolution that the user states overrides that of the file."""
    with make().open(file, "a-slide", STATED_MPP) as slide:
        passed = math.isclose(slide.mpp, STATED_MPP, rel_tol=1e-6)
        demand(passed, f"{slide.mpp} µm per pixel where {STATED_MPP} is stated", "pass mpp to resolve() as `stated`")


def same_file_same_pixels(make: Make, file: Path) -> None:
    """The same file gives the same pixels again, also from a fresh reader and in parts."""
    first, again = _read(make, file), _read(make, file)
    fix = "decode without random numbers, and keep no state between slides"
    demand(all(np.array_equal(a, b) for a, b in zip(first, again, strict=True)), "other pixels", fix)


def several_threads_read_alike(make: Make, file: Path) -> None:
    """Several threads that read one slide get the pixels that one thread gets."""
    with make().open(file, "a-slide", 0.5) as slide:
        corners = _corners(slide) * 4
        alone = [slide.read(corner, 64, slide.mpp) for corner in corners]
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda corner: slide.read(corner, 64, slide.mpp), corners))
    same = all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))
    demand(same, "other pixels", "hold a lock around a file position that reads share")


def truncated_file_is_refused(make: Make, file: Path) -> None:
    """A file that ends in the middle raises SlideseekError when it is opened or read."""
    with tempfile.TemporaryDirectory() as folder:
        half = Path(folder) / file.name
        data = file.read_bytes()
        half.write_bytes(data[: len(data) // 2])
        fix = "compare the size of the file with what its header states, and raise SlideError(cause, fix)"
        require_error(lambda: _read(make, half), (SlideseekError,), "for half of the file", fix)


def _read(make: Make, file: Path) -> list[UInt8]:
    """Read a few patches and a thumbnail of a slide; regions that it counts as unreadable are an error."""
    with make().open(file, "a-slide", 0.5) as slide:
        found = [slide.read(corner, 64, slide.mpp) for corner in _corners(slide)]
        found.append(slide.thumbnail(256))
        if slide.unreadable:
            raise SlideseekError(f"{slide.unreadable} regions of {file.name} cannot be decoded", "copy the file again")
        return found


def _corners(slide: OpenedSlide) -> list[tuple[int, int]]:
    """Return the top-left corners of squares of 64 pixels: two corners of the slide and its middle."""
    width, height = (max(0, length - 64) for length in slide.dimensions)
    return [(0, 0), (width // 2, height // 2), (width, height)]
