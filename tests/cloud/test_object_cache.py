"""The cache of remote objects: its bound, its checks, and many processes at once."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from slideseek.errors import SlideError, UsageError
from slideseek_components.readers import object_cache
from slideseek_components.readers.object_cache import BLOCK, ObjectCache
from slideseek_components.readers.object_store import StoredObject

SIZE = 6 * BLOCK + 1234


def content(url: str) -> bytes:
    return np.random.default_rng(int(url.rpartition("/")[2])).bytes(SIZE)


def one(number: int, version: str = "v1") -> StoredObject:
    return StoredObject(f"s3://bucket/{number}", SIZE, version)


def on_disk(folder: Path) -> int:
    """Return the bytes of the file system that a folder takes."""
    found = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                found += os.stat(os.path.join(where, name)).st_blocks * 512
    return found


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int, int]]]:
    """Serve every object from memory; the ranges that were asked for."""
    asked: list[tuple[str, int, int]] = []

    def read(wanted: StoredObject, start: int, end: int) -> bytes:
        asked.append((wanted.url, start, end))
        return content(wanted.url)[start:end]

    monkeypatch.setattr(object_cache, "read_range", read)
    yield asked


def test_what_was_read_is_not_fetched_again(tmp_path: Path, fetched: list[tuple[str, int, int]]) -> None:
    cache = ObjectCache(tmp_path, 10**9)
    for start, size in ((0, 10), (BLOCK - 5, 10), (SIZE - 100, 1000), (3 * BLOCK, 2 * BLOCK), (SIZE, 5)):
        opened = cache.open(one(1))
        assert opened.read(start, size) == content("s3://bucket/1")[start : start + size]
        opened.close()
    before = len(fetched)
    opened = cache.open(one(1))
    assert opened.whole().read_bytes() == content("s3://bucket/1")
    opened.close()
    again = cache.open(one(1))
    assert again.whole().read_bytes() == content("s3://bucket/1") and again.fetched == 0
    again.close()
    covered = sum(end - start for _, start, end in fetched)
    assert covered == SIZE and len(fetched) > before  # every byte travelled once


def test_a_new_version_is_another_object(tmp_path: Path, fetched: list[tuple[str, int, int]]) -> None:
    cache = ObjectCache(tmp_path, 10**9)
    for version in ("v1", "v2", "v1"):
        opened = cache.open(one(1, version))
        opened.read(0, 10)
        opened.close()
    assert len(fetched) == 2


def test_a_flipped_bit_in_the_cache_is_fetched_again(tmp_path: Path, fetched: list[tuple[str, int, int]]) -> None:
    cache = ObjectCache(tmp_path, 10**9)
    opened = cache.open(one(1))
    path = opened.whole()
    opened.close()
    damaged = bytearray(path.read_bytes())
    damaged[2 * BLOCK + 7] ^= 4
    path.write_bytes(damaged)
    fetched.clear()
    opened = cache.open(one(1))
    assert opened.read(0, SIZE) == content("s3://bucket/1")
    assert fetched == [("s3://bucket/1", 2 * BLOCK, 3 * BLOCK)]
    assert opened.whole().read_bytes() == content("s3://bucket/1")
    opened.close()


def test_the_bound_is_never_exceeded(tmp_path: Path, fetched: list[tuple[str, int, int]]) -> None:
    limit = 3 * SIZE
    cache = ObjectCache(tmp_path / "cache", limit)
    largest, stop = 0, threading.Event()

    def watch() -> None:
        nonlocal largest
        while not stop.is_set():
            with cache._alone():  # otherwise files would come and go while they are counted
                largest = max(largest, on_disk(tmp_path / "cache"))
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    wrong: list[int] = []

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(12):
            number = int(rng.integers(0, 8))
            opened = cache.open(one(number))
            start = int(rng.integers(0, SIZE))
            if opened.read(start, BLOCK) != content(f"s3://bucket/{number}")[start : start + BLOCK]:
                wrong.append(number)
            opened.close()

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(8):  # whole objects, one after the other: each makes room for the next
        opened = cache.open(one(number))
        assert opened.whole().read_bytes() == content(f"s3://bucket/{number}")
        opened.close()
    stop.set()
    watcher.join()
    assert not wrong and 0 < largest <= limit and cache.used() <= limit


def test_the_least_recently_used_makes_room_and_never_an_open_one(
    tmp_path: Path, fetched: list[tuple[str, int, int]]
) -> None:
    cache = ObjectCache(tmp_path, int(2.5 * SIZE))
    kept = cache.open(one(0))
    kept.whole()
    for number in (1, 2):
        opened = cache.open(one(number))
        opened.whole()
        opened.close()
    fetched.clear()
    kept.read(0, SIZE)
    assert not fetched  # it was open
    again = cache.open(one(1))
    again.read(0, 1)
    assert fetched  # 1 made room for 2
    again.close()
    kept.close()


def test_without_room_bytes_are_passed_on_and_a_whole_slide_is_an_error(
    tmp_path: Path, fetched: list[tuple[str, int, int]]
) -> None:
    cache = ObjectCache(tmp_path, 2 * BLOCK)
    opened = cache.open(one(5))
    assert opened.read(0, SIZE) == content("s3://bucket/5")
    assert cache.used() <= 2 * BLOCK
    with pytest.raises(SlideError, match="does not fit into the cache"):
        opened.whole()
    opened.close()
    nothing = ObjectCache(tmp_path / "none", 0).open(one(5))
    assert nothing.read(10, 20) == content("s3://bucket/5")[10:30]
    nothing.close()


def test_a_removal_that_was_cut_off_is_cleared(tmp_path: Path, fetched: list[tuple[str, int, int]]) -> None:
    cache = ObjectCache(tmp_path, int(1.5 * SIZE))
    opened = cache.open(one(1))
    path = opened.whole()
    opened.close()
    (path.parent / "digests").unlink()
    (tmp_path / "used").write_text("not a number")
    opened = cache.open(one(2))
    assert opened.whole().read_bytes() == content("s3://bucket/2") and not path.exists()
    opened.close()


PROCESS = """
import sys, numpy as np
from pathlib import Path
from slideseek_components.readers import object_cache
from slideseek_components.readers.object_store import StoredObject
SIZE = 6 * object_cache.BLOCK + 1234
content = lambda url: np.random.default_rng(int(url.rpartition("/")[2])).bytes(SIZE)
object_cache.read_range = lambda one, start, end: content(one.url)[start:end]
cache = object_cache.ObjectCache(Path(sys.argv[1]), int(2.2 * SIZE))
rng = np.random.default_rng(int(sys.argv[2]))
for _ in range(20):
    number = int(rng.integers(0, 5))
    opened = cache.open(StoredObject(f"s3://bucket/{number}", SIZE, "v1"))
    start = int(rng.integers(0, SIZE))
    assert opened.read(start, 5000) == content(f"s3://bucket/{number}")[start : start + 5000]
    opened.close()
