"""Rows of the catalogue that are not as they were written are named, and nothing is answered from them."""

import sqlite3
from contextlib import closing

import pytest

from slideseek.archive import catalog as catalogs
from slideseek.archive.archive import Archive
from slideseek.archive.catalog import Catalog, inside, with_seals
from slideseek.archive.schema import DAMAGED_ROWS, SEALED
from slideseek.digests import row_seal
from slideseek.errors import DamagedError, SlideseekError
from slideseek.searching.searcher import Searcher


def tamper(archive, statement, *values):
    """Change a row without its seal, as a flipped bit on the disk does."""
    with closing(sqlite3.connect(archive / "catalog.sqlite")) as db, db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.execute(statement, values)


def hits(answer):
    return [hit["slide"]["id"] for hit in answer["hits"]]


@pytest.mark.parametrize("column", ["patient", "site", "label", "center", "path", "fields", "fingerprint"])
def test_a_damaged_slide_is_left_out_and_named(tiny_archive, slideseek, column):
    before = slideseek("search", "s3", "-k", "9", "-a", tiny_archive, "--json").json
    assert "s1" in hits(before) and not before["notes"]
    tamper(tiny_archive, f"UPDATE slides SET {column} = {column} || 'x' WHERE id = 's1'")
    after = slideseek("search", "s3", "-k", "9", "-a", tiny_archive, "--json").json
    assert hits(after) == [one for one in hits(before) if one != "s1"]
    assert any("record of 's1'" in note and "add it again" in note for note in after["notes"])
    query = slideseek("search", "s1", "-a", tiny_archive)
    assert query.code == 1 and "the record of slide 's1' in the catalogue is damaged" in query.err
    doctor = slideseek("doctor", tiny_archive)
    assert doctor.code == 1 and "s1" in doctor.out
    built = slideseek("build", "-a", tiny_archive, "--json")
    assert built.code == 3 and "s1" in built.json["failures"]


def test_a_slide_that_is_added_again_is_whole(tiny_archive, tiny_slides, slideseek):
    tamper(tiny_archive, "UPDATE slides SET patient = 'x' WHERE id = 's1'")
    assert slideseek("add", tiny_slides, "--manifest", tiny_slides / "manifest.csv", "-a", tiny_archive).code == 0
    assert slideseek("build", "-a", tiny_archive).code == 0
    after = slideseek("search", "s3", "-k", "9", "-a", tiny_archive, "--json").json
    assert "s1" in hits(after) and not after["notes"]


@pytest.mark.parametrize("text", ["{", "\udcff", '{"n": 1e400}', "null"])
@pytest.mark.parametrize(
    ("table", "column"),
    [("payloads", "meta"), ("stages", "notes"), ("indexes", "files"), ("engines", "resolved"), ("slides", "fields")],
)
def test_damaged_json_is_never_a_traceback(tiny_archive, slideseek, table, column, text):
    expected = slideseek("search", "s3", "-k", "9", "-a", tiny_archive, "--json").json
    tamper(tiny_archive, f"UPDATE {table} SET {column} = CAST(? AS TEXT)", text.encode("utf-8", "surrogateescape"))
    for command in (("search", "s3", "-k", "9", "--json", "-a"), ("status", "-a"), ("build", "-a"), ("doctor",)):
        done = slideseek(*command, tiny_archive)
        assert done.code in (0, 1, 3) and "Traceback" not in done.err and "bug" not in done.err
    if table not in ("slides", "payloads", "stages"):
        again = slideseek("search", "s3", "-k", "9", "-a", tiny_archive, "--json").json
        assert hits(again) == hits(expected)


@pytest.mark.parametrize("table", SEALED)
def test_every_column_is_sealed(tiny_archive, table):
    with closing(sqlite3.connect(tiny_archive / "catalog.sqlite", isolation_level=None)) as db:
        with_seals(db)
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.execute("PRAGMA ignore_check_constraints = ON")
        if table == "models":  # none of its engines learns
            db.execute(
                "INSERT INTO models VALUES ('s', 'k', 'models/k', '', '{}', 1, 0.5, '', ?)",
                (row_seal(b"s", b"k", b"models/k", b"", b"{}", 1, 0.5, b""),),
            )
        assert (
            db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] and not db.execute(DAMAGED_ROWS[table]).fetchall()
        )
        kinds = {row[1]: row[2] for row in db.execute(f"PRAGMA table_info({table})")}
        assert set(kinds) - {"seal", "data"} == set(SEALED[table]), "a new column is to be sealed"
        for column in SEALED[table]:
            other = f"ifnull({column}, '') || 'x'" if kinds[column] == "TEXT" else f"ifnull({column}, 0) + 1"
            db.execute("BEGIN")
            db.execute(f"UPDATE {table} SET {column} = {other} WHERE rowid = (SELECT min(rowid) FROM {table})")
            assert len(db.execute(DAMAGED_ROWS[table]).fetchall()) == 1, column
            db.execute("ROLLBACK")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "features/../../x", "", "a\0b"])
