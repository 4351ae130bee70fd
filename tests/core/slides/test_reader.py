"""How readers are asked: by rank, with a new format, with some that crash, and with some that break the protocol."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from slideseek import plugins
from slideseek.errors import PluginError, SlideError
from slideseek.slides import reader
from slideseek.slides.reader import open_slide
from slideseek_components.pixels.pyramid import as_pyramid

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "plugins" / "reference.md").read_text(encoding="utf-8")
(TOY,) = (block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "class ToyReader" in block)
OWNER = "reader 'toy' of slideseek-toy 1.2"

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install the distribution slideseek-toy 1.2 for one test; `code` follows the reader that the page shows."""
    modules = ("slideseek_toy", "slideseek_toy_plugin")

    def install(code: str = "", target: str = "ToyReader") -> None:
        # A folder never used before: the process that opens slides keeps what it imported from a path.
        place = Path(tempfile.mkdtemp(dir=tmp_path))
        info = place / "slideseek_toy-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slideseek-toy\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text("[slideseek]\ntoy = slideseek_toy_plugin\n")
        (place / "slideseek_toy.py").write_text(TOY + "\n\n" + textwrap.dedent(code))
        (place / "slideseek_toy_plugin.py").write_text(
            "from slideseek.hookspecs import hookimpl\n\n\n@hookimpl\ndef register_readers(register):\n"
            f"    register('toy', 'slideseek_toy:{target}', 'the .toy format')\n"
        )
        monkeypatch.syspath_prepend(str(place))
        reader.installed_readers.cache_clear()

    yield install
    reader.installed_readers.cache_clear()
    for name in modules:
        sys.modules.pop(name, None)


def write_toy(path: Path, pixels: np.ndarray, mpp: float = 1.0) -> Path:
    path.write_bytes(b"TOY1" + struct.pack("<IIf", pixels.shape[1], pixels.shape[0], mpp) + pixels.tobytes())
    return path


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    return write_toy(tmp_path / "one.toy", np.random.default_rng(0).integers(0, 256, (50, 70, 3), dtype=np.uint8))


@pytest.fixture
def png(tmp_path: Path) -> Path:
    Image.new("RGB", (40, 30), (200, 100, 150)).save(tmp_path / "one.png")
    return tmp_path / "one.png"


def where_raised(slide: Path) -> str:
    """The place of the reader's surprise, as messages name it; the reader is installed below the slide's folder."""
    (module,) = slide.parent.glob("*/slideseek_toy.py")
    lines = module.read_text().splitlines()
    return f"slideseek_toy.py line {1 + next(number for number, line in enumerate(lines) if 'surprise' in line)}"


def refusal(path: Path) -> SlideError:
    with pytest.raises(SlideError) as caught:
        open_slide(path, mpp=0.5)
    assert caught.value.fix
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_format_nobody_knows_is_no_slide(toy: Path) -> None:
    assert refusal(toy).cause == "one.toy is not a slide that OpenSlide or Pillow can read"


def test_a_new_format_is_read(install: Install, toy: Path) -> None:
    install()
    with as_pyramid(open_slide(toy)) as slide:
        assert (slide.id, slide.format, slide.dimensions, slide.mpp) == ("one", "toy", (70, 50), 1.0)
        expected = np.frombuffer(toy.read_bytes()[16:], np.uint8).reshape(50, 70, 3)
        assert np.array_equal(slide.read((0, 0), 50, 1.0), expected[:, :50])
    with open_slide(toy, "case", 0.25) as slide:
        assert (slide.id, slide.mpp) == ("case", 0.25)


def test_its_own_refusals_pass_unchanged(install: Install, toy: Path) -> None:
    install()
    toy.write_bytes(toy.read_bytes()[:100])
    assert str(refusal(toy)) == "one.toy is truncated: copy the file again"


