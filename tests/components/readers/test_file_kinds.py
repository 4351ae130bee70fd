"""Opening files of every kind, and the one line each refusal is."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from slideseek.errors import SlideError
from slideseek.interfaces import Slide
from slideseek.slides.reader import open_slide
from slideseek_components.pixels.pyramid import as_pyramid
from slideseek_components.readers.image_reader import open_image


def refusal(path: Path, mpp: float | None = None) -> str:
    """Return the message of the refusal; it is one line without a path of a library or a traceback in it."""
    with pytest.raises(SlideError) as caught:
        open_slide(path, mpp=mpp)
    message = str(caught.value)
    assert caught.value.fix
    assert "\n" not in message
    assert "Traceback" not in message
    assert path.name in message
    return message


def picture(mode: str = "RGB", size: tuple[int, int] = (60, 40)) -> Image.Image:
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    pixels[:, : size[0] // 2] = (200, 40, 80)
    pixels[:, size[0] // 2 :] = (30, 160, 220)
    image = Image.fromarray(pixels)
    return image.quantize(8) if mode == "P" else image.convert(mode)


# --- refusals -------------------------------------------------------------------------------------------------------


def test_missing(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "nowhere.svs")


def test_folder(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path)


def test_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty.svs"
    path.touch()
    message = refusal(path)
    assert "empty (0 bytes)" in message
    assert "copy" in message


@pytest.mark.parametrize("name", ["notes.svs", "notes.tif", "notes.ndpi", "notes.png", "notes.dcm", "notes"])
def test_text_under_another_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("this is not a slide\n" * 20)
    assert "not a slide that OpenSlide or Pillow can read" in refusal(path)


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A real chmod says nothing where tests run as root, who may read everything.
    path = tmp_path / "locked.svs"
    path.write_bytes(b"II*\0")

    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)
    assert "permission denied" in refusal(path)


def test_disk_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "far.svs"
    path.write_bytes(b"II*\0")

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "open", fail)
    assert "Input/output error" in refusal(path)


def test_disk_error_behind_the_header(write_tiff: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setenv("SLIDESEEK_ISOLATION", "off")  # what is patched is patched in this process
    monkeypatch.setattr("slideseek_components.readers.tiff_layout.missing_bytes", fail)
    assert "Input/output error" in refusal(write_tiff(aperio="MPP = 0.5"))


@pytest.mark.parametrize("aperio", [None, "MPP = 0.5"])
@pytest.mark.parametrize("share", [0.002, 0.1, 0.5, 0.9])
def test_truncated_tiff(
    share: float, aperio: str | None, write_tiff: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (256, 256, 3), dtype=np.uint8)
    path = write_tiff(image=noise, aperio=aperio, resolution=(2e4, 2e4), unit="CENTIMETER")
    content = path.read_bytes()
    path.write_bytes(content[: max(5, int(len(content) * share))])
    message = refusal(path)
    assert "truncated" in message
    assert "copy" in message
    assert capfd.readouterr().err == ""


def test_a_complete_tiff_is_not_called_truncated(write_tiff: Callable[..., Path]) -> None:
    path = write_tiff(aperio="MPP = 0.5")
    with open_slide(path) as slide:
        assert slide.dimensions == (96, 64)


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_truncated_plain_image(kind: str, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, kind)
    path = tmp_path / f"half.{kind}"
    path.write_bytes(buffer.getvalue()[: len(buffer.getvalue()) // 2])
    assert "truncated" in refusal(path, mpp=0.5)


def test_mirax_without_its_folder(tmp_path: Path) -> None:
    # The .mrxs file is a valid JPEG of its own and must not be taken for the slide.
    path = tmp_path / "case.mrxs"
    picture().save(path, "jpeg")
    assert "without the folder" in refusal(path, mpp=0.5)


def test_negative_files_of_the_shared_data(shared_data: Path) -> None:
    negative = shared_data / "slides-formats" / "negative"
    assert "not a slide" in refusal(negative / "broken.svs")
    assert "0.00499 µm/px" in refusal(negative / "unsupported-webp.tiff")
    assert "0.00499 µm/px" in refusal(negative / "wrong-unit-mpp-0.005um.tiff")
    assert "896.1 µm/px" in refusal(shared_data / "slides-formats" / "prostate-HE-6level.tiff")
    for name in ("TCGA-CR-7395-01A-01-TS1_small.svs", "kidney-HE-region.svs"):
        assert "does not state its resolution" in refusal(shared_data / "slides-formats" / name)


def test_what_openslide_refuses_is_read_when_its_resolution_is_stated(shared_data: Path) -> None:
    formats = shared_data / "slides-formats"
    with (
        open_slide(formats / "negative" / "unsupported-webp.tiff", mpp=0.5) as webp,
        open_slide(formats / "CMU-1-Small-Region.svs") as original,
    ):
        assert webp.dimensions == original.dimensions
        difference = np.abs(webp.thumbnail(300).astype(int) - original.thumbnail(300))
        assert difference.mean() < 3


# --- decompression bombs --------------------------------------------------------------------------------------------


def png_header(width: int, height: int) -> bytes:
    """Return a PNG that claims a size and holds almost nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [14_000, 40_000, 2**31 - 1])
