"""Pictures as data addresses, and scale bars of round length."""

import base64
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from slideseek_apps.reports.page_images import jpeg_data_uri, length_label, scale_bar


def test_jpeg_holds_the_picture() -> None:
    rgb = np.zeros((24, 40, 3), dtype=np.uint8)
    rgb[:, 20:] = (200, 80, 160)
    head, _, payload = jpeg_data_uri(rgb).partition(",")
    assert head == "data:image/jpeg;base64"
    with Image.open(io.BytesIO(base64.b64decode(payload))) as image:
        assert image.format == "JPEG" and image.size == (40, 24)
        read = np.asarray(image, dtype=np.int16)
    assert np.abs(read[:, :12] - 0).max() < 8
    assert np.abs(read[:, 28:] - np.array([200, 80, 160])).max() < 8


def test_lower_quality_is_smaller() -> None:
    rgb = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    assert len(jpeg_data_uri(rgb, quality=40)) < len(jpeg_data_uri(rgb, quality=90))


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 4), (0, 8, 3)])
def test_jpeg_refuses_what_is_not_a_picture(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="rgb: must be uint8"):
        jpeg_data_uri(np.zeros(shape, dtype=np.uint8))


@pytest.mark.parametrize(
    ("mpp", "width", "length", "label"),
    [(2.0, 512, 200, "200 µm"), (0.5, 256, 20, "20 µm"), (20.0, 400, 2000, "2 mm"), (10.0, 500, 1000, "1 mm")],
)
def test_scale_bar_is_round(mpp: float, width: int, length: float, label: str) -> None:
    micrometres, pixels = scale_bar(mpp, width)
    assert micrometres == pytest.approx(length)
    assert pixels == pytest.approx(length / mpp)
    assert length_label(micrometres) == label


@given(st.floats(1e-3, 1e4), st.integers(1, 20_000))
def test_scale_bar_always_fits_and_is_never_tiny(mpp: float, width: int) -> None:
    micrometres, pixels = scale_bar(mpp, width)
    assert 0.3 * width / 2.5 - 1e-6 <= pixels <= 0.3 * width + 1e-6
    mantissa = micrometres / 10 ** np.floor(np.log10(micrometres) + 1e-9)
    assert min(abs(mantissa - step) for step in (1, 2, 5)) < 1e-6


@pytest.mark.parametrize(("mpp", "width"), [(0, 100), (-1, 100), (float("nan"), 100), (float("inf"), 100), (1, 0)])
def test_scale_bar_names_what_is_wrong(mpp: float, width: int) -> None:
    with pytest.raises(ValueError, match=r"mpp: must be more than 0|width: must be at least 1"):
        scale_bar(mpp, width)