def test_an_archive_of_a_new_format(
    install: Install, tiny_slides: Path, tiny_config: Path, tmp_path: Path, slideseek: Any
) -> None:
    """Files are added by name; they are built, searched and inspected like any other slide."""
    install()
    folder = tmp_path / "toys"
    folder.mkdir()
    toys = [
        write_toy(folder / f"{path.stem}.toy", np.asarray(Image.open(path)))
        for path in sorted(tiny_slides.glob("*.png"))
    ]
    archive = tmp_path / "toy-archive"
    assert slideseek("init", archive, "--config", tiny_config).code == 0
    assert slideseek("add", *toys, "-a", archive).code == 0
    done = slideseek("build", "-a", archive)
    assert done.code == 0, done.out + done.err
    hits = slideseek("search", "s0", "-a", archive, "-k", "3", "--json").json["hits"]
    assert len(hits) == 3


def test_it_is_listed_and_shown(install: Install, slideseek: Any) -> None:
    install()
    listed = slideseek("plugins", "list", "--kind", "reader", "--json").json["components"]
    assert [entry["name"] for entry in listed] == [
        *("dicom", "idc", "image", "isolated", "openslide", "remote", "tiff", "toy"),
    ]
    shown = slideseek("plugins", "show", "toy").out
    assert "reader toy, from slideseek-toy 1.2" in shown
    assert "Read .toy files" in shown