def test_bombs_are_refused_before_they_are_decoded(side: int, tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png_header(side, side))
    message = refusal(path, mpp=0.5)
    assert "178,956,970 pixels" in message
    assert "pyramidal" in message


def test_large_images_below_the_limit_give_no_warning(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    path.write_bytes(png_header(12_000, 10_000) + bytes(200_000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "truncated" in refusal(path, mpp=0.5)


def test_the_limit_holds_without_pillows_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIDESEEK_ISOLATION", "off")  # what is patched is patched in this process
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    path = tmp_path / "bomb.png"
    path.write_bytes(png_header(14_000, 14_000))
    assert "178,956,970 pixels" in refusal(path, mpp=0.5)


def test_an_image_with_more_pixels_than_its_file_can_describe(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    Image.new("1", (12_650, 12_650)).save(path)
    assert path.stat().st_size < 25_000
    assert "decompression bomb" in refusal(path, mpp=0.5)
    Image.new("1", (4000, 4000)).save(path)  # a small blank one takes no harm
    with open_slide(path, mpp=0.5) as slide:
        assert slide.dimensions == (4000, 4000)


def test_untiled_tiff_beyond_the_limit(write_tiff: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tiff(tile=16)
    monkeypatch.setenv("SLIDESEEK_ISOLATION", "off")  # what is patched is patched in this process
    monkeypatch.setattr("slideseek_components.readers.whole_images.MAX_PLAIN_PIXELS", 96 * 64 - 1)
    monkeypatch.setattr("openslide.OpenSlide.detect_format", classmethod(lambda *_: None))
    assert "has more than 6,143 pixels" in refusal(path, mpp=0.5)


# --- plain images ---------------------------------------------------------------------------------------------------


def test_id_and_resolution_are_the_callers(tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    picture().save(path)
    with as_pyramid(open_slide(path, mpp=0.5)) as slide:
        assert isinstance(slide, Slide)
        assert (slide.id, slide.mpp, slide.format, slide.objective) == ("photo", 0.5, "png", None)
        assert slide.dimensions == (60, 40)
    with open_slide(path, "case-1", 0.25) as slide:
        assert (slide.id, slide.mpp) == ("case-1", 0.25)


def test_without_a_resolution_a_plain_image_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    picture().save(path)
    assert "--mpp" in refusal(path)


@pytest.mark.parametrize("kind", ["png", "jpeg"])
@pytest.mark.parametrize("dpi", [72, 96, 300])
def test_print_densities_are_no_resolution(kind: str, dpi: int, tmp_path: Path) -> None:
    path = tmp_path / f"photo.{kind}"
    picture().save(path, kind, dpi=(dpi, dpi))
    message = refusal(path)
    assert "screen or print density" in message
    assert f"of {25_400 / dpi:.3g}"[:-1] in message


def test_a_real_density_counts(tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    picture().save(path, dpi=(50_800, 50_800))
    with open_slide(path) as slide:
        assert slide.mpp == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "CMYK", "YCbCr"])
def test_colour_modes(mode: str, tmp_path: Path) -> None:
    path = tmp_path / ("photo.jpg" if mode in ("CMYK", "YCbCr") else "photo.png")
    options: dict[str, Any] = {"quality": 100, "subsampling": 0} if path.suffix == ".jpg" else {}
    picture(mode).save(path, **options)
    with open_slide(path, mpp=0.5) as slide:
        got = slide.read((0, 0), 40, 0.5)
    assert np.abs(got[20, 5].astype(int) - (200, 40, 80)).max() <= 6
    assert np.abs(got[20, 38].astype(int) - (30, 160, 220)).max() <= 6


def test_grey_and_black_and_white(tmp_path: Path) -> None:
    for mode, bright in (("L", 180), ("1", 255)):
        grey = np.zeros((30, 30), np.uint8)
        grey[:, 15:] = bright
        Image.fromarray(grey).convert(mode).save(tmp_path / "grey.png")
        with open_slide(tmp_path / "grey.png", mpp=0.5) as slide:
            got = slide.read((0, 0), 30, 0.5)
        assert got[5, 5].tolist() == [0, 0, 0]
        assert got[5, 25].tolist() == [bright] * 3


def test_transparency_shows_white(tmp_path: Path) -> None:
    image = picture("RGBA")
    image.putalpha(Image.new("L", image.size, 0))
    image.save(tmp_path / "clear.png")
    with open_slide(tmp_path / "clear.png", mpp=0.5) as slide:
        assert (slide.read((0, 0), 20, 0.5) == 255).all()
        assert slide.filled == 400


@pytest.mark.parametrize(("bits", "top"), [(16, 65_535), (12, 4_095), (10, 1_023), (8, 255)])
@pytest.mark.parametrize("kind", ["png", "tif"])
def test_deep_grey_keeps_its_contrast(bits: int, top: int, kind: str, tmp_path: Path) -> None:
    ramp = np.linspace(0, top, 256).astype(np.uint16)[None, :].repeat(20, axis=0)
    path = tmp_path / f"deep.{kind}"
    if kind == "png":
        Image.fromarray(ramp).save(path)
    else:
        tifffile.imwrite(path, ramp)
    with open_slide(path, mpp=0.5) as slide:
        got = slide.read((0, 0), 256, 0.5)[10]
    assert np.abs(got[:, 0].astype(int) - np.arange(256)).max() <= 1
    assert (got[:, 0] == got[:, 2]).all()


# --- TIFF that OpenSlide refuses ------------------------------------------------------------------------------------


def rgb_array() -> np.ndarray:
    return np.asarray(picture(size=(64, 48)))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "lzw"},
        {"compression": "zlib", "predictor": True},
        {"planarconfig": "separate"},
        {"compression": "webp", "tile": (16, 16), "compressionargs": {"lossless": True}},
    ],
    ids=["strips", "lzw", "predictor", "planes", "webp"],
)
def test_tiff_kinds(options: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "odd.tif"
    image = rgb_array()
    data = np.moveaxis(image, -1, 0) if "planarconfig" in options else image
    tifffile.imwrite(path, data, photometric="rgb", resolution=(2e4, 2e4), resolutionunit="CENTIMETER", **options)
    with as_pyramid(open_slide(path)) as slide:
        assert slide.format == "tiff"
        assert slide.mpp == pytest.approx(0.5)
        assert np.array_equal(slide.read((0, 0), 48, 0.5), image[:, :48])


def test_tiff_of_16_bit_colour(tmp_path: Path) -> None:
    path = tmp_path / "deep.tif"
    tifffile.imwrite(path, rgb_array().astype(np.uint16) * 257, photometric="rgb")
    with open_slide(path, mpp=0.5) as slide:
        got = slide.read((0, 0), 48, 0.5)
    assert np.abs(got.astype(int) - rgb_array()[:, :48]).max() <= 4


@pytest.mark.parametrize("mode", ["P", "L", "1", "CMYK", "RGBA"])
def test_tiff_modes(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "mode.tif"
    image = picture(mode, (64, 48))
    image.save(path)
    with open_slide(path, mpp=0.5) as slide:
        got = slide.read((0, 0), 48, 0.5)
    assert np.abs(got.astype(int) - np.asarray(image.convert("RGB"))[:, :48]).max() <= 2


def test_tiff_where_zero_is_white(tmp_path: Path) -> None:
    path = tmp_path / "inverted.tif"
    tifffile.imwrite(path, np.full((20, 20), 10, np.uint8), photometric="miniswhite")
    with open_slide(path, mpp=0.5) as slide:
        assert (slide.read((0, 0), 20, 0.5) == 245).all()


def test_tiff_of_many_channels_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "channels.tif"
    tifffile.imwrite(path, np.zeros((20, 30, 7), np.uint8), photometric="minisblack", planarconfig="contig")
    assert "(20, 30, 7)" in refusal(path, mpp=0.5)


def test_garbage_after_a_tiff_header(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "garbage.tif"
    path.write_bytes(b"II*\0" + bytes(range(256)) * 8)
    assert "truncated or damaged" in refusal(path, mpp=0.5)
    assert capfd.readouterr().err == ""


def test_every_image_error_is_a_refusal(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    buffer = io.BytesIO()
    picture().save(buffer, "png")
    for trial in range(40):
        content = bytearray(buffer.getvalue())
        for place in rng.integers(8, len(content), 6):
            content[place] = rng.integers(0, 256)
        path = tmp_path / f"{trial}.png"
        path.write_bytes(content)
        try:
            open_image(path, "x", 0.5).thumbnail(32)
        except SlideError as error:
            assert "\n" not in str(error)
