"""The parts of the server on their own: directory, caches, grid, worker pools, uploads, messages, assets."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from slideseek.archive.slide_table import SlideRow
from slideseek.errors import SlideError, UsageError
from slideseek.types import SlideRecord
from slideseek_apps.viewer.assets import load_assets
from slideseek_apps.viewer.hide_paths import without_paths
from slideseek_apps.viewer.opaque_slide_keys import slide_key
from slideseek_apps.viewer.open_slide_cache import OpenSlideCache
from slideseek_apps.viewer.slide_directory import Selection, SlideDirectory
from slideseek_apps.viewer.tile_cache import TileCache
from slideseek_apps.viewer.tiles import TILE, Grid
from slideseek_apps.viewer.uploads import Uploads
from slideseek_apps.viewer.worker_pools import BusyError, WorkerPool
from slideseek_components.pixels.array_slide import ArraySlide


def rows(count):
    for at in range(count):
        record = SlideRecord(
            f"s{at:06d}",
            f"/secret/s{at:06d}.svs",
            patient=f"P{at // 3}",
            site=("colon", "lung", "skin")[at % 3],
            label=f"d{at % 7}",
            fields={"grade": str(at % 4), "age": str(at)},
        )
        yield SlideRow(record, f"print{at}", 1, at)


@pytest.fixture(scope="module")
def many():
    return SlideDirectory(rows(100_000))


@pytest.mark.slow
def test_a_hundred_thousand_slides_are_paged_and_counted_exactly(many):
    picked = Selection({"site": frozenset({"colon"}), "label": frozenset({"d0", "d1"})})
    expected = [at for at in range(100_000) if at % 3 == 0 and at % 7 in (0, 1)]
    total, page = many.page(picked, "id", 500, 10)
    assert total == len(expected)
    assert [entry.record.id for entry in page] == [f"s{at:06d}" for at in expected[500:510]]
    counts = many.counts(picked)
    assert dict(counts["label"])["d2"] == sum(at % 3 == 0 and at % 7 == 2 for at in range(100_000))
    assert sum(number for _, number in counts["site"]) == sum(at % 7 in (0, 1) for at in range(100_000))
    assert many.facets == ("site", "label", "grade")  # no centre is known, and an age is not a facet


def test_a_field_that_groups_nothing_is_not_a_facet():
    def row(at):
        fields = {"scanner": "one", "commit": f"c{at}", "stain": "HE" if at % 2 else "PAS", "grade": str(at % 7)}
        return SlideRow(SlideRecord(f"s{at}", f"s{at}.svs", fields=fields), f"print{at}", 1, at)

    # All slides are of one scanner, each has a commit of its own; few values are of use even to few slides.
    assert SlideDirectory([row(at) for at in range(11)]).facets == ("grade", "stain")


def test_words_and_order(many):
    total, page = many.page(Selection({}, "P33 s0001"), "label", 0, 10)
    assert total == 2 and [entry.record.label for entry in page] == sorted(entry.record.label for entry in page)
    assert many.get(slide_key("s000100")) is many.of_id("s000100")
    assert many.get("s000100") is None and many.page(Selection({"x": frozenset("y")}), "id", 0, 1)[0] == 0


def test_keys_are_opaque_and_stay_the_same():
    assert slide_key("colon-ade-01") == slide_key("colon-ade-01") != slide_key("colon-ade-02")
    assert "colon" not in slide_key("colon-ade-01") and len(slide_key("x" * 1000)) == 24


def slide(side=32):
    return ArraySlide(np.zeros((side, side, 3), np.uint8), 0.5)


def test_a_slide_is_opened_once_and_never_closed_under_a_reader():
    slides, opened = OpenSlideCache(most=2), []

    def open_one():
        opened.append(slide())
        return opened[-1]

    with slides.lend("a", open_one) as first, slides.lend("a", open_one) as second:
        assert first is second
        for name in "bcd":  # pushes "a" out while it is lent
            with slides.lend(name, open_one):
                pass
        first.read((0, 0), 8, 0.5)
    with pytest.raises(SlideError, match="closed"):
        first.read((0, 0), 8, 0.5)
    assert len(opened) == 4 and len(slides) <= 2


def test_large_plain_images_are_not_all_kept():
    slides = OpenSlideCache(most=100, nbytes=3 * 64 * 64 * 2)
    for name in "abcde":
        with slides.lend(name, lambda: slide(64)):
            pass
    assert len(slides) == 2


def test_a_slide_that_cannot_be_opened_is_asked_for_again():
    slides = OpenSlideCache()

    def fails():
        raise SlideError("gone")

    for _ in range(2):
        with pytest.raises(SlideError, match="gone"), slides.lend("a", fails):
            pass
    assert len(slides) == 0
    with slides.lend("a", slide) as opened:
        assert opened.dimensions == (32, 32)


def test_many_threads_share_one_opening():
    slides, opened = OpenSlideCache(), []
    gate = threading.Barrier(8)

    def open_one():
        opened.append(slide())
        return opened[-1]

    def read(_):
        gate.wait()
        with slides.lend("a", open_one) as lent:
            return lent.read((0, 0), 8, 0.5).shape

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(read, range(8))) == {(8, 8, 3)}
    assert len(opened) == 1


def test_the_cache_keeps_the_latest_within_its_bytes():
    cache = TileCache(10, len)
    for name in "abc":
        cache.put(name, name * 4)
    assert cache.get("a") is None and cache.get("b") == "bbbb" and cache.nbytes == 8
    cache.put("d", "dddd")  # "b" was used since "c" was put
    assert cache.get("c") is None and cache.get("b") == "bbbb"
    cache.put("e", "e" * 11)
    cache.put("b", "b")
    assert cache.get("e") is None and cache.nbytes == 5


@pytest.mark.parametrize(("width", "height"), [(1, 1), (256, 256), (257, 100), (1000, 3333), (100_000, 80_000)])
def test_the_tiles_of_every_level_cover_it_exactly(width, height):
    grid = Grid(width, height, (1.0, 1.0))
    assert grid.size(0) == (1, 1) and grid.size(grid.levels - 1) == (width, height)
    for level in range(max(0, grid.levels - 4), grid.levels):
        across, down = grid.size(level)
        columns, lines = -(-across // TILE), -(-down // TILE)
        in_row = [grid.shape(level, column, 0) or (0, 0) for column in range(columns)]
        in_column = [grid.shape(level, 0, line) or (0, 0) for line in range(lines)]
        assert sum(width for width, _ in in_row) == across and sum(height for _, height in in_column) == down
        assert grid.shape(level, columns, 0) is None and grid.shape(level, 0, lines) is None
    assert grid.shape(grid.levels, 0, 0) is None and grid.shape(-1, 0, 0) is None


def test_a_lane_refuses_what_is_too_much_and_recovers():
    lane, gate = WorkerPool("test", workers=1, waiting=3), threading.Event()

    async def crowd():
        waiting = [asyncio.create_task(lane.run(gate.wait)) for _ in range(3)]
        await asyncio.sleep(0.01)
        with pytest.raises(BusyError):
            await lane.run(gate.wait)
        gate.set()
        await asyncio.gather(*waiting)
        await asyncio.sleep(0.01)
        return await lane.run(int, "7")

    assert asyncio.run(crowd()) == 7
    lane.close()


def encoded(tmp_path, value, side=32):
    path = tmp_path / "made.png"
    Image.fromarray(np.full((side, side, 3), value, np.uint8)).save(path)
    return path.read_bytes()


def test_uploads_are_few_named_by_their_pixels_and_deleted(tmp_path):
    folder = tmp_path / "uploads"
    folder.mkdir()
    uploads = Uploads(folder, most=2)
    first = uploads.add(encoded(tmp_path, 10))
    assert uploads.add(encoded(tmp_path, 10)) is first
    for value in (20, 30):
        uploads.add(encoded(tmp_path, value))
    assert uploads.get(first.key) is None and not first.path.exists() and len(list(folder.iterdir())) == 2
    with pytest.raises(UsageError, match="5000 x 5000"):
        uploads.add(encoded(tmp_path, 0, 5000))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/data/my slides/a.svs does not exist", "a.svs does not exist"),
        ("cannot read '/mnt/x/y.tif' (damaged)", "cannot read 'y.tif' (damaged)"),
        (r"C:\slides\a.svs is empty", "a.svs is empty"),
        ("0.5 µm/px and 20/40 stay; 1/2", "0.5 µm/px and 20/40 stay; 1/2"),
        ("run 'slideseek build', then search again", "run 'slideseek build', then search again"),
    ],
)
def test_messages_lose_their_folders(text, told):
    assert without_paths(text, "/data/my slides/a.svs") == told


def test_the_page_needs_nothing_from_elsewhere():
    assets = load_assets()
    assert {"index.html", "js/main.js", "vendor/openseadragon.min.js", "vendor/openseadragon.LICENSE.txt"} <= set(
        assets
    )
    page = assets["index.html"].data.decode()
    assert "http://" not in page and "https://" not in page and "<style" not in page and " style=" not in page
    assert page.count("<script") == page.count("<script src=")
    for name, asset in assets.items():
        if name.startswith(("js/", "css/")):
            text = asset.data.decode()
            assert "http://" not in text and "https://" not in text and "innerHTML" not in text, name


def test_one_subject_does_not_take_all_threads():
    """Four slow pieces of work on one slide, in a pool of four threads: work on another slide does not wait."""
    release = threading.Event()

    async def main():
        pool = WorkerPool("test", workers=4, waiting=16, share=2)
        slow = [asyncio.create_task(pool.run_on("slow", release.wait, 20)) for _ in range(4)]
        try:
            await asyncio.sleep(0.1)
            return await asyncio.wait_for(pool.run_on("other", lambda: "done"), timeout=10)
        finally:
            release.set()
            await asyncio.gather(*slow)
            assert pool._turns == {} and pool._subjects.total() == 0
            pool.close()

    assert asyncio.run(main()) == "done"
