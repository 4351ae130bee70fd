"""Slides read where they lie: the same pixels, only the bytes that are needed, and clear errors."""

import io
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from servers import Ranges, dicom_levels, write_series

from slideseek.errors import SlideError
from slideseek.interfaces import OpenedSlide
from slideseek.slides.reader import open_slide
from slideseek.slides.remote_path import RemotePath, located
from slideseek.slides.remote_slides import find_remote, look_up, look_up_all
from slideseek.types import is_url
from slideseek_components.pixels.pyramid import as_pyramid

Put = Callable[[str, bytes], str]


def assert_same_pixels(opened: OpenedSlide, expected: OpenedSlide) -> None:
    with as_pyramid(opened) as one, as_pyramid(expected) as other:
        assert (one.levels, one.mpp, one.objective) == (other.levels, other.mpp, other.objective)
        np.testing.assert_array_equal(one.thumbnail(100), other.thumbnail(100))
        width, height = one.dimensions
        places = ((0, 0), (width // 3, height // 4), (width - 40, height - 30), (-50, -20))
        for xy in places:
            for factor in (1.0, 1.7, 2.0, 5.0):
                np.testing.assert_array_equal(one.read(xy, 96, one.mpp * factor), other.read(xy, 96, one.mpp * factor))


def test_a_url_is_a_path_with_its_own_text() -> None:
    path = located("s3://bucket/folder/slide.svs")
    assert isinstance(path, RemotePath) and str(path) == "s3://bucket/folder/slide.svs"
    assert (path.name, path.stem, path.suffix, str(path.parent)) == ("slide.svs", "slide", ".svs", "s3://bucket/folder")
    assert str(located("s3://bucket/series/*")) == "s3://bucket/series" and located(path) is path
    assert str(located("idc:tcga_brca")) == "idc:tcga_brca" and isinstance(located("idc:"), RemotePath)
    assert located("file:///data/a.svs") == Path("/data/a.svs") and not is_url("C:/slides/a.svs")
    assert type(located("plain/a.svs")) is type(Path("a")) and not is_url("plain:a.svs")


@pytest.mark.parametrize("levels", (1, 3))
@pytest.mark.parametrize("compression", ("jpeg", "zlib"))
def test_tiled_tiff_has_the_pixels_of_the_file(
    s3: Put, write_tiff: Callable[..., Path], texture: Callable[..., np.ndarray], levels: int, compression: str
) -> None:
    options = {"aperio": "AppMag = 20|MPP = 0.5"} if compression == "jpeg" else {"resolution": (20000, 20000)}
    unit = {} if compression == "jpeg" else {"unit": "CENTIMETER"}
    local = write_tiff("a.svs", texture(1), compression=compression, levels=levels, **options, **unit)
    url = s3(f"pixels/{compression}{levels}.svs", local.read_bytes())
    remote = open_slide(located(url))
    assert type(remote).__name__ == "RemoteTiff"
    assert_same_pixels(remote, open_slide(local))


def test_other_slides_are_fetched_whole_and_have_the_same_pixels(
    s3: Put, write_tiff: Callable[..., Path], texture: Callable[..., np.ndarray], tmp_path: Path
) -> None:
    odd = write_tiff("odd.tif", texture(2)[:500, :333], levels=3, resolution=(20000, 20000), unit="CENTIMETER")
    picture = tmp_path / "picture.png"
    Image.fromarray(texture(3)).save(picture)
    for local in (odd, picture):
        remote = open_slide(located(s3(f"whole/{local.name}", local.read_bytes())), mpp=0.5)
        assert type(remote).__name__ == "FetchedSlide"
        assert_same_pixels(remote, open_slide(local, mpp=0.5))


def test_a_dicom_series_has_the_pixels_of_the_files(
    s3: Put, texture: Callable[..., np.ndarray], tmp_path: Path
) -> None:
    instances = dicom_levels(texture(4, side=640), 0.5, "P-1", levels=3)
    first = write_series(tmp_path / "series", instances)
    for number, one in enumerate(instances):
        s3(f"dicom/series/{number}.dcm", one)
    assert [record.path for record in find_remote(located("s3://dicom/series/"))] == ["s3://dicom/series"]
    remote = open_slide(located("s3://dicom/series"))
    assert type(remote).__name__ == "DicomPyramid"
    assert_same_pixels(remote, open_slide(first))


@pytest.mark.shared
def test_real_slides_have_the_pixels_of_the_files(s3: Put, shared_data: Path) -> None:
    formats = shared_data / "slides-formats"
    kinds = set()
    for local in (formats / "CMU-1-Small-Region.svs", formats / "prostate-HE-6level.tiff"):
        remote = open_slide(located(s3(f"real/{local.name}", local.read_bytes())), mpp=0.5)
        kinds.add(type(remote).__name__)
        assert_same_pixels(remote, open_slide(local, mpp=0.5))
    for local in sorted((formats / "cmu-dicom").iterdir()):
        s3(f"real/cmu/{local.name}", local.read_bytes())
    assert_same_pixels(open_slide(located("s3://real/cmu")), open_slide(local))
    assert kinds == {"RemoteTiff", "FetchedSlide"}


def test_only_the_tiles_that_are_read_travel(
    web: tuple[str, type[Ranges]], write_tiff: Callable[..., Path], cache: Path
) -> None:
    address, served = web
    noise = np.random.default_rng(0).integers(0, 255, (2048, 2048, 3), np.uint8)
    local = write_tiff("big.tif", noise, tile=256, resolution=(20000, 20000), unit="CENTIMETER")
    served.files["/big.tif"] = local.read_bytes()
    with open_slide(located(f"{address}/big.tif")) as slide:
        slide.read((0, 0), 256, slide.mpp)
    sent = sum(int(last) - int(first) + 1 for first, last in _ranges(served))
    assert 0 < sent < len(served.files["/big.tif"]) / 4
    before = len(served.asked)
    with open_slide(located(f"{address}/big.tif")) as slide:
        slide.read((0, 0), 256, slide.mpp)
    assert _ranges(served, before) == []  # the cache has them


def test_a_connection_that_is_cut_goes_on_from_there(
    web: tuple[str, type[Ranges]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, served = web
    monkeypatch.setattr("slideseek_components.readers.object_store.PAUSE", 0.01)
    monkeypatch.setattr("slideseek_components.readers.object_cache.AT_ONCE", 2)
    local = tmp_path / "noise.png"
    Image.fromarray(np.random.default_rng(1).integers(0, 255, (1000, 1000, 3), np.uint8)).save(local)
    served.files["/noise.png"] = local.read_bytes()
    url = located(f"{address}/noise.png")
    served.cut = 3
    assert_same_pixels(open_slide(url, mpp=0.5), open_slide(local, mpp=0.5))
    asked = _ranges(served)
    assert served.cut == 0 and len(asked) == len(set(asked)) + 3  # three were asked for again, the others once
    served.files["/other.png"], served.asked[:] = local.read_bytes() + b"\0", []
    served.cut = 1000
    with pytest.raises(SlideError, match=r"http://.*/other.png cannot be read"):
        open_slide(located(f"{address}/other.png"), mpp=0.5)
    served.cut = 0
    served.asked[:] = []
    open_slide(located(f"{address}/other.png"), mpp=0.5).close()
    first = {int(first) for first, _ in _ranges(served)}
    assert 0 in first


def test_what_arrived_before_the_line_was_cut_is_not_fetched_again(
    web: tuple[str, type[Ranges]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from slideseek_components.readers.object_cache import BLOCK, ObjectCache
    from slideseek_components.readers.object_store import objects_at

    address, served = web
    monkeypatch.setattr("slideseek_components.readers.object_store.ATTEMPTS", 1)
    served.files["/a"] = np.random.default_rng(2).bytes(8 * BLOCK + 100)
    found = objects_at(f"{address}/a")
    assert found is not None
    first = ObjectCache.standard().open(found[0][0])
    assert first.read(0, 3 * BLOCK) == served.files["/a"][: 3 * BLOCK]
    served.cut = 1
    with pytest.raises(SlideError):
        first.whole()
    first.close()
    served.asked[:] = []
    again = ObjectCache.standard().open(found[0][0])
    assert again.whole().read_bytes() == served.files["/a"] and again.fetched == 5 * BLOCK + 100
    assert min(int(first) for first, _ in _ranges(served)) == 3 * BLOCK
    again.close()


def test_an_object_replaced_while_it_is_read_is_not_mixed(
    s3: Put, web: tuple[str, type[Ranges]], write_tiff: Callable[..., Path]
) -> None:
    address, served = web
    noise = np.random.default_rng(0).integers(0, 255, (1024, 1024, 3), np.uint8)
    local = write_tiff("big.tif", noise, tile=256, resolution=(20000, 20000), unit="CENTIMETER").read_bytes()
    served.files["/big.tif"] = local
    for url, replace_it in (
        (f"{address}/big.tif", lambda: served.files.update({"/big.tif": local[:-1] + b"!"})),
        (s3("mixed/big.tif", local), lambda: s3("mixed/big.tif", local[:-1] + b"!")),
    ):
        with open_slide(located(url)) as slide:
            replace_it()
            with pytest.raises(SlideError, match="changed while it was read"):
                slide.read((768, 768), 256, slide.mpp)


def test_versions_are_looked_up_without_reading(s3: Put, web: tuple[str, type[Ranges]]) -> None:
    address, served = web
    served.files["/a.svs"] = b"x" * 1000
    size, version, content = look_up(located(f"{address}/a.svs"))
    assert size == 1000 and content.startswith("object-sha256:")
    assert [method for method, _ in served.asked] == ["HEAD"]
    served.files["/a.svs"] = b"y" * 1000
    assert look_up(located(f"{address}/a.svs"))[1:] != (version, content)
    url = s3("versions/a.svs", b"one")
    before = look_up(located(url))
    s3("versions/a.svs", b"two")
    assert look_up(located(url))[0] == before[0] and look_up(located(url))[2] != before[2]
    urls = [url, "s3://versions/gone.svs", f"{address}/gone.svs", "http://127.0.0.1:9/none.svs"]
    found = look_up_all(urls)
    assert found == {url: look_up(located(url))[:2], urls[1]: None, urls[2]: None}  # the last one is out of reach


@pytest.mark.parametrize(
    ("url", "message"),
    (
        ("https://user:pass-word@host/a.svs", "contains a password"),
        ("https://host/a.svs?X-Amz-Signature=abc", "contains a password or a signature"),
        ("nonsense://host/a.svs", "no installed reader reaches"),
        ("http://127.0.0.1:9/a.svs", "cannot be reached"),
    ),
)
def test_urls_that_cannot_be_used_are_one_clear_line(cache: Path, url: str, message: str) -> None:
    with pytest.raises(SlideError, match=message) as found:
        look_up(located(url))
    assert "pass-word" not in str(found.value) and "abc" not in str(found.value)


def test_slides_that_cannot_be_read_elsewhere_say_why(s3: Put) -> None:
    for name, data, message in (
        ("a.mrxs", b"x", "consists of several files"),
        ("empty.svs", b"", "is empty"),
        ("text.svs", b"hello" * 100, "is not a slide"),
    ):
        with pytest.raises(SlideError, match=message):
            open_slide(located(s3(f"bad/{name}", data)))
    with pytest.raises(SlideError, match="nothing is at"):
        open_slide(located("s3://bad/none.svs"))


def test_many_threads_read_one_slide(s3: Put, write_tiff: Callable[..., Path]) -> None:
    noise = np.random.default_rng(3).integers(0, 255, (1024, 1024, 3), np.uint8)
    local = write_tiff("big.tif", noise, tile=128, resolution=(20000, 20000), unit="CENTIMETER")
    wrong: list[object] = []
    with open_slide(located(s3("threads/big.tif", local.read_bytes()))) as slide:

        def read(number: int) -> None:
            for step in range(8):
                x, y = 100 * step, 90 * number
                if not np.array_equal(slide.read((x, y), 120, slide.mpp), noise[y : y + 120, x : x + 120]):
                    wrong.append((x, y))

        threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_folder_of_slides_is_listed(s3: Put, texture: Callable[..., np.ndarray]) -> None:
    buffer = io.BytesIO()
    Image.fromarray(texture(0, side=64)).save(buffer, "PNG")
    for name in ("a.png", "deep/b.png", "notes.txt", "deep/.hidden.png"):
        s3(f"folder/slides/{name}", buffer.getvalue())
    for number, one in enumerate(dicom_levels(texture(0, side=128), 0.5, "P")):
        s3(f"folder/slides/series/{number}.dcm", one)
    found = [record.path for record in find_remote(located("s3://folder/slides"))]
    assert found == [f"s3://folder/slides/{name}" for name in ("a.png", "deep/b.png", "series")]


def _ranges(served: type[Ranges], start: int = 0) -> list[tuple[str, str]]:
    """Return the ranges asked for, as (first, last)."""
    asked = [text for method, text in served.asked[start:] if method == "GET" and text]
    return [(text.removeprefix("bytes=").partition("-")[0], text.rpartition("-")[2]) for text in asked]
