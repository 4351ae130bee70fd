"""Series of a DICOMweb server: listed, looked up and read frame by frame, with a token that is not kept."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from servers import DicomWeb, dicom_levels, web_server, write_series

from slideseek.errors import SlideError
from slideseek.slides.reader import open_slide
from slideseek.slides.remote_path import located
from slideseek.slides.remote_slides import find_remote, look_up
from slideseek_components.pixels.pyramid import as_pyramid

pytest.importorskip("wsidicom", reason="DICOMweb needs slideseek[cloud]")


def test_a_series_has_the_pixels_of_its_files(
    texture: Callable[..., np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slideseek: Any
) -> None:
    from pydicom import dcmread

    first = [dicom_levels(texture(seed, side=384), 0.5, f"P{seed}") for seed in range(2)]
    local = write_series(tmp_path / "series", first[0])
    served = [dcmread(io.BytesIO(data)) for series in first for data in series]
    with web_server(DicomWeb, instances=served, token="my-token") as (address, _):
        server = f"dicomweb+{address}"
        monkeypatch.delenv("SLIDESEEK_DICOMWEB_TOKEN", raising=False)
        with pytest.raises(SlideError, match=r"cannot be reached .*401.*SLIDESEEK_DICOMWEB_TOKEN"):
            find_remote(located(server))
        monkeypatch.setenv("SLIDESEEK_DICOMWEB_TOKEN", "my-token")
        found = find_remote(located(server))
        assert sorted(record.patient for record in found) == ["P0", "P1"]
        url = next(record.path for record in found if record.patient == "P0")
        assert url == f"{server}/studies/{served[0].StudyInstanceUID}/series/{served[0].SeriesInstanceUID}"
        assert look_up(located(url)) == look_up(located(url))
        study = url.partition("/series/")[0]
        assert [record.path for record in find_remote(located(study))] == [url]
        with as_pyramid(open_slide(located(url))) as remote, as_pyramid(open_slide(local)) as file:
            assert (remote.levels, remote.mpp) == (file.levels, file.mpp)
            for xy, factor in (((0, 0), 1.0), ((200, 180), 2.0), ((350, 350), 1.3)):
                np.testing.assert_array_equal(remote.read(xy, 96, 0.5 * factor), file.read(xy, 96, 0.5 * factor))
        archive = tmp_path / "archive"
        slideseek("init", archive)
        assert slideseek("add", server, "-a", archive).out.startswith("2 added")
        assert all(b"my-token" not in path.read_bytes() for path in archive.rglob("*") if path.is_file())
    with pytest.raises(SlideError, match="cannot be reached"):
        look_up(located(url))
