"""Each check of a reader passes a correct toy and catches one made wrong on purpose."""

import itertools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from slideseek.errors import SlideError
from slideseek.interfaces import Fingerprinted
from slideseek_apps.testing import CheckFailed, reader_checks, toy_images
from slideseek_components.pixels.array_slide import ArraySlide

SIDE = 200
COUNT = itertools.count()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "one.toy"
    path.write_bytes(b"TOY1" + toy_images(count=1, side=SIDE)[0].tobytes())
    return path


@dataclass(frozen=True)
class Toy:
    """Read squares of 200 pixels."""

    rank: ClassVar[Any] = 500

    def claims(self, path: Path, head: bytes) -> bool:
        return head.startswith(b"TOY1")

    def open(self, path: Path, slide_id: str, mpp: float | None) -> Any:
        return ArraySlide(self.pixels(path), mpp=mpp or 0.5, slide_id=slide_id)

    def pixels(self, path: Path) -> Any:
        data = np.frombuffer(path.read_bytes(), np.uint8, offset=4)
        if len(data) != 3 * SIDE**2:
            raise SlideError("it is truncated", "copy it again")
        return data.reshape(SIDE, SIDE, 3)


@dataclass(frozen=True)
class NoOpen:
    rank: ClassVar[int] = 500

    def claims(self, path: Path, head: bytes) -> bool:
        return False


class NeverTheSame(Toy):
    def __repr__(self) -> str:
        return f"{next(COUNT)}"


@dataclass(frozen=True)
class Undescribed(Toy):
    """Read squares."""

    gamma: float = 1.0


@dataclass(frozen=True)
class TrailingOption(Toy):
    """Read squares. gamma_: of the pixels."""

    gamma_: float = 1.0


class WordyRevision(Toy):
    code_revision: ClassVar[Any] = "two"


class Restless(Toy, Fingerprinted):
    def fingerprint(self) -> str:
        return str(next(COUNT))


class RankInWords(Toy):
    rank: ClassVar[Any] = "first"


class TakesEverything(Toy):
    def claims(self, path: Path, head: bytes) -> bool:
        return True

    def pixels(self, path: Path) -> Any:
        return np.zeros((SIDE, SIDE, 3), np.uint8)


class ByName(Toy):
    def claims(self, path: Path, head: bytes) -> bool:
        return path.name == "one.toy"


class NamedByFile(Toy):
    def open(self, path: Path, slide_id: str, mpp: float | None) -> Any:
        return Toy.open(self, path, path.stem, mpp)


class KnowsBetter(Toy):
    def open(self, path: Path, slide_id: str, mpp: float | None) -> Any:
        return Toy.open(self, path, slide_id, 0.5)


class Noisy(Toy):
    def pixels(self, path: Path) -> Any:
        return Toy.pixels(self, path) + np.uint8(next(COUNT) % 7)


class Positioned(ArraySlide):
    """Keeps the place it reads at between two calls, as a file does."""

    def _read_level(self, level: int, xy: tuple[int, int], size: tuple[int, int]) -> Any:
        self.place = xy
        time.sleep(0.002)
        return super()._read_level(level, self.place, size)


class OneThread(Toy):
    def open(self, path: Path, slide_id: str, mpp: float | None) -> Any:
        return Positioned(self.pixels(path), mpp=mpp or 0.5, slide_id=slide_id)


class FillsUp(Toy):
    def pixels(self, path: Path) -> Any:
        return np.resize(np.frombuffer(path.read_bytes(), np.uint8, offset=4), (SIDE, SIDE, 3))


BROKEN: list[tuple[Any, str]] = [
    (NoOpen, "interface_is_complete"),
    (TrailingOption, "options_are_fields"),
    (NeverTheSame, "options_round_trip"),
    (Undescribed, "options_are_described"),
    (WordyRevision, "declarations_are_well_formed"),
    (Restless, "fingerprint_is_stable"),
    (RankInWords, "rank_is_a_whole_number"),
    (TakesEverything, "other_files_are_left_alone"),
    (ByName, "file_is_claimed"),
    (NamedByFile, "file_is_opened_as_a_slide"),
    (KnowsBetter, "stated_resolution_is_used"),
    (Noisy, "same_file_same_pixels"),
    (OneThread, "several_threads_read_alike"),
    (FillsUp, "truncated_file_is_refused"),
]
NAMES = [check.__name__ for check in reader_checks(Path("one.toy"))]


def named(name: str, file: Path) -> Any:
    return next(check for check in reader_checks(file) if check.__name__ == name)


@pytest.mark.parametrize("name", NAMES)
def test_correct_reader_passes(name: str, file: Path) -> None:
    named(name, file)(Toy)


@pytest.mark.parametrize(("reader", "name"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_broken_reader_is_caught(reader: Any, name: str, file: Path) -> None:
    with pytest.raises(CheckFailed):
        named(name, file)(reader)


def test_every_check_is_proven_to_catch_something() -> None:
    assert {name for _, name in BROKEN} == set(NAMES)
