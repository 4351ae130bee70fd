"""The painted slides: the same bytes every time, readable like a scanner's file, different where they should be."""

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import openslide
import pytest
from scipy import ndimage

from slideseek.types import UInt8
from slideseek_apps.demo.histology import COLUMNS, DemoSlide, demo_slides, paint, write_demo, write_slide
from slideseek_apps.demo.histology.cells import scatter
from slideseek_apps.demo.histology.fields import enlarge, smooth_noise

SIDE = 1024


@pytest.fixture(scope="module")
def painted() -> dict[str, UInt8]:
    return {slide.record.id: paint(slide, SIDE) for slide in demo_slides(2)}


def by_id(slide_id: str) -> DemoSlide:
    return next(slide for slide in demo_slides(2) if slide.record.id == slide_id)


def test_plan_covers_two_sites_with_two_subtypes_each() -> None:
    slides = demo_slides(patients=4)
    assert Counter((s.record.site, s.record.label) for s in slides) == {
        ("colon", "adenocarcinoma"): 4,
        ("colon", "normal mucosa"): 4,
        ("breast", "ductal carcinoma"): 4,
        ("breast", "lobular carcinoma"): 4,
    }
    assert slides[2].record.id == "colon-ade-03"
    assert len({s.record.id for s in slides}) == len({s.record.patient for s in slides}) == len(slides)
    assert len({s.seed for s in slides}) == len(slides)
    for label in {s.record.label for s in slides}:
        assert len({s.record.center for s in slides if s.record.label == label}) > 1


def test_more_patients_leave_the_first_slides_as_they_are() -> None:
    assert by_id("breast-lob-01").seed == next(s for s in demo_slides(9) if s.record.id == "breast-lob-01").seed
    assert demo_slides(2, seed=1)[0].seed != demo_slides(2)[0].seed


@pytest.mark.parametrize("slide_id", ["colon-nor-01", "breast-duc-01"])
def test_painting_again_gives_the_same_bytes(painted: dict[str, UInt8], slide_id: str) -> None:
    assert painted[slide_id].tobytes() == paint(by_id(slide_id), SIDE).tobytes()


def test_slides_differ_from_patient_to_patient(painted: dict[str, UInt8]) -> None:
    first, second = (painted[f"colon-ade-0{i}"].astype(np.float32) for i in (1, 2))
    assert np.abs(first - second).mean() > 10


def test_tissue_lies_on_bright_glass(painted: dict[str, UInt8]) -> None:
    for slide_id, rgb in painted.items():
        assert rgb.shape == (SIDE, SIDE, 3) and rgb.dtype == np.uint8
        background = (rgb.min(axis=2) > 225).mean()
        assert 0.3 < background < 0.7, (slide_id, background)
        border = np.concatenate([rgb[:8].reshape(-1, 3), rgb[-8:].reshape(-1, 3), rgb[:, :8].reshape(-1, 3)])
        assert border.mean() > 235 and 0 < border.std(axis=0).max() < 4, slide_id


def test_tissue_has_the_colours_of_haematoxylin_and_eosin(painted: dict[str, UInt8]) -> None:
    for slide_id, rgb in painted.items():
        pixels = rgb[rgb.min(axis=2) < 200].astype(np.float32)
        red, green, blue = np.median(pixels, axis=0)
        assert min(red, blue) > green + 15, slide_id  # pink to violet
        dark = pixels[pixels.sum(axis=1) < np.quantile(pixels.sum(axis=1), 0.05)].mean(axis=0)
        assert dark[2] > dark[0] > dark[1], slide_id  # nuclei are blue to violet


def core_area(rgb: UInt8) -> float:
    """Return the mean area in pixels of connected dark cores: stratified dark nuclei run together."""
    red = ndimage.gaussian_filter(rgb[..., 0].astype(np.float32), 1.0)
    core = red < 0.72 * np.median(red[rgb.min(axis=2) < 215])
    return float(core.sum() / ndimage.label(core)[1])


def alignment(rgb: UInt8) -> float:
    """Return how far edges share one direction within 10 pixels: 0 not at all, 1 fully."""
    slope_y, slope_x = np.gradient(ndimage.gaussian_filter(rgb[..., 0].astype(np.float32), 1.5))
    xx, yy, xy = (ndimage.gaussian_filter(f, 10) for f in (slope_x**2, slope_y**2, slope_x * slope_y))
    tissue = ndimage.binary_opening(rgb.min(axis=2) < 215, iterations=2)
    return float(np.median((np.hypot(xx - yy, 2 * xy) / (xx + yy + 1e-3))[tissue]))


def test_subtypes_differ_in_architecture(painted: dict[str, UInt8]) -> None:
    area = {kind: np.mean([core_area(painted[f"{kind}-0{i}"]) for i in (1, 2)]) for kind in ("colon-ade", "colon-nor")}
    assert area["colon-ade"] > 1.4 * area["colon-nor"]
    order = {
        kind: np.mean([alignment(painted[f"{kind}-0{i}"]) for i in (1, 2)]) for kind in ("breast-duc", "breast-lob")
    }
    assert order["breast-lob"] > 1.3 * order["breast-duc"]


