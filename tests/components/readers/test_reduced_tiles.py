"""Thumbnails of slides without coarse levels: from tiles that the decoder reduces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

import slideseek
from slideseek.archive.adding import StatedMpp, add_slides
from slideseek.building.recompute import READERS
from slideseek.slides.reader import open_slide
from slideseek_components.readers import openslide_reader
from slideseek_components.readers.reduced_tiles import Reduced, reduced_page

CONFIG = """
[[engine]]
name       = "mean"
selector   = { use = "grid", size = 64, mpp = 0.5, min_tissue = 0.1 }
featurizer = { use = "colour-texture" }
encoder    = { use = "mean" }
index      = { use = "cosine" }
"""

SIDE = 1000
"""Not a whole number of tiles, and neither of reduced pixels of 8."""


def smooth(side: int = SIDE) -> np.ndarray:
    """Return an image of soft spots, RGB uint8 (side, side, 3)."""
    small = np.random.default_rng(0).integers(0, 256, (side // 40, side // 40, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(small).resize((side, side), Image.Resampling.BICUBIC))


def write(write_tiff: Callable[..., Path], kind: str) -> Path:
    """Write a slide of one level whose tiles have this compression."""
    options: dict[str, dict[str, Any]] = {
        "jpeg": {"compression": "jpeg"},
        "jpeg-ycbcr": {"compression": "jpeg", "compressionargs": {"outcolorspace": "ycbcr"}},
        "jpeg2000": {"compression": 33005, "compressionargs": {"level": 40}},
        "lossless": {"compression": "zlib"},
    }
    return write_tiff(f"{kind}.svs", smooth(), aperio="AppMag = 20|MPP = 0.5", tile=240, **options[kind])


def reduced(path: Path, scale: float) -> Reduced | None:
    with path.open("rb") as file:
        return reduced_page(file, (SIDE, SIDE), scale)


@pytest.mark.parametrize("kind", ["jpeg", "jpeg-ycbcr", "jpeg2000"])
@pytest.mark.parametrize("side", [100, 125, 240])
def test_a_thumbnail_is_the_one_of_all_pixels(
    kind: str, side: int, write_tiff: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(write_tiff, kind)
    assert reduced(path, SIDE / side) is not None
    with open_slide(path) as slide:
        found = slide.thumbnail(side).astype(int)
    monkeypatch.setattr(openslide_reader, "reduced_page", lambda *_: None)
    with open_slide(path) as slide:
        expected = slide.thumbnail(side).astype(int)
    assert found.shape == expected.shape == (side, side, 3)
    # A wavelet at the border also sees the padding of the last tile, which is black here.
    found, expected = found[:-2, :-2], expected[:-2, :-2]
    assert np.abs(found - expected).mean() < (2.5 if kind == "jpeg2000" else 1.5)
    shifted = np.abs(found[:, 1:] - expected[:, :-1]).mean()
    assert shifted > 4 * np.abs(found - expected).mean(), "everything lies where it lay"


def test_the_largest_factor_that_keeps_enough_pixels(write_tiff: Callable[..., Path]) -> None:
    path = write(write_tiff, "jpeg")
    assert [found.factor if (found := reduced(path, scale)) else 0 for scale in (3.9, 4, 7.9, 8, 40)] == [0, 4, 4, 8, 8]
    with path.open("rb") as file:
        assert reduced_page(file, (SIDE, SIDE - 1), 8) is None, "no page of this size"


def test_other_compressions_and_damage_are_left_to_the_full_decode(write_tiff: Callable[..., Path]) -> None:
    assert reduced(write(write_tiff, "lossless"), 8) is None
    path = write(write_tiff, "jpeg")
    with tifffile.TiffFile(path) as tiff:
        offset, count = tiff.pages[0].dataoffsets[3], tiff.pages[0].databytecounts[3]
    whole = path.read_bytes()
    for broken in (b"\0" * count, whole[offset : offset + 40] + b"\0" * (count - 40), whole[:40]):
        path.write_bytes(whole[:offset] + broken + whole[offset + len(broken) :])
        assert reduced(path, 8) is None


def test_a_tile_that_lies_about_its_size_is_refused(write_tiff: Callable[..., Path]) -> None:
    """Its header is compared with the page before anything is decoded."""
    path = write(write_tiff, "jpeg2000")
    whole = path.read_bytes()
    at = whole.index(b"\xff\x4f\xff\x51") + 8  # width and height of the first tile
    path.write_bytes(whole[:at] + (60_000).to_bytes(4, "big") * 2 + whole[at + 8 :])
    assert reduced(path, 8) is None


@pytest.mark.shared
@pytest.mark.parametrize("name", ["CMU-1-Small-Region", "TCGA-CR-7395-01A-01-TS1_small", "kidney-HE-region"])
def test_real_slides(name: str, shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIDESEEK_ISOLATION", "off")  # what is patched is patched in this process
    path = shared_data / "slides-formats" / f"{name}.svs"
    with open_slide(path, mpp=0.25) as slide:
        found = slide.thumbnail(200).astype(int)
        monkeypatch.setattr(openslide_reader, "reduced_page", lambda *_: None)
        expected = slide.thumbnail(200).astype(int)
    assert 0 < np.abs(found - expected).mean() < 2


def test_what_a_former_version_read_of_such_slides_is_computed_again(
    write_tiff: Callable[..., Path], tmp_path: Path
) -> None:
    with open_slide(write(write_tiff, "jpeg"), mpp=0.5) as slide:
        assert slide.read_by.startswith("slideseek:openslide ")
    with slideseek.create(tmp_path / "archive", CONFIG) as archive:
        tiff, plain = write(write_tiff, "jpeg"), tmp_path / "plain.png"
        Image.fromarray(smooth()).save(plain)
        with archive.archive.writing():
            add_slides(archive.archive, [tiff, plain], stated=StatedMpp(0.5))
        assert archive.build().counts["ok"] == 2
        with archive.archive.writing(), archive.archive.catalog.transaction():  # as before readers were kept
            (settings,) = {record.settings for record in archive.archive.catalog.stages("select")}
            archive.archive.catalog.put_engine(READERS + settings, "", {})
        summary = archive.build()
        assert summary.counts["ok"] == summary.counts["skipped"] == 1
        assert any(f"all that was read of slide {tiff.stem!r} is computed again" in note for note in summary.notes)
        assert archive.build().counts["skipped"] == 2


def test_other_formats_of_the_same_reader_keep_their_results(write_tiff: Callable[..., Path]) -> None:
    with openslide_reader.OpenSlidePyramid(write(write_tiff, "jpeg"), "s", 0.5) as slide:
        slide.read_by = "slideseek:openslide 2 slideseek 0.1"
        assert slide.read_by
        slide.format = "mirax"
        assert slide.read_by == ""