def test_it_can_be_disabled(install: Install, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(plugins.DISABLED_VARIABLE, "slideseek-toy")
    install()
    assert "not a slide" in refusal(toy).cause


CRASHING_CLAIMS = """
@dataclass(frozen=True)
class Crashing(ToyReader):
    rank: ClassVar[int] = 1

    def claims(self, path, head):
        raise KeyError("surprise")
"""


def test_after_a_crash_in_claims_the_others_are_asked(install: Install, toy: Path, png: Path) -> None:
    install(CRASHING_CLAIMS, "Crashing")
    with as_pyramid(open_slide(png, mpp=0.5)) as slide:
        assert slide.format == "png"
        assert slide.notes == (f"{OWNER} failed in claims('one.png') (KeyError: 'surprise') at {where_raised(png)}",)
    cause = refusal(toy).cause
    assert cause.startswith("one.toy is not a slide")
    assert f"{OWNER} failed in claims('one.toy') (KeyError: 'surprise')" in cause


CRASHING_OPEN = """
@dataclass(frozen=True)
class Crashing(ToyReader):
    rank: ClassVar[int] = 1

    def claims(self, path, head):
        return path.suffix == ".toy"

    def open(self, path, slide_id, mpp):
        raise ZeroDivisionError("surprise")
"""


def test_a_crash_in_open_fails_that_slide_alone(install: Install, toy: Path, png: Path) -> None:
    install(CRASHING_OPEN, "Crashing")
    error = refusal(toy)
    assert error.cause == f"{OWNER} failed in open('one.toy') (ZeroDivisionError: surprise) at {where_raised(toy)}"
    assert plugins.DISABLED_VARIABLE in error.fix
    with open_slide(png, mpp=0.5) as slide:
        assert slide.notes == ()


def test_a_file_is_not_read_as_something_else_after_a_crash(install: Install, png: Path) -> None:
    install(CRASHING_OPEN, "Crashing")
    assert OWNER in refusal(png.rename(png.with_suffix(".toy"))).cause


def test_a_build_reports_the_crash_and_goes_on(
    install: Install, toy: Path, tiny_slides: Path, tiny_config: Path, tmp_path: Path, slideseek: Any
) -> None:
    install(CRASHING_OPEN, "Crashing")
    archive = tmp_path / "mixed"
    assert slideseek("init", archive, "--config", tiny_config).code == 0
    assert slideseek("add", toy, tiny_slides / "s0.png", tiny_slides / "s1.png", "--mpp", 1, "-a", archive).code == 0
    done = slideseek("build", "-a", archive)
    assert done.code == 3, done.out + done.err
    assert OWNER in " ".join((done.out + done.err).split())
    found = slideseek("search", "s0", "-a", archive, "--json").json
    assert [hit["slide"]["id"] for hit in found["hits"]] == ["s1"]


CRASHING_READ = """
class Torn(ArraySlide):
    def _read_level(self, level, xy, size):
        raise IndexError("surprise")


@dataclass(frozen=True)
class Crashing(ToyReader):
    def open(self, path, slide_id, mpp):
        return Torn(np.zeros((50, 70, 3), np.uint8), 1.0, slide_id)
"""


def test_a_crash_while_pixels_are_read_is_the_readers(install: Install, toy: Path) -> None:
    """It is not taken for a crash of the selector that was reading."""
    install(CRASHING_READ, "Crashing")
    with open_slide(toy) as slide, pytest.raises(PluginError) as caught:
        slide.thumbnail(20)
    assert caught.value.cause == f"{OWNER} failed in reading 'one' (IndexError: surprise) at {where_raised(toy)}"


DECLINING = """
from slideseek.slides.slide_errors import DeclinedError


@dataclass(frozen=True)
class Declining(ToyReader):
    rank: ClassVar[int] = 1

    def claims(self, path, head):
        return True

    def open(self, path, slide_id, mpp):
        raise DeclinedError("not mine")
"""


def test_a_reader_may_leave_a_file_to_the_next(install: Install, toy: Path, png: Path) -> None:
    install(DECLINING, "Declining")
    with as_pyramid(open_slide(png, mpp=0.5)) as slide:
        assert (slide.format, slide.notes) == ("png", ())
    assert refusal(toy).cause == "one.toy is not a slide that OpenSlide or Pillow can read"


def test_readers_are_asked_by_rank(install: Install) -> None:
    install()
    readers, unusable = reader.installed_readers()
    assert [owner.use for owner, _, _ in readers] == [
        "isolated",
        "idc",
        "openslide",
        "remote",
        "dicom",
        "tiff",
        "toy",
        "image",
    ]
    assert unusable == ()


HALF = """
@dataclass(frozen=True)
class Half:
    rank: ClassVar[int] = 1

    def claims(self, path, head):
        return True
"""
SHORT = """
@dataclass(frozen=True)
class Short(ToyReader):
    def open(self, path):
        return None
"""
UNRANKED = """
@dataclass(frozen=True)
class Unranked(ToyReader):
    rank: ClassVar[str] = "first"
"""
NEEDY = """
@dataclass(frozen=True)
class Needy(ToyReader):
    speed: int
"""


@pytest.mark.parametrize(
    ("code", "target", "reason"),
    [
        (HALF, "Half", "class Half lacks open of the reader interface"),
        (SHORT, "Short", "cannot be called as open(path, slide_id, mpp)"),
        (UNRANKED, "Unranked", "has the rank 'first', not a whole number"),
        (NEEDY, "Needy", "missing 1 required positional argument: 'speed'"),
        ("", "Absent", "cannot be imported"),
        ("import a_library_that_is_absent\n", "ToyReader", "No module named 'a_library_that_is_absent'"),
    ],
    ids=["half", "short", "unranked", "needy", "absent", "import"],
)
def test_what_is_no_reader_is_left_out_and_named(
    install: Install, code: str, target: str, reason: str, toy: Path, png: Path
) -> None:
    install(code, target)
    with as_pyramid(open_slide(png, mpp=0.5)) as slide:
        assert slide.format == "png"
    cause = refusal(toy).cause
    assert OWNER in cause
    assert reason in cause


def test_what_it_opens_must_be_a_slide(install: Install, toy: Path) -> None:
    code = """
    @dataclass(frozen=True)
    class Wrong(ToyReader):
        def open(self, path, slide_id, mpp):
            return np.zeros((5, 5, 3), np.uint8)
    """
    install(code, "Wrong")
    assert refusal(toy).cause == f"{OWNER} opened one.toy as ndarray, not as a PyramidSlide"


def test_plugins_are_looked_up_once(png: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def load(**options: Any) -> plugins.Registry:
        calls.append(options)
        return plugins.load_registry(**options)

    monkeypatch.setattr(reader, "load_registry", load)
    reader.installed_readers.cache_clear()
    for _ in range(3):
        open_slide(png, mpp=0.5).close()
    assert len(calls) == 1


def test_importing_the_module_imports_no_reader() -> None:
    code = "import sys, slideseek.slides.reader; print({'openslide', 'tifffile'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