"""


def test_processes_share_a_cache_within_its_bound(tmp_path: Path) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", PROCESS, str(tmp_path), str(seed)], env=os.environ.copy())
        for seed in range(3)
    ]
    largest, cache = 0, ObjectCache(tmp_path, 0)
    while any(process.poll() is None for process in started):
        with cache._alone():
            largest = max(largest, on_disk(tmp_path))
        time.sleep(0.01)
    assert [process.returncode for process in started] == [0, 0, 0]
    assert 0 < largest <= 2.2 * SIZE


def test_the_bound_and_the_folder_are_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLIDESEEK_CACHE_GB", raising=False)
    monkeypatch.setenv("SLIDESEEK_CACHE", str(tmp_path / "here"))
    assert ObjectCache.standard() == ObjectCache(tmp_path / "here", 20 * 10**9)
    monkeypatch.setenv("SLIDESEEK_CACHE_GB", "0.5")
    assert ObjectCache.standard().limit == 5 * 10**8
    for wrong in ("many", "-1", "inf"):
        monkeypatch.setenv("SLIDESEEK_CACHE_GB", wrong)
        with pytest.raises(UsageError, match="SLIDESEEK_CACHE_GB"):
            ObjectCache.standard()
    (tmp_path / "file").write_text("")
    with pytest.raises(SlideError, match="cannot be written"):
        ObjectCache(tmp_path / "file", 10).open(one(1))
