"""The catalogue: commits, generations, and catalogues that cannot be used."""

import sqlite3

import pytest

from slideseek.archive.catalog import Catalog
from slideseek.archive.records import IndexRow, Payload, StageRecord
from slideseek.archive.slide_table import SlideRow
from slideseek.digests import Seal
from slideseek.errors import SlideseekError
from slideseek.types import SlideRecord


@pytest.fixture
def catalog(tmp_path):
    made = Catalog(tmp_path / "catalog.sqlite", create=True)
    with made.transaction():
        record = SlideRecord("a", "a.svs", "p", "colon", "ade", "A2", 0.5, fields={"age": "60"})
        made.slides.put(SlideRow(record, "sha256:1", 10, 5))
    yield made
    made.close()


def record(status="done", key="k", stage="encode", settings="s"):
    return StageRecord("a", stage, settings, key, status, "cause" if status == "failed" else "")


def test_slide_round_trip(catalog):
    row = catalog.slides.get("a")
    assert row.record.fields == {"age": "60"} and row.record.mpp == 0.5
    assert list(catalog.slides) == [row] and catalog.slides.ids() == ["a"]
    assert catalog.slides.by_fingerprint("sha256:1") == [row]
    assert catalog.slides.get("zzz") is None


def test_a_failed_transaction_leaves_nothing(catalog):
    with pytest.raises(RuntimeError), catalog.transaction():
        catalog.put_stage(record())
        raise RuntimeError
    assert catalog.stage("a", "encode", "s") is None


def test_attempts_are_counted(catalog):
    for status in ("failed", "failed", "done"):
        with catalog.transaction():
            catalog.put_stage(record(status))
    assert catalog.stage("a", "encode", "s").attempts == 3
    assert catalog.stage("a", "encode", "s").status == "done"


def test_any_change_of_codes_is_a_new_generation(catalog):
    seen = [catalog.changes.generation("s")]

    def step():
        seen.append(catalog.changes.generation("s"))

    with catalog.transaction():
        catalog.put_stage(record())
    step()
    with catalog.transaction():
        catalog.put_stage(record(key="k2"))
    step()
    with catalog.transaction():
        catalog.put_stage(record(stage="select"))
    assert catalog.changes.generation("s") == seen[-1], "only codes count"
    with catalog.transaction():
        catalog.slides.remove("a")
    step()
    assert seen == sorted(set(seen)), "every step is a new generation, also a removal that cascades"


def test_a_file_belongs_to_the_last_key_that_wrote_it(catalog):
    with catalog.transaction():
        catalog.put_payload(Payload("old", "features", {}, "1", file="features/a.h5"))
        catalog.put_payload(Payload("new", "features", {}, "2", file="features/a.h5"))
    assert catalog.payload("old") is None and catalog.payload("new").sha256 == "2"


def test_a_newer_catalogue_is_refused(catalog, tmp_path):
    path = tmp_path / "newer.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(SlideseekError, match="newer slideseek"):
        Catalog(path)


def test_a_file_that_is_no_catalogue_is_refused(tmp_path):
    path = tmp_path / "bad.sqlite"
    path.write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(SlideseekError, match="not a database"):
        Catalog(path)
    with pytest.raises(SlideseekError, match="missing"):
        Catalog(tmp_path / "none.sqlite")


def test_durability_settings(catalog):
    assert catalog._db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert catalog._db.execute("PRAGMA synchronous").fetchone()[0] == 2


def index_of(codes, generation, engine="e"):
    return IndexRow(engine, "i", codes, generation, "index/e/1", {"f": Seal("0", 1, "2")}, 1, 1)


def test_changes_are_listed_once_an_index_is_saved(catalog):
    def step(act, *given):
        with catalog.transaction():
            act(*given)
        return catalog.changes.since("s", 0)

    assert step(catalog.put_stage, record()) == [], "no index has to catch up with it"
    assert step(catalog.put_index, index_of("s", 1)) == [] and catalog.index("e").files == {"f": Seal("0", 1, "2")}
    assert step(catalog.put_stage, record(settings="other")) == []
    assert step(catalog.put_stage, record(key="k2")) == ["a"]
    assert step(catalog.slides.rename, "a", "b") == ["a", "b"], "the old name is gone, the new one has a code"
    assert catalog.changes.since("s", 2) == ["a", "b"] and catalog.changes.since("s", 3) == []
    assert step(catalog.put_index, index_of("s", 1, "slow")) == ["a", "b"], "one index is still behind"
    assert step(catalog.put_index, index_of("s", 3)) == ["a", "b"]
    assert step(catalog.put_index, index_of("s", 3, "slow")) == []
    assert step(catalog.slides.remove, "b") == ["b"]
    assert step(catalog.put_index, index_of("other", 0)) == ["b"]
    assert step(catalog.put_index, index_of("other", 0, "slow")) == [], "nothing is made of these codes any more"


def test_a_dropped_result_takes_its_record_along(catalog):
    with catalog.transaction():
        catalog.put_payload(Payload("featurize", "features", {}, "1", data=b""))
        catalog.put_payload(Payload("encode", "code", {}, "1", data=b""))
        catalog.put_payload(Payload("select", "patches", {}, "1", data=b""))
        for stage in ("featurize", "encode", "select"):
            catalog.put_stage(record(key=stage, stage=stage))
    assert catalog.work.count("featurize", "s") == 1 and catalog.work.undone("encode", "s") == []
    with catalog.transaction():
        for key in ("featurize", "encode", "select"):
            catalog.drop_payload(key)
    assert catalog.work.undone("featurize", "s") == ["a"] and catalog.stage("a", "encode", "s") is None
    assert catalog.stage("a", "select", "s") is not None, "imported places are recorded without being kept"


def test_a_result_kept_again_keeps_its_record(catalog):
    features = Payload("k", "features", {}, "1", file="features/a.h5")
    with catalog.transaction():
        catalog.put_payload(features)
        catalog.put_stage(record("failed", stage="featurize"))
        catalog.put_stage(record(stage="featurize"))
        catalog.put_payload(features)
    assert catalog.stage("a", "featurize", "s").attempts == 2


def test_a_snapshot_does_not_move(catalog, tmp_path):
    other = Catalog(catalog.path)
    with other.snapshot(), other.snapshot():
        assert len(other.slides) == 1
        with catalog.transaction():
            catalog.slides.remove("a")
        assert other.slides.ids() == ["a"]
    assert other.slides.ids() == []
    other.close()


def test_an_index_ahead_of_its_codes_is_not_used(catalog):
    """A damaged counter would hide every later change from a saved index."""
    with catalog.transaction():
        catalog.put_stage(record())
        catalog.put_index(IndexRow("e", "i", "s", 1, "index/e/1", {}, 1, 1))
    assert catalog.index("e") is not None and not catalog.damaged()
    with catalog.transaction():
        catalog._db.execute("UPDATE generations SET value = 0 WHERE settings = 's'")
    assert catalog.index("e") is None and catalog.damaged() == {"generations": ["e"]}
