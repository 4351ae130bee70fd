"""Slides that come in any order, in pieces and under temporary names: nothing is lost, and nothing is taken twice."""

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from PIL import Image

from slideseek.archive.adding import StatedMpp
from slideseek.archive.archive import Archive
from slideseek.building.build import BuildOptions
from slideseek.building.reporting import Silent
from slideseek.engine import make_engines
from slideseek.errors import UsageError
from slideseek.plugins import load_registry
from slideseek.slides import content_fingerprint, reader
from slideseek.slides.slide_errors import first_bytes
from slideseek_apps.watch.watching import Arrivals, Watch, WatchOptions

COUNT = 50
CONFIG = """
[[engine]]
name       = "mean"
selector   = { use = "grid", size = 32, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "mean" }
index      = { use = "cosine" }
"""


class Clock:
    """Time that passes when it is told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def place(tmp_path, slideseek):
    """An empty archive and the empty folder to watch."""
    (tmp_path / "engines.toml").write_text(CONFIG)
    assert slideseek("init", tmp_path / "archive", "--config", tmp_path / "engines.toml").code == 0
    (tmp_path / "incoming").mkdir()
    return tmp_path / "archive", tmp_path / "incoming"


@pytest.fixture
def watching(place):
    """A function that makes a watch of the folder, as a process that starts does."""
    root, folder = place
    opened = []

    def make(clock, **options):
        archive = Archive(root)
        opened.append(archive)
        engines = make_engines(archive.config.engines, load_registry())
        what = WatchOptions(folder, settle=10.0, poll=5.0, stated=StatedMpp(1.0), **options)
        return Watch(archive, engines, what, BuildOptions(workers=0), Silent, clock)

    yield make
    for archive in opened:
        archive.close()


def slides_of(root):
    with Archive(root) as archive:
        return {row.id: row for row in archive.catalog.slides}


def test_fifty_slides_in_random_order(place, watching, tmp_path, paint_tiny, slideseek, monkeypatch):
    root, folder = place
    (tmp_path / "source").mkdir()
    sources = []
    for number in range(COUNT):
        sources.append(tmp_path / "source" / f"n{number:02d}.png")
        paint_tiny(sources[-1], number, number % 2 == 0, side=96)
    rng, clock = random.Random(3), Clock()
    unfinished, opened = set(), []
    real = first_bytes

    def reading(path):
        assert path.name not in unfinished, f"{path.name} was read while it was being written"
        opened.append(path.name)
        return real(path)

    for module in (reader, content_fingerprint):
        monkeypatch.setattr(module, "first_bytes", reading)

    def copied(source):
        """In two pieces, with pauses shorter than the time to settle."""
        data, target = source.read_bytes(), folder / source.name
        unfinished.add(source.name)
        cut = rng.randint(1, len(data) - 1)
        target.write_bytes(data[:cut])
        for _ in range(rng.randint(1, 3)):
            yield
            os.utime(target, ns=(1, int(clock.now * 1e9)))
        target.write_bytes(data)
        unfinished.discard(source.name)

    def moved(source):
        """Under a temporary name, then renamed."""
        half = folder / f"{source.name}.part"
        half.write_bytes(source.read_bytes()[:100])
        yield
        half.write_bytes(source.read_bytes())
        half.rename(folder / source.name)

    def stalled(source):
        """So slowly that half of it looks complete: it cannot be opened, and comes when it is whole."""
        (folder / source.name).write_bytes(source.read_bytes()[: source.stat().st_size // 2])
        for _ in range(6):
            yield
        (folder / source.name).write_bytes(source.read_bytes())

    waiting = [rng.choice((copied, copied, moved, moved, stalled))(source) for source in sources]
    rng.shuffle(waiting)
    active: list[Any] = []
    events: list[Any] = []
    watch = watching(clock)
    for look in itertools.count():
        while waiting and len(active) < 8:
            active.append(waiting.pop())
        active = [one for one in active if next(one, "done") != "done"]
        if look % 9 == 8:
            watch = watching(clock)  # stopped and started again: nothing is remembered but the archive
        events += watch.once()
        clock.now += 5.0
        if not active and not waiting:
            break
    for _ in range(4):
        events += watch.once()
        clock.now += 5.0
    assert not [event for event in events if event.event in ("error", "busy")]
    assert set(opened) == {source.name for source in sources}
    taken = [name for event in events if event.event == "taken" for name in event.data["added"]]
    assert sorted(taken) == sorted(source.stem for source in sources), "each of them, once"
    rows = slides_of(root)
    assert sorted(rows) == sorted(taken) and len({row.fingerprint for row in rows.values()}) == COUNT
    status = slideseek("status", "-a", root, "--json").json
    assert {slide["engines"]["mean"]["state"] for slide in status["slides"]} == {"done"}
    assert {slide["file"] for slide in status["slides"]} == {"same"}
    assert slideseek("search", "n00", "-k", "60", "-a", root, "--json").json["candidates"] == COUNT - 1


def test_a_slide_written_over_is_left_alone_until_it_is_complete(place, watching, paint_tiny):
    root, folder = place
    clock = Clock()
    for name in ("a", "b"):
        paint_tiny(folder / f"{name}.png", ord(name), True, side=96)
    watch = watching(clock)
    for _ in range(4):
        list(watch.once())
        clock.now += 5
    before = slides_of(root)
    whole = folder.parent / "whole.png"
    paint_tiny(whole, 7, False, side=96)
    (folder / "a.png").write_bytes(whole.read_bytes()[:500])
    paint_tiny(folder / "c.png", 8, True, side=96)
    built = [event for _ in range(1) for event in watch.once()]
    assert not built, "both are new: nothing to do yet"
    clock.now += 11
    (folder / "a.png").write_bytes(whole.read_bytes()[:600])
    events = {event.event: event.data for event in watch.once()}
    assert events["taken"]["added"] == ["c"] and events["built"]["slides"] == {"ok": 1, "skipped": 1}
    assert slides_of(root)["a"] == before["a"], "not read, and not forgotten"
    shutil.copy(whole, folder / "a.png")
    for _ in range(4):
        clock.now += 5
        events = {event.event: event.data for event in watch.once()} or events
    assert events["taken"]["updated"] == ["a"] and events["built"]["slides"]["ok"] == 1
    assert slides_of(root)["a"].fingerprint != before["a"].fingerprint


def test_a_manifest_names_the_slides_and_may_come_later(place, watching, paint_tiny):
    root, folder = place
    clock, manifest = Clock(), folder / "manifest.csv"
    manifest.write_text("slide_id,filename,case_id,mpp\nfirst,a.png,p1,1.0\nlater,z.png,p9,1.0\n")
    for name in ("a", "b"):
        paint_tiny(folder / f"{name}.png", ord(name), True, side=96)
    watch = watching(clock, manifest=manifest)
    taken = []

    def look():
        for event in watch.once():
            if event.event == "taken":
                assert not event.data["problems"]
                taken.extend(event.data["added"])
        clock.now += 6

    for _ in range(4):
        look()
    assert taken == ["first"] and slides_of(root)["first"].record.patient == "p1"
    manifest.write_text(manifest.read_text() + "second,b.png,p2,1.0\n")
    for _ in range(4):
        look()
    assert taken == ["first", "second"]


def test_a_failed_slide_is_tried_again_when_its_file_changes(place, watching, paint_tiny):
    folder, clock = place[1], Clock()
    Image.new("RGB", (96, 96), "white").save(folder / "a.png")  # no tissue
    watch = watching(clock)
    built: list[Any] = []

    def looks(count):
        for _ in range(count):
            built.extend(event.data for event in watch.once() if event.event == "built")
            clock.now += 6

    looks(4)
    assert list(built[-1]["failures"]) == ["a"]
    count = len(built)
    looks(3)
    assert len(built) == count
    paint_tiny(folder / "a.png", 1, True, side=96)
    looks(4)
    assert len(built) == count + 1 and built[-1]["slides"] == {"ok": 1} and not built[-1]["failures"]


def test_all_files_of_a_slide_must_have_settled(tmp_path):
    clock = Clock()
    (tmp_path / "a.mrxs").write_text("index")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "Data0001.dat").write_text("some")
    arrivals = Arrivals(tmp_path, 10.0, clock)
    assert arrivals.look() == []
    clock.now = 11
    (tmp_path / "a" / "Data0001.dat").write_text("some more")
    assert arrivals.look() == []
    clock.now = 22
    assert arrivals.look() == [tmp_path / "a.mrxs"]
    arrivals.take([tmp_path / "a.mrxs"])
    assert arrivals.look() == []


def test_an_archive_in_use_is_waited_for(place, watching, paint_tiny):
    root, folder = place
    clock = Clock()
    paint_tiny(folder / "a.png", 1, True, side=96)
    watch = watching(clock)
    list(watch.once())
    clock.now += 11
    with Archive(root) as other, other.writing():
        assert [event.event for event in watch.once()] == ["busy"]
    assert [event.event for event in watch.once()] == ["taken", "built"]


def test_an_engine_must_be_fitted_before(tmp_path, slideseek):
    (tmp_path / "engines.toml").write_text(CONFIG.replace('"mean" }', '"bovw" }'))
    slideseek("init", tmp_path / "archive", "--config", tmp_path / "engines.toml")
    (tmp_path / "incoming").mkdir()
    done = slideseek("build", "--watch", tmp_path / "incoming", "-a", tmp_path / "archive")
    assert done.code == 2 and "would fit it on the first slides that come" in done.err
    with pytest.raises(UsageError, match="is not a folder"), Archive(tmp_path / "archive") as archive:
        Watch(archive, [], WatchOptions(tmp_path / "nowhere"), BuildOptions(), Silent)


def test_options_that_do_not_go_with_a_watch(place, slideseek):
    root, folder = place
    assert slideseek("build", "--watch", folder, "--verify", "-a", root).code == 2


def test_the_command_ends_cleanly_on_sigterm(place, paint_tiny):
    root, folder = place
    paint_tiny(folder / "a.png", 1, True, side=96)
    command = [sys.executable, "-m", "slideseek", "watch", folder, "--settle", "0", "--poll", "0.1"]
    process = subprocess.Popen(
        [*map(str, command), "--mpp", "1.0", "-a", str(root), "--json"], stdout=subprocess.PIPE, text=True
    )
    lines = []
    started = time.monotonic()
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(json.loads(line))
        if (lines[-1]["event"] == "built" and "a" in slides_of(root)) or time.monotonic() - started > 120:
            process.send_signal(signal.SIGTERM)
            break
    lines += [json.loads(line) for line in process.stdout]
    assert process.wait(60) == 0
    assert lines[0]["event"] == "watching" and lines[-1] == {"event": "stopped", "slides": 1}
    with Archive(root) as archive, archive.writing():
        assert archive.catalog.runs()[-1]["outcome"] in ("done", "interrupted")