def test_a_path_stays_inside_the_archive(path):
    with pytest.raises(DamagedError, match="outside the archive"):
        inside(path)


def test_nothing_outside_an_archive_is_removed(tiny_archive, slideseek, tmp_path):
    victim = tmp_path / "victim.h5"
    victim.write_bytes(b"precious")
    with closing(Catalog(tiny_archive / "catalog.sqlite")) as catalog:  # a crafted archive has valid seals
        catalog._db.execute(
            "UPDATE payloads SET file = '../victim.h5' WHERE kind = 'features' AND rowid = (SELECT"
            " min(rowid) FROM payloads WHERE kind = 'features')"
        )
    for command in (("remove", "s0"), ("build",), ("search", "s1"), ("doctor",)):
        folder = (tiny_archive,) if command == ("doctor",) else ("-a", tiny_archive)
        done = slideseek(*command, *folder)
        assert "Traceback" not in done.err
    assert victim.read_bytes() == b"precious"


class TestReadOnly:
    @pytest.fixture(autouse=True)
    def forbidden(self, monkeypatch):
        """Root may write everywhere: say that it may not."""
        self.writable = catalogs._is_writable
        monkeypatch.setattr(catalogs, "_is_writable", lambda path: False)

    def test_a_reader_sees_what_a_writer_committed(self, tiny_archive, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(catalogs, "_is_writable", self.writable)
            writer = Archive(tiny_archive)
        with writer, writer.catalog.transaction():
            writer.catalog._db.execute("UPDATE slides SET patient = 'new' WHERE id = 's1'")
            known = Archive(tiny_archive).catalog.slides.get("s1")
            assert known is not None and known.record.patient != "new"
        with monkeypatch.context() as patch:
            patch.setattr(catalogs, "_is_writable", self.writable)
            writer = Archive(tiny_archive)
        with writer:
            with writer.catalog.transaction():
                writer.catalog._db.execute("UPDATE slides SET patient = 'newer' WHERE id = 's1'")
            with Archive(tiny_archive) as reader:
                known = reader.catalog.slides.get("s1")
                assert known is not None and known.record.patient == "newer"

    def test_a_file_that_changes_under_a_reader_is_an_error(self, tiny_archive, monkeypatch):
        with Archive(tiny_archive) as reader:
            with monkeypatch.context() as patch:
                patch.setattr(catalogs, "_is_writable", self.writable)
                with Archive(tiny_archive) as writer, writer.catalog.transaction():
                    writer.catalog._db.execute("UPDATE slides SET patient = 'new'")
            with pytest.raises(SlideseekError, match="has changed"), reader.catalog.snapshot():
                pass


def test_a_damaged_model_is_fitted_again_and_kept(tiny_archive, slideseek):
    config = tiny_archive / "slideseek.toml"
    text = config.read_text()
    config.write_text(text.replace('encoder    = { use = "mean" }', 'encoder = { use = "bovw", words = 4 }'))
    assert slideseek("build", "-a", tiny_archive).code == 0
    before = slideseek("search", "s0", "--engine", "mean", "-a", tiny_archive, "--json").json["hits"]
    (model,) = (tiny_archive / "models").iterdir()
    file = next(iter(sorted(model.glob("*.safetensors"))))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert slideseek("build", "-a", tiny_archive).code == 0
    content[-1] ^= 1
    assert file.read_bytes() == bytes(content), "the refit gives the same bytes, and they replace the damaged ones"
    after = slideseek("search", "s0", "--engine", "mean", "-a", tiny_archive, "--json").json["hits"]
    assert after == before


def test_an_answer_is_of_one_version_of_the_archive(tiny_archive, monkeypatch):
    """A writer that removes slides between the search and the look at their records takes no hit away."""
    with Archive(tiny_archive) as archive, Archive(tiny_archive) as writer:
        searcher = Searcher.open(archive)
        query = searcher.query("s3")
        whole = [one.hit.slide_id for one in searcher.search(query, 5).found]
        inner = searcher.index.search

        def interrupted(*given):
            found = inner(*given)
            with writer.catalog.transaction():
                writer.catalog.slides.remove(whole[0])
            return found

        monkeypatch.setattr(searcher.index, "search", interrupted)
        assert [one.hit.slide_id for one in searcher.search(query, 5).found] == whole
        monkeypatch.undo()
        assert whole[0] not in [one.hit.slide_id for one in searcher.search(query, 5).found]