def test_openslide_reads_a_scanner_like_pyramid(tmp_path: Path, painted: dict[str, UInt8]) -> None:
    path = tmp_path / "a.svs"
    write_slide(path, painted["colon-ade-01"])
    with openslide.OpenSlide(path) as slide:
        assert slide.properties["openslide.vendor"] == "aperio"
        assert float(slide.properties["openslide.mpp-x"]) == 0.5
        assert float(slide.properties["openslide.mpp-y"]) == 0.5
        assert slide.properties["openslide.objective-power"] == "20"
        assert slide.level_dimensions == ((1024, 1024), (256, 256))
        read = np.asarray(slide.read_region((256, 256), 0, (512, 512)).convert("RGB"), dtype=np.float32)
        small = np.asarray(slide.read_region((0, 0), 1, (256, 256)).convert("RGB"), dtype=np.float32)
    original = painted["colon-ade-01"].astype(np.float32)
    assert np.abs(read - original[256:768, 256:768]).mean() < 4
    assert np.abs(small - original.reshape(256, 4, 256, 4, 3).mean(axis=(1, 3))).mean() < 4


@pytest.mark.parametrize("shape", [(300, 700), (2100, 900)])
def test_writing_any_shape_is_exact_in_size_and_repeatable(tmp_path: Path, shape: tuple[int, int]) -> None:
    rgb = np.random.default_rng(0).integers(0, 255, (*shape, 3), dtype=np.uint8)
    write_slide(tmp_path / "a.svs", rgb, mpp=0.25)
    write_slide(tmp_path / "b.svs", rgb, mpp=0.25)
    assert (tmp_path / "a.svs").read_bytes() == (tmp_path / "b.svs").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.svs", "b.svs"]
    with openslide.OpenSlide(tmp_path / "a.svs") as slide:
        assert slide.dimensions == shape[::-1]
        assert slide.properties["openslide.objective-power"] == "40"


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.svs"
    path.write_bytes(b"old")

    def full(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("tifffile.TiffWriter.write", full)
    with pytest.raises(OSError, match="disk full"):
        write_slide(path, np.zeros((64, 64, 3), dtype=np.uint8))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_write_demo_writes_slides_and_manifest(tmp_path: Path) -> None:
    seen: list[str] = []
    manifest = write_demo(tmp_path / "new" / "demo", patients=1, side=256, on_slide=seen.append)
    with manifest.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS == ("slide_id", "filename", "case_id", "primary_site", "diagnosis", "center")
    assert [row["slide_id"] for row in rows] == seen == [s.record.id for s in demo_slides(1)]
    assert {p.name for p in manifest.parent.iterdir()} == {row["filename"] for row in rows} | {"manifest.csv"}
    assert rows[1]["primary_site"] == "colon" and rows[1]["diagnosis"] == "normal mucosa"


def test_wrong_sizes_are_named() -> None:
    with pytest.raises(ValueError, match="patients: at least 1, not 0"):
        demo_slides(0)
    with pytest.raises(ValueError, match="side: at least 256 and a multiple of 8, not 300"):
        paint(demo_slides(1)[0], 300)
    with pytest.raises(ValueError, match="mpp: more than 0"):
        write_slide("a.svs", np.zeros((8, 8, 3), dtype=np.uint8), mpp=0)
    with pytest.raises(ValueError, match=r"rgb: uint8 \(h, w, 3\)"):
        write_slide("a.svs", np.zeros((8, 8), dtype=np.uint8))


def test_scattered_points_keep_their_distance() -> None:
    density = np.zeros((64, 64), dtype=np.float32)
    density[:32] = 1
    xy = scatter(np.random.default_rng(0), density, 4, 12.0)
    gaps = np.linalg.norm(xy[:, None] - xy[None], axis=2) + 1e3 * np.eye(len(xy))
    assert gaps.min() >= 12
    assert len(xy) > 0.5 * 256 * 128 / 12**2  # dense, not merely far apart
    assert (xy[:, 1] < 128 + 4).all()


@pytest.mark.parametrize("grain", [2.6, 20.0])
def test_smooth_noise_has_unit_variance_and_the_asked_grain(grain: float) -> None:
    field = smooth_noise(np.random.default_rng(0), 512, grain)
    assert field.dtype == np.float32 and 0.85 < field.std() < 1.15
    step = round(grain * 3)
    assert np.corrcoef(field[:, :-1].ravel(), field[:, 1:].ravel())[0, 1] > 0.8
    assert abs(np.corrcoef(field[:, :-step].ravel(), field[:, step:].ravel())[0, 1]) < 0.25


def test_enlarging_keeps_level_and_place() -> None:
    field = np.zeros((32, 32), dtype=np.float32)
    field[8, 20] = 1
    large = enlarge(field, 128)
    assert large.sum() == pytest.approx(16, rel=1e-4)
    assert ndimage.center_of_mass(large) == pytest.approx((8.5 * 4 - 0.5, 20.5 * 4 - 0.5), abs=0.01)
