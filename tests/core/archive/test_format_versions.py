"""Golden archives: every version of the format that was ever written can be opened, a newer one is refused."""

import json
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from slideseek.archive.catalog import with_seals
from slideseek.archive.schema import VERSION

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture
def golden(tmp_path):
    with tarfile.open(GOLDEN / f"archive-{VERSION}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path / "archive"


def test_there_is_a_golden_archive_of_this_version_and_it_is_small():
    assert (GOLDEN / f"archive-{VERSION}.tar.xz").stat().st_size < 100_000


@pytest.mark.parametrize("engine", ["bars", "fitted"])
def test_a_golden_archive_answers_as_when_it_was_written(golden, slideseek, engine):
    done = slideseek("search", "s0", "-a", golden, "--engine", engine, "--json")
    assert done.code == 0, done.err
    expected = json.loads((golden / "answers.json").read_text())[engine]
    assert [hit["slide"]["id"] for hit in done.json["hits"]] == [slide_id for slide_id, _ in expected]
    assert [hit["distance"] for hit in done.json["hits"]] == pytest.approx([at for _, at in expected], rel=1e-6)
    assert not done.json["notes"]


def test_a_golden_archive_is_whole(golden, slideseek):
    done = slideseek("verify", golden)
    assert done.code == 0, done.out


def test_a_newer_format_is_refused_with_its_version(golden, slideseek):
    with closing(sqlite3.connect(golden / "catalog.sqlite")) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 3}")
    done = slideseek("search", "s0", "-a", golden)
    assert done.code == 1 and f"version {VERSION + 3}" in done.err and "update slideseek" in done.err


def test_an_older_format_is_upgraded_and_a_copy_is_kept(golden, slideseek):
    with closing(sqlite3.connect(golden / "catalog.sqlite")) as db, db:
        with_seals(db)
        for name in ("slide_updated", "slides_sealed", "slides_sealed_again"):
            db.execute(f"DROP TRIGGER {name}")
        db.execute("ALTER TABLE slides DROP COLUMN measured")
        for name in ("slide_updated", "slides_sealed", "slides_sealed_again"):
            db.execute(f"CREATE TRIGGER {name} AFTER UPDATE OF path ON slides BEGIN SELECT 1; END")
        db.execute("PRAGMA user_version = 5")
    assert slideseek("status", "-a", golden).code == 0
    with closing(sqlite3.connect(golden / "catalog.sqlite")) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] == VERSION
    with closing(sqlite3.connect(golden / "catalog-5.sqlite")) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] == 5
        assert db.execute("SELECT count(*) FROM slides").fetchone()[0] == 3
    assert slideseek("search", "s0", "-a", golden).code == 0
