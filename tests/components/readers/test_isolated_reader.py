"""Slides decoded in a process of their own: the same pixels, and nothing that a file does reaches this process."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from reliability.hostile_slides import install_reader, levelless_tiff, tissue
from slideseek.errors import SlideError, UsageError
from slideseek.slides import reader
from slideseek.slides.limits import READ_SECONDS
from slideseek.slides.reader import open_slide
from slideseek_components.pixels.array_slide import ArraySlide
from slideseek_components.readers import slide_process
from slideseek_components.readers.isolated_reader import IsolatedSlide


@pytest.fixture
def png(tmp_path: Path) -> Path:
    path = tmp_path / "plain.png"
    Image.fromarray(tissue(300)).save(path)
    return path


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Install a reader whose files say what goes wrong; return a function that writes one."""
    install_reader(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    reader.installed_readers.cache_clear()

    def write(text: str) -> Path:
        path = tmp_path / "fault.svs"
        path.write_text(f"FAULT {text}")
        return path

    yield write
    reader.installed_readers.cache_clear()


def isolated(path: Path, slide_id: str = "", mpp: float | None = None) -> IsolatedSlide:
    """Open a slide that is decoded in a process of its own."""
    slide = open_slide(path, slide_id, mpp)
    assert isinstance(slide, IsolatedSlide)
    return slide


def needs_tifffile() -> bool:
    """Return whether the helper imports tifffile before it forks."""
    assert slide_process._helper is not None
    return slide_process._helper.needs_tifffile


def test_pixels_and_facts_are_those_of_the_reader(png: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_slide(png, "x", 0.5) as apart:
        monkeypatch.setenv(slide_process.SWITCH, "off")
        with open_slide(png, "x", 0.5) as here:
            assert isinstance(apart, IsolatedSlide) and isinstance(here, ArraySlide)
            for name in (
                "id",
                "levels",
                "resolution",
                "format",
                "objective",
                "background",
                "addresses",
                "owner",
                "facts",
            ):
                assert getattr(apart, name) == getattr(here, name), name
            assert np.array_equal(apart.thumbnail(100), here.thumbnail(100))
            assert np.array_equal(apart.read((-20, 10), 64, 1.0), here.read((-20, 10), 64, 1.0))
            assert (apart.unreadable, apart.filled) == (here.unreadable, here.filled) and here.filled > 0
            for slide in (apart, here):
                with pytest.raises(ValueError, match="size must be at least 1"):
                    slide.read((0, 0), 0, 1.0)
                with pytest.raises(ValueError, match="thumbnail: side"):
                    slide.thumbnail(0)
                with pytest.raises(SlideError, match="to be decoded"):
                    slide.read((0, 0), 9000, 1.0)


def test_many_squares_are_those_read_one_by_one(png: Path) -> None:
    xy, mpp = np.array([[-20, 10], [0, 0], [250, 250]], np.int32), np.array([1.0, 0.5, 0.7])
    with isolated(png, "x", 0.5) as together, open_slide(png, "x", 0.5) as single:
        images, errors = together.read_many(xy, 64, mpp)
        for image, (x, y), each in zip(images, xy, mpp, strict=True):
            assert np.array_equal(image, single.read((x, y), 64, each))
        assert not errors and (together.unreadable, together.filled) == (single.unreadable, single.filled)
        with pytest.raises(ValueError, match="mpp above 0"):
            together.read_many(xy, 64, -mpp)
        assert np.array_equal(together.read_many(xy[:1], 64, mpp[:1])[0], images[:1])  # answers are not mixed up
    with pytest.raises(SlideError, match="closed"):
        together.read_many(xy, 64, mpp)


def test_a_square_that_cannot_be_decoded_is_left_out(png: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with isolated(png, "x", 0.5) as slide:

        def torn(request, seconds, images):
            images[:] = np.arange(3)[:, None, None, None]
            return [{"shape": images.shape[1:]}, {"error": "RegionError", "cause": "torn", "fix": "copy"}, {}]

        monkeypatch.setattr(slide._process, "ask_many", torn)
        images, errors = slide.read_many(np.zeros((3, 2), np.int32), 8, np.ones(3))
        assert images[:, 0, 0, 0].tolist() == [0, 2] and [str(errors[1].cause)] == ["torn"] and len(errors) == 1


@pytest.mark.parametrize(
    ("fault", "said"), [("segfault", "ended the process"), ("spin", "took more than 1 s"), ("balloon", "600 MiB")]
)
def test_a_fault_among_many_squares_costs_that_slide(
    faults, monkeypatch: pytest.MonkeyPatch, fault: str, said: str
) -> None:
    monkeypatch.setenv(slide_process.MEMORY_VARIABLE, "600")
    monkeypatch.setenv(slide_process.SECONDS_VARIABLE, "1" if fault == "spin" else "60")
    with isolated(faults(f"read {fault}")) as slide, pytest.raises(SlideError, match=said):
        slide.read_many(np.zeros((4, 2), np.int32), 64, np.ones(4))


def test_the_helper_imports_tifffile_once_a_slide_has_needed_it(png: Path, tmp_path: Path) -> None:
    with isolated(png, "x", 0.5) as slide:
        slide._process._helper.needs_tifffile = False
    open_slide(png, "x", 0.5).close()
    assert not needs_tifffile()
    Image.fromarray(tissue(64)).save(tmp_path / "plain.tif")
    for _ in range(2):
        open_slide(tmp_path / "plain.tif", "x", 0.5).close()
        assert needs_tifffile()


def test_threads_read_one_slide_at_once(png: Path) -> None:
    with open_slide(png, "x", 0.5) as slide, ThreadPoolExecutor(4) as pool:
        expected = [slide.read((at, at), 32, 0.5) for at in range(40)]
        found = pool.map(lambda at: slide.read((at, at), 32, 0.5), range(40))
        assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


def test_a_closed_slide_says_so_and_its_process_is_gone(png: Path) -> None:
    slide: Any = open_slide(png, "x", 0.5)
    pid = slide._process._pid
    slide.close()
    slide.close()
    with pytest.raises(SlideError, match="closed"):
        slide.thumbnail(10)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("segfault", r"fault.svs ended the process that decodes it \(SIGSEGV\)"),
        ("exit", "ended the process"),
        ("spin", "took more than 1 s"),
        ("balloon", "needs more than 600 MiB"),
    ],
)
@pytest.mark.parametrize("when", ["open", "read"])
def test_a_fault_costs_that_slide(
    faults, png: Path, monkeypatch: pytest.MonkeyPatch, when: str, fault: str, said: str
) -> None:
    monkeypatch.setenv(slide_process.MEMORY_VARIABLE, "600")
    limit = READ_SECONDS.set(1.0 if fault == "spin" else 60.0)
    try:
        with pytest.raises(SlideError, match=said) as caught:
            open_slide(faults(f"{when} {fault}")).thumbnail(64)
    finally:
        READ_SECONDS.reset(limit)
    assert caught.value.fix
    with open_slide(png, "x", 0.5) as slide:  # the next one is read as ever
        assert slide.thumbnail(10).shape == (10, 10, 3)


def test_what_is_being_read_can_be_interrupted(tmp_path: Path) -> None:
    levelless_tiff(tmp_path / "huge.tif")
    with open_slide(tmp_path / "huge.tif") as slide:
        threading.Timer(0.5, slide.interrupt).start()
        begun = time.monotonic()
        with pytest.raises(SlideError):
            slide.thumbnail(512)
        assert time.monotonic() - begun < 30  # it takes minutes


def helper() -> Any:
    """The process that opens slides of this one."""
    assert slide_process._helper is not None
    return slide_process._helper


def test_a_helper_that_was_killed_is_replaced(png: Path) -> None:
    open_slide(png, "x", 0.5).close()
    os.kill(helper().process.pid, signal.SIGKILL)
    helper().process.wait()
    with open_slide(png, "x", 0.5) as slide:
        assert slide.thumbnail(10).shape == (10, 10, 3)


def test_a_fork_has_a_helper_of_its_own(png: Path) -> None:
    open_slide(png, "x", 0.5).close()
    parent = helper().process.pid
    child = os.fork()
    if child == 0:
        with open_slide(png, "x", 0.5) as slide:
            fine = slide.thumbnail(10).shape == (10, 10, 3) and helper().process.pid != parent
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    with open_slide(png, "x", 0.5) as slide:
        assert slide.thumbnail(10).shape == (10, 10, 3)


def test_a_limit_that_is_no_number_is_refused(png: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(slide_process.MEMORY_VARIABLE, "much")
    with pytest.raises(UsageError, match="SLIDESEEK_SLIDE_MEMORY is 'much'"):
        open_slide(png, "x", 0.5)


def test_an_answer_of_another_shape_is_refused(png: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_slide(png, "x", 0.5) as slide:
        monkeypatch.setattr(slide, "thumbnail_size", lambda _: (7, 7))
        with pytest.raises(SlideError, match="sent pixels of shape"):
            slide.thumbnail(10)
