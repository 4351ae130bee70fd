"""A TIFF that was cut short is told from a complete one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

from slideseek_components.readers.tiff_layout import missing_bytes


def write(path: Path, **options: Any) -> Path:
    """Write three pages, the last under the second, with pixels that do not compress."""
    pixels = np.random.default_rng(0).integers(0, 256, (96, 96, 3), dtype=np.uint8)
    with tifffile.TiffWriter(path, **options) as tiff:
        tiff.write(pixels, tile=(32, 32), photometric="rgb", description="first")
        tiff.write(pixels, photometric="rgb", subifds=1, rowsperstrip=16)
        tiff.write(pixels[:48, :48], photometric="rgb", tile=(16, 16), compression="zlib")
    return path


KINDS = [{}, {"bigtiff": True}, {"byteorder": ">"}, {"bigtiff": True, "byteorder": ">"}]


@pytest.mark.parametrize("options", KINDS, ids=["classic", "big", "big-endian", "big-big-endian"])
def test_complete_and_cut(options: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path / "a.tif", **options)
    content = path.read_bytes()
    assert missing_bytes(path) == 0
    for size in [9, 20, *np.linspace(200, len(content) - 1, 60).astype(int).tolist(), len(content) - 1]:
        path.write_bytes(content[:size])
        assert missing_bytes(path) > 0, size


def test_the_number_is_what_the_pixels_lack(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((64, 64), np.uint8), metadata=None)
    path.write_bytes(path.read_bytes()[:-100])
    assert missing_bytes(path) == 100


def test_bytes_after_the_end_do_not_matter(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tif")
    path.write_bytes(path.read_bytes() + b"signature")
    assert missing_bytes(path) == 0


def test_empty_tiles_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "sparse.tif"
    tiles = iter([np.ones((16, 16), np.uint8), None, None, None])
    tifffile.imwrite(path, tiles, shape=(32, 32), dtype="uint8", tile=(16, 16), compression="zlib")
    with tifffile.TiffFile(path) as tiff:
        assert 0 in tiff.pages[0].databytecounts
    assert missing_bytes(path) == 0


def test_a_directory_that_refers_to_itself_ends(tmp_path: Path) -> None:
    path = tmp_path / "loop.tif"
    path.write_bytes(b"II*\0" + (8).to_bytes(4, "little") + (0).to_bytes(2, "little") + (8).to_bytes(4, "little"))
    assert missing_bytes(path) == 0


@pytest.mark.parametrize("magic", [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"])
def test_garbage_is_followed_without_an_accident(magic: bytes, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "garbage.tif"
    for length in rng.integers(0, 400, 200):
        path.write_bytes(magic + rng.integers(0, 256, length, dtype=np.uint8).tobytes())
        assert missing_bytes(path) >= 0


def test_damaged_headers_are_followed_without_an_accident(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = write(tmp_path / "a.tif")
    content = path.read_bytes()
    for _ in range(200):
        damaged = bytearray(content)
        for place in rng.integers(4, 400, 3):
            damaged[place] = rng.integers(0, 256)
        path.write_bytes(damaged)
        assert missing_bytes(path) >= 0


def test_no_real_slide_is_called_cut(shared_data: Path) -> None:
    files = [*shared_data.glob("slides-*/**/*.tif*"), *shared_data.glob("slides-formats/*.svs")]
    assert len(files) == 17
    assert [path.name for path in files if missing_bytes(path)] == []
