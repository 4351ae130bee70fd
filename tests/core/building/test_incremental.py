"""One slide more or less: the work is that of the slide, not of the archive, and the answers are exact."""

import os
import sqlite3

import numpy as np
import pytest

from slideseek.archive import slide_table
from slideseek.archive.adding import StatedMpp, add_slides
from slideseek.archive.archive import Archive
from slideseek.archive.removing import remove_slides
from slideseek.archive.schema import SEALED
from slideseek.building import index_saving
from slideseek.engine import Engine
from slideseek.indexing import live_index
from slideseek.indexing.live_index import open_engine, open_index
from slideseek.indexing.stage_cache import StageCache
from slideseek.plugins import load_registry
from slideseek.searching.searcher import Searcher
from slideseek.types import Bag

SLIDES = 1_500


class Counted:
    """Count the calls of functions."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls: dict[str, int] = {}
        self._patch = patch

    def watch(self, owner: object, name: str) -> None:
        real = getattr(owner, name)
        self.calls[name] = 0

        def counting(*given, **options):
            self.calls[name] += 1
            return real(*given, **options)

        self._patch.setattr(owner, name, counting)

    def taken(self) -> dict[str, int]:
        """Return the counts since the last time."""
        seen = dict(self.calls)
        self.calls.update(dict.fromkeys(self.calls, 0))
        return seen


def index_files(root):
    return {str(file): file.stat().st_mtime_ns for file in (root / "index").rglob("*") if file.is_file()}


def test_one_slide_costs_the_work_of_one_slide(tmp_path, growth, monkeypatch):
    root, slide = tmp_path / "archive", tmp_path / f"{growth.NEW}.png"
    growth.paint(slide)
    growth.synthetic_archive(root, "bars", SLIDES)
    registry = load_registry()
    with Archive(root) as archive:
        growth.build(archive, registry)
    saved = index_files(root)
    counted = Counted(monkeypatch)
    counted.watch(live_index, "unpack_code")
    counted.watch(slide_table, "_slide")
    counted.watch(Engine, "encode")
    monkeypatch.setattr(Engine, "probe_codes", lambda self, bags=(): None)

    with Archive(root) as archive:
        growth.build(archive, registry)
    assert counted.taken() == {"unpack_code": 0, "_slide": 0, "encode": 0}, "nothing to do"

    with Archive(root) as archive:
        add_slides(archive, [slide], stated=StatedMpp(1.0))
        growth.build(archive, registry)
    work = counted.taken()
    assert work["encode"] == 1 and work["unpack_code"] == 0 and work["_slide"] < 20
    assert index_files(root) == saved, "the saved index is left alone"

    with Archive(root) as archive:
        searcher = Searcher.open(archive, "bars", registry)
        answer = searcher.search(searcher.query(growth.NEW), 5, include_same_patient=True)
        assert answer.found[0].hit.slide_id == growth.NEW and answer.candidates == SLIDES + 1 and not answer.notes
        work = counted.taken()
        assert work["unpack_code"] == 1 and work["_slide"] < 20, "the one code, and the records of the hits"

        remove_slides(archive, [growth.NEW])
        assert growth.NEW not in [f.hit.slide_id for f in searcher.search(searcher.query("s0000007"), 5).found]
        assert growth.NEW not in searcher.index.ids and index_files(root) == saved
    with Archive(root) as archive:
        assert archive.catalog.changes.since(_codes(archive, registry), 0) == [growth.NEW]
        monkeypatch.setattr(index_saving, "CHANGED_SHARE", 0.0)
        growth.build(archive, registry)
        assert index_files(root).keys() != saved.keys(), "saved anew"
        assert archive.catalog.changes.since(_codes(archive, registry), 0) == []
        ids = open_index(archive, _engine(archive, registry), StageCache(archive, print))[0].ids
        assert len(ids) == SLIDES and growth.NEW not in ids


def _engine(archive, registry):
    return open_engine(archive, archive.config.engine("bars"), registry)


def _codes(archive, registry):
    return StageCache(archive, print).settings_digest(_engine(archive, registry), "encode")


def oracle(toy, held):
    """Return an index made at once of the codes of the held slides, and the codes."""
    with Archive(toy.root) as archive:
        engine = open_engine(archive, archive.config.engine("toy"), toy.registry)
    codes = []
    for slide_id, (seed, rows) in held.items():
        features = np.random.default_rng(seed).normal(size=(rows, 24)).astype(np.float32)
        codes.append(engine.encode(Bag(slide_id, features, np.zeros((rows, 2), np.int32), "s")))
    index = engine.new_index()
    index.add(codes)
    return index, codes


@pytest.mark.parametrize("seed", range(30))
def test_random_schedules_answer_as_a_set_of_slides(toy, seed, monkeypatch):
    """Add, change, remove, build, save anew and die between the steps: only what is committed counts."""
    rng = np.random.default_rng(seed)
    archive = toy()
    held: dict[str, tuple[int, int]] = {}
    built: dict[str, tuple[int, int]] = {}
    for step in range(14):
        action = rng.choice(["put", "put", "put", "remove", "build", "compact", "die"])
        name = f"s{rng.integers(8)}"
        if action == "put":
            held[name] = (int(rng.integers(1 << 30)), int(rng.integers(1, 5)))
            built.pop(name, None)
            archive.put(name, *held[name])
        elif action == "remove" and name in held:
            del held[name]
            built.pop(name, None)
            archive.remove(name)
        elif action in ("build", "compact"):
            with monkeypatch.context() as patch:
                patch.setattr(index_saving, "CHANGED_SHARE", 0.0 if action == "compact" else 10.0)
                archive.build()
            built = dict(held)
        elif action == "die":
            built = dict(held)
            with monkeypatch.context() as patch:
                patch.setattr(index_saving, "CHANGED_SHARE", 0.0)
                patch.setattr(index_saving, str(rng.choice(["seal_files", "IndexRow", "digest"])), dies)
                with pytest.raises(Killed):
                    archive.build()
                    raise Killed  # nothing had to be saved, so nothing was in the way
        if built:
            check(archive, built, step)


class Killed(BaseException):
    """The process ends here."""


def dies(*given, **options):
    raise Killed


def check(toy, held, step):
    expected, codes = oracle(toy, held)
    with Archive(toy.root) as archive:
        found = toy.searcher(archive)
        assert sorted(found.index.ids) == sorted(held), step
        for code in codes:
            assert found.index.search(code, 20) == expected.search(code, 20), step


INDEXES = {
    "hamming": ("yottixel", 'use = "hamming"'),
    "cosine": ("mean", 'use = "cosine"'),
    "annoy": ("mean", 'use = "annoy", exact_below = 0'),
}


@pytest.mark.parametrize("kind", INDEXES)
def test_any_damaged_file_is_named_and_the_codes_are_searched(toy, kind):
    archive = toy(*INDEXES[kind])
    for number in range(30):
        archive.put(f"s{number:02d}", number)
    archive.build()
    archive.put("s99", 99)
    archive.build()
    with Archive(archive.root) as opened:
        whole = archive.searcher(opened)
        answer = [hit.hit for hit in whole.search(whole.query("s99"), 40).found]
    assert len(answer) == 30
    files = [file for file in sorted((archive.root / "index").rglob("*")) if file.is_file()]
    assert len(files) >= 4
    for file in files:
        content = file.read_bytes()
        flipped = content[:-1] + bytes([content[-1] ^ 1])
        for damage in (content[: len(content) // 2], b"\x93NUMPY foreign", b"", flipped):
            file.write_bytes(damage)
            with Archive(archive.root) as opened:
                found = archive.searcher(opened).search(whole_query(archive, opened), 40)
            assert [hit.hit for hit in found.found] == answer
            assert any("cannot be used" in note and file.name in note for note in found.notes), (file, found.notes)
        file.write_bytes(content)
    files[0].write_bytes(b"")
    notes = archive.build()
    assert any("is damaged and is rebuilt" in note and files[0].name in note for note in notes)
    with Archive(archive.root) as opened:
        found = archive.searcher(opened).search(whole_query(archive, opened), 40)
        assert [hit.hit for hit in found.found] == answer and not found.notes


def whole_query(toy, opened):
    return toy.searcher(opened).query("s99")


def test_silent_damage_is_found_without_verify(toy):
    archive = toy()
    for number in range(5):
        archive.put(f"s{number}", number)
    archive.build()
    (file,) = (archive.root / "index").rglob("words-0.npy")
    before = file.stat()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with Archive(archive.root) as opened:
        found = archive.searcher(opened)
        answer = found.search(found.query("s0"), 5)
        assert len(answer.found) == 4 and any("words-0.npy is damaged" in note for note in answer.notes)
    assert any("words-0.npy" in note for note in archive.build())
    assert archive.build(verify=True) == []


def test_a_low_recall_is_told_at_build_and_at_search(toy):
    archive = toy("mean", 'use = "annoy", exact_below = 0, n_trees = 1, search_k = 1')
    for number in range(120):
        archive.put(f"s{number:03d}", number, rows=1)
    assert any(note.startswith("annoy finds") for note in archive.build())
    with Archive(archive.root) as opened:
        found = archive.searcher(opened)
        assert any(note.startswith("annoy finds") for note in found.search(found.query("s000"), 3).notes)


def test_a_searcher_follows_its_archive(toy):
    archive = toy()
    for number in range(4):
        archive.put(f"s{number}", number)
    archive.build()
    with Archive(archive.root) as opened:
        found = archive.searcher(opened)
        query = found.query("s0")
        assert {f.hit.slide_id for f in found.search(query, 9).found} == {"s1", "s2", "s3"}
        archive.put("s4", 4)
        archive.build()
        archive.remove("s1")
        assert {f.hit.slide_id for f in found.search(query, 9).found} == {"s2", "s3", "s4"}
        assert {f.hit.slide_id for f in found.search(query, 9, where=["seed>=3"]).found} == {"s3", "s4"}


def test_an_older_catalogue_is_brought_up_to_date(toy):
    archive = toy()
    for number in range(3):
        archive.put(f"s{number}", number)
    archive.build()
    with sqlite3.connect(archive.root / "catalog.sqlite") as db:
        for name in ("code_inserted", "code_updated", "code_deleted", "result_dropped"):
            db.execute(f"DROP TRIGGER {name}")
        for name in ("slide_inserted", "slide_updated", "slide_deleted"):
            db.execute(f"DROP TRIGGER {name}")
        for table in SEALED:
            db.execute(f"DROP TRIGGER {table}_sealed")
            db.execute(f"DROP TRIGGER {table}_sealed_again")
            db.execute(f"ALTER TABLE {table} DROP COLUMN seal")
        db.execute("DROP TABLE code_changes")
        db.execute("DROP INDEX stages_read_by")
        db.execute("ALTER TABLE stages DROP COLUMN made_by")
        db.execute("ALTER TABLE slides DROP COLUMN parts")
        db.execute("ALTER TABLE slides DROP COLUMN measured")
        db.execute("DROP TABLE known_failures")
        db.execute('UPDATE indexes SET files = \'{"words-0.npy": "an older form"}\'')
        db.execute("PRAGMA user_version = 1")
    db.close()
    with Archive(archive.root) as opened:
        found = archive.searcher(opened)
        answer = found.search(found.query("s0"), 5)
        assert len(answer.found) == 2 and any("has no saved index yet" in note for note in answer.notes)
    archive.put("s3", 3)
    assert archive.build() == []
    archive.remove("s0")
    with Archive(archive.root) as opened:
        assert sorted(archive.searcher(opened).index.ids) == ["s1", "s2", "s3"]


def test_a_catalogue_without_measures_is_brought_up_to_date(toy):
    archive = toy()
    for number in range(3):
        archive.put(f"s{number}", number)
    archive.build()
    with sqlite3.connect(archive.root / "catalog.sqlite") as db:
        for name in ("slide_updated", "slides_sealed", "slides_sealed_again"):
            db.execute(f"DROP TRIGGER {name}")
        db.execute("ALTER TABLE slides DROP COLUMN measured")
        for name in ("slide_updated", "slides_sealed", "slides_sealed_again"):
            db.execute(f"CREATE TRIGGER {name} AFTER UPDATE OF path ON slides BEGIN SELECT 1; END")
        db.execute("PRAGMA user_version = 5")
    db.close()
    with Archive(archive.root) as opened:
        slides = opened.catalog.slides
        with opened.catalog.transaction():
            slides.measure("s0", {"stain": "he"})
        assert slides.damaged() == [] and slides.field("measured") == {"s0": '{"stain":"he"}', "s1": "{}", "s2": "{}"}
        found = archive.searcher(opened)
        assert len(found.search(found.query("s0"), 5).found) == 2
