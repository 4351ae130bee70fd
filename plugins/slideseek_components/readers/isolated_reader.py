"""Slides decoded in a process of their own: the reader that is asked first, for every file of this machine."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
from PIL import Image

from slideseek import errors
from slideseek.boundary import Owner
from slideseek.errors import RegionError, SlideError, SlideseekError
from slideseek.interfaces import Reader, ReadsMany
from slideseek.slides.limits import READ_SECONDS
from slideseek.types import Float64, Int32, UInt8
from slideseek_components.pixels.levels import Level
from slideseek_components.pixels.pyramid import PyramidSlide
from slideseek_components.pixels.resolution import Resolution
from slideseek_components.readers.slide_process import (
    MEMORY,
    MEMORY_VARIABLE,
    SECONDS_VARIABLE,
    SWITCH,
    SlideProcess,
)


@dataclass(frozen=True)
class IsolatedReader(Reader):
    """Open a slide in a process with limits on memory and time; the readers after this one are asked there."""

    code_revision: ClassVar[int] = 1
    rank: ClassVar[int] = -(2**31)

    def claims(self, path: Path, head: bytes) -> bool:
        """Claim every file, unless isolation is off, as it is in that process."""
        return os.environ.get(SWITCH, "").lower() != "off" and hasattr(os, "fork")

    def open(self, path: Path, slide_id: str, mpp: float | None) -> IsolatedSlide:
        """Open a slide with the reader that takes it."""
        return IsolatedSlide(path, slide_id, mpp)


class IsolatedSlide(PyramidSlide, ReadsMany):
    """A slide whose pixels another process decodes. owner, read_by: of the reader there."""

    def __init__(self, path: Path, slide_id: str, mpp: float | None) -> None:
        self._name, self._memory = path.name, int(_number(MEMORY_VARIABLE, MEMORY))
        self._seconds = _number(SECONDS_VARIABLE, READ_SECONDS.get())
        self._process = SlideProcess(path.name)
        try:
            request = {"do": "open", "path": str(path), "cwd": str(Path.cwd()), "id": slide_id, "mpp": mpp}
            found = self._ask({**request, "memory": self._memory * 2**20})[0]
            try:
                mpp_x, mpp_y, source, notes = found["resolution"]
                super().__init__(
                    slide_id,
                    [Level(int(width), int(height), float(by)) for width, height, by in found["levels"]],
                    Resolution(float(mpp_x), float(mpp_y), str(source), tuple(map(str, notes))),
                    format=str(found["format"]),
                    objective=None if found["objective"] is None else float(found["objective"]),
                    background=(*map(int, found["background"]),),  # type: ignore[arg-type]
                    addresses=[float(one) for one in found["addresses"]],
                )
                self.owner = Owner(*map(str, found["owner"]))
                self.read_by, self._nbytes = str(found["read_by"]), int(found["nbytes"])
                self._process.note_imports(tifffile=bool(found["tifffile"]))
            except (KeyError, TypeError, ValueError) as error:
                raise SlideError(f"{path.name} was opened as {error!r}", "do not use this file") from error
        except BaseException:
            self._process.end()
            raise

    def read(self, xy: tuple[int, int], size: int, mpp: float) -> UInt8:
        """Read a square, as `PyramidSlide.read` does, in the other process."""
        x, y = xy
        request = {"do": "read", "xy": (int(x), int(y)), "size": int(size), "mpp": float(mpp)}
        return self._pixels(request, [(int(size), int(size), 3)])

    def read_many(self, xy: Int32, size: int, mpp: Float64) -> tuple[UInt8, dict[int, RegionError]]:
        """Read squares as `read` does: one request, and an answer for each, within the limits of one."""
        self._refuse_if_closed()
        squares = [(int(x), int(y), float(each)) for (x, y), each in zip(xy, mpp, strict=True)]
        images, errors = np.empty((len(squares), size, size, 3), np.uint8), dict[int, RegionError]()
        request = {"do": "reads", "squares": squares, "size": int(size)}
        for at, found in enumerate(self._process.ask_many(request, self._limit, images)):
            try:
                self._check(found)
            except RegionError as error:
                errors[at] = error
        return np.delete(images, list(errors), axis=0) if errors else images, errors

    def thumbnail(self, side: int) -> UInt8:
        """Return the whole slide, as `PyramidSlide.thumbnail` does, in the other process."""
        width, height = self.thumbnail_size(int(side))
        return self._pixels({"do": "thumbnail", "side": int(side)}, [(height, width, 3)])

    def interrupt(self) -> None:
        """End the other process: threads that wait for pixels fail."""
        self._process.end()

    def close(self) -> None:
        """End the other process; reading afterwards raises `SlideError`."""
        super().close()
        self._process.end()

    @property
    def _limit(self) -> float:
        """Seconds of processor time for one request."""
        return min(self._seconds, READ_SECONDS.get())

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise SlideError(f"slide {self.id!r} is closed", "open it again before reading")

    def _pixels(self, request: dict[str, Any], shapes: Collection[tuple[int, ...]]) -> UInt8:
        self._refuse_if_closed()
        return self._ask(request, shapes)[1]

    def _ask(self, request: dict[str, Any], shapes: Collection[tuple[int, ...]] = ()) -> tuple[dict[str, Any], UInt8]:
        found, pixels = self._process.ask(request, self._limit, shapes)
        self._check(found)
        return found, pixels

    def _check(self, found: dict[str, Any]) -> None:
        """Take over the counts of an answer; raise its error."""
        if "unreadable" in found:
            with self._counting:
                self.unreadable = max(self.unreadable, int(found["unreadable"]))
                self.filled = max(self.filled, int(found["filled"]))
        if "error" in found:
            self._refuse(str(found["error"]), str(found.get("cause", "")), str(found.get("fix", "")))

    def _refuse(self, kind: str, cause: str, fix: str) -> NoReturn:
        """Raise the error of the other process here; only errors of slideseek have a type that counts."""
        if kind == "ValueError":
            raise ValueError(cause.removeprefix("ValueError: "))
        if kind == "MemoryError":
            raise SlideError(
                f"{self._name} needs more than {self._memory:,} MiB to be decoded",
                f"convert it to a pyramidal tiled TIFF, or allow more MiB with {MEMORY_VARIABLE}",
            )
        known = getattr(errors, kind, None)
        if isinstance(known, type) and issubclass(known, SlideseekError):
            error = SlideseekError.__new__(known)
            SlideseekError.__init__(error, cause, fix)
            raise error
        raise SlideError(f"decoding {self._name} failed ({cause})", "copy the file again")

    def _read_level(self, level: int, xy: tuple[int, int], size: tuple[int, int]) -> Image.Image:
        width, height = size
        request = {"do": "level", "level": level, "xy": xy, "size": size}
        return Image.fromarray(self._pixels(request, [(height, width, 3), (height, width, 4)]))


def _number(variable: str, default: float) -> float:
    """Return a limit: an environment variable, or its default."""
    text = os.environ.get(variable, "")
    if text and not (text.isdecimal() and int(text) > 0):
        raise errors.UsageError(f"{variable} is {text!r}", f"give a whole number, such as {default:g}")
    return int(text) if text else default
