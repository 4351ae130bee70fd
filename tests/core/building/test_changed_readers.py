"""What a reader read is computed again after its code has changed or another takes over, and nothing else is."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from PIL import Image

import slideseek
from slideseek.archive.adding import add_slides
from slideseek.archive.manifest import read_manifest
from slideseek.boundary import Owner
from slideseek.errors import SlideseekError
from slideseek.slides import reader
from slideseek_apps.testing import toy_slide
from slideseek_components.pixels.array_slide import ArraySlide

CONFIG = """
[[engine]]
name       = "mean"
selector   = { use = "grid", size = 256, mpp = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "mean" }
index      = { use = "cosine" }
"""


@dataclass(frozen=True)
class Halves:
    """Read arrays; `shade` is what a new version changes."""

    rank: ClassVar[int] = 1
    shade: int = 0

    def claims(self, path: Path, head: bytes) -> bool:
        return head.startswith(b"\x93NUMPY")

    def open(self, path: Path, slide_id: str, mpp: float | None) -> ArraySlide:
        return ArraySlide(np.load(path) // (1 + self.shade), mpp=0.5, slide_id=slide_id)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Install a version of the reader whose code counts by `code`."""
    bundled = reader.installed_readers()[0]

    def install(code: str, shade: int) -> None:
        owner = Owner("reader", "halves", f"slideseek-halves {code}")
        mine = (owner, Halves(shade), f"slideseek-halves:halves {code} slideseek-halves {code}")
        monkeypatch.setattr(reader, "installed_readers", lambda: ((mine, *bundled), ()))

    return install


@pytest.fixture
def archive(tmp_path: Path, installed: Callable[[str, int], None]) -> slideseek.OpenArchive:
    installed("0.1", 0)
    slides = tmp_path / "slides"
    slides.mkdir()
    for number in range(2):
        write_array(slides / f"array-{number}.arr", number)
    Image.fromarray(toy_slide(seed=5, width=1024, height=1024).read((0, 0), 1024, 0.5)).save(slides / "plain.png")
    manifest = tmp_path / "slides.csv"
    manifest.write_text("slide_id,mpp\nplain,0.5\narray-0,\narray-1,\n")
    made = slideseek.create(tmp_path / "archive", CONFIG)
    with made.archive.writing():
        added = add_slides(made.archive, sorted(slides.iterdir()), (manifest, read_manifest(manifest)))
    assert not added.problems
    made.build()
    return made


def write_array(path: Path, seed: int) -> None:
    with path.open("wb") as file:
        np.save(file, toy_slide(seed=seed, width=1024, height=1024).read((0, 0), 1024, 0.5))


def test_new_code_of_a_reader_computes_again_what_it_read(archive, installed, tmp_path) -> None:
    catalog = archive.archive.catalog
    before = {slide_id: payload.data for slide_id, payload in catalog.codes(catalog.stages("encode")[0].settings)}
    write_array(tmp_path / "new.arr", 7)
    assert archive.search(tmp_path / "new.arr") is not None
    installed("0.2", 1)
    archive.forget()
    assert "is now slideseek-halves 0.2" in archive.status()["engines"][0]["changed"][0]
    with pytest.raises(SlideseekError, match=r"reader 'slideseek-halves:halves' was slideseek-halves 0\.1, and is now"):
        archive.search(tmp_path / "new.arr")
    summary = archive.build()
    assert any(
        "all that was read of 2 slides ('array-0', 'array-1') is computed again" in note for note in summary.notes
    )
    after = {slide_id: payload.data for slide_id, payload in catalog.codes(catalog.stages("encode")[0].settings)}
    assert [name for name in after if after[name] != before[name]] == ["array-0", "array-1"]
    assert archive.status()["engines"][0]["changed"] == []


def test_the_same_code_of_a_reader_computes_nothing_again(archive, installed) -> None:
    first = {record.slide_id: record.updated for record in archive.archive.catalog.stages("featurize")}
    installed("0.1", 0)
    assert archive.build().counts["skipped"] == 3
    assert first == {record.slide_id: record.updated for record in archive.archive.catalog.stages("featurize")}


def test_results_of_a_reader_that_is_not_installed_stay(archive, monkeypatch) -> None:
    monkeypatch.undo()
    assert archive.status()["engines"][0]["changed"] == []


def test_bundled_readers_add_nothing_to_what_is_kept(archive) -> None:
    made_by = {record.slide_id: record.made_by for record in archive.archive.catalog.stages("select")}
    assert "read by" not in made_by["plain"]
    assert made_by["array-0"].endswith("; read by slideseek-halves:halves 0.1 slideseek-halves 0.1")


@dataclass(frozen=True)
class Dark:
    """Read PNG, which a bundled reader reads too, darker."""

    rank: ClassVar[int] = 2

    def claims(self, path: Path, head: bytes) -> bool:
        return head.startswith(b"\x89PNG")

    def open(self, path: Path, slide_id: str, mpp: float | None) -> ArraySlide:
        return ArraySlide(np.asarray(Image.open(path)) // 2, mpp=0.5, slide_id=slide_id)


def updated(archive) -> dict[str, float]:
    """Return, by slide, when its features were computed."""
    return {record.slide_id: record.seconds for record in archive.archive.catalog.stages("featurize")}


def computed_again(archive) -> tuple[list[str], str]:
    """Build; return the slides whose features were computed, and the notes."""
    before = updated(archive)
    summary = archive.build()
    after = updated(archive)
    return [name for name in after if after[name] != before[name]], " ".join(summary.notes)


def test_a_reader_that_takes_over_from_a_bundled_one_is_noticed(archive, monkeypatch) -> None:
    others = reader.installed_readers()[0]
    dark = (Owner("reader", "dark", "slideseek-dark 1"), Dark(), "slideseek-dark:dark 1 slideseek-dark 1")
    monkeypatch.setattr(reader, "installed_readers", lambda: ((dark, *others), ()))
    again, notes = computed_again(archive)
    assert again == ["plain"]
    assert "reader 'slideseek-dark:dark' took over from a bundled one: all that was read of slide 'plain' is" in notes
    assert computed_again(archive)[0] == []


def test_slides_that_a_new_reader_does_not_claim_are_not_opened(archive, monkeypatch) -> None:
    others = reader.installed_readers()[0]
    dark = (Owner("reader", "dark", "slideseek-dark 1"), Dark(), "slideseek-dark:dark 1 slideseek-dark 1")
    monkeypatch.setattr(Dark, "claims", lambda *_: False)
    monkeypatch.setattr(reader, "installed_readers", lambda: ((dark, *others), ()))
    monkeypatch.setattr(reader, "open_slide", lambda *_: pytest.fail("opened a slide"))
    assert computed_again(archive) == ([], "")


def test_a_raised_revision_of_a_bundled_reader_is_noticed_once(archive, monkeypatch) -> None:
    monkeypatch.setenv("SLIDESEEK_ISOLATION", "off")
    raised = [
        (owner, made, "slideseek:image 9 slideseek 0.2" if made.claims(Path("a.png"), b"\x89PNG") else text)
        for owner, made, text in reader.installed_readers()[0]
        if owner.use in ("halves", "image")
    ]
    assert len(raised) == 2
    monkeypatch.setattr(reader, "installed_readers", lambda: (tuple(raised), ()))
    again, notes = computed_again(archive)
    assert again == ["plain"] and "reader 'slideseek:image' took over from a bundled one" in notes
    assert computed_again(archive)[0] == []
    made_by = {record.slide_id: record.made_by for record in archive.archive.catalog.stages("select")}
    assert "read by" not in made_by["plain"], "a search does not have to look at every slide's reader"
