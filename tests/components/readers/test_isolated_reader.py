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
