"""An archive whose index is on servers: the same answers as with a local index, and errors that say what to do."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from bench.servers import PASSWORD

ENGINES = """
[[engine]]
name       = "local"
selector   = {{ use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }}
featurizer = {{ use = "colour-texture" }}
encoder    = {{ use = "{encoder}" }}
index      = {{ use = "{local}" }}

[[engine]]
name       = "remote"
selector   = {{ use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }}
featurizer = {{ use = "colour-texture" }}
encoder    = {{ use = "{encoder}" }}
index      = {{ use = "pgvector", shards = {shards}, seconds = 5.0 }}
"""

SEARCHES = (
    (),
    ("--where", "age>=50"),
    ("--where", "primary_site=a", "--where", "age<70"),
    ("--where", "label!=x", "--exclude-center"),
    ("--vertical",),
    ("--include-same-patient", "-k", "8"),
    ("--where", "id not in s1,s2"),
)


@pytest.fixture
def both(tiny_archive: Path, postgres, monkeypatch, slideseek):
    monkeypatch.setenv("PG_ONE", postgres[0].conninfo())
    monkeypatch.setenv("PG_TWO", postgres[1].conninfo())

    def make(encoder: str = "yottixel", local: str = "hamming", shards: str = '["PG_ONE", "PG_TWO"]') -> Path:
        text = ENGINES.format(encoder=encoder, local=local, shards=shards)
        (tiny_archive / "slideseek.toml").write_text(text)
        built = slideseek("build", "-a", tiny_archive)
        assert built.code == 0, built.err
        return tiny_archive

    return make


def answers(slideseek, archive: Path, engine: str) -> list[dict[str, Any]]:
    found = []
    for options in SEARCHES:
        done = slideseek("search", "s0", "-a", archive, "--engine", engine, "--json", *options)
        assert done.code == 0, (options, done.err)
        answer = json.loads(done.out)
        answer["engine"] = answer["milliseconds"] = None
        found.append(answer)
    return found


@pytest.mark.parametrize(("encoder", "local"), [("yottixel", "hamming"), ("mean", "cosine")])
def test_answers_equal_those_of_the_local_index(both, slideseek, encoder, local):
    archive = both(encoder, local)
    assert answers(slideseek, archive, "remote") == answers(slideseek, archive, "local")


def table(server) -> str:
    """Return the name of the table with the most rows."""
    with connected(server) as connection:
        found = connection.execute(
            "SELECT format('%I.%I', schemaname, relname) FROM pg_stat_user_tables ORDER BY last_vacuum DESC NULLS LAST"
        )
        return str(found.fetchone()[0])


def connected(server):
    import psycopg

    return psycopg.connect(server.conninfo(), autocommit=True)


def spied(monkeypatch, name: str) -> list[str]:
    """Count the calls of a method of the index."""
    from slideseek_components.indexes.remote import RemoteIndex

    calls, method = [], getattr(RemoteIndex, name)

    def counted(*given):
        calls.append(name)
        return method(*given)

    monkeypatch.setattr(RemoteIndex, name, counted)
    return calls


def test_filters_travel_only_while_the_records_are_those_saved(both, slideseek, monkeypatch, tiny_slides):
    archive = both()
    where, mask = spied(monkeypatch, "search_where"), spied(monkeypatch, "search")
    local = answers(slideseek, archive, "local")
    assert answers(slideseek, archive, "remote") == local and len(where) == len(SEARCHES) and not mask
    manifest = tiny_slides / "manifest.csv"
    manifest.write_text(manifest.read_text().replace(",51\n", ",20\n"))
    assert slideseek("add", tiny_slides, "--manifest", manifest, "-a", archive).code == 0
    where.clear()
    changed = answers(slideseek, archive, "local")
    assert answers(slideseek, archive, "remote") == changed and not where and mask
    assert slideseek("build", "-a", archive).code == 0
    assert answers(slideseek, archive, "remote") == changed and len(where) == len(SEARCHES)
    assert slideseek("remove", "s5", "-a", archive).code == 0
    assert answers(slideseek, archive, "remote") == answers(slideseek, archive, "local")
    assert slideseek("build", "-a", archive).code == 0
    assert answers(slideseek, archive, "remote") == answers(slideseek, archive, "local")


def test_explanations_are_those_of_the_local_index(both, slideseek):
    archive = both()
    shown = []
    for engine in ("local", "remote"):
        done = slideseek("explain", "s0", "s3", "-a", archive, "--engine", engine, "--json")
        assert done.code == 0, done.err
        shown.append(done.out.replace(engine, "ENGINE"))
    assert shown[0] == shown[1]


def test_a_secret_is_in_no_file_and_in_no_message(both, slideseek, monkeypatch):
    archive = both()
    for file in archive.rglob("*"):
        assert not file.is_file() or PASSWORD.encode() not in file.read_bytes(), file
    monkeypatch.setenv("PG_TWO", f"host=127.0.0.1 password={PASSWORD} nonsense")
    done = slideseek("search", "s0", "-a", archive, "--engine", "remote")
    assert done.code == 1 and PASSWORD not in done.err + done.out and "no valid connection string" in done.err
    (archive / "slideseek.toml").write_text(
        ENGINES.format(encoder="yottixel", local="hamming", shards=f'["postgresql://me:{PASSWORD}@db/slides"]')
    )
    done = slideseek("build", "-a", archive)
    assert done.code == 2 and PASSWORD not in done.err + done.out and "environment" in done.err


def test_what_cannot_be_reached_is_one_line_and_never_a_shorter_answer(both, slideseek, monkeypatch, postgres):
    archive = both()
    expected = answers(slideseek, archive, "local")
    for text, said in (
        (postgres[1].conninfo(password="wrong"), "password authentication failed"),
        (postgres[1].conninfo().replace(f"port={postgres[1].port}", "port=9"), "refused"),
        ("", "PG_TWO is not set"),
    ):
        monkeypatch.setenv("PG_TWO", text)
        started = time.monotonic()
        done = slideseek("search", "s0", "-a", archive, "--engine", "remote", "--json")
        assert done.code == 1 and set(done.json) == {"error"} and time.monotonic() - started < 5
        assert "shard 'PG_TWO'" in done.err and said in done.err and "Traceback" not in done.err
        done = slideseek("build", "-a", archive)
        assert done.code == 1 and "shard 'PG_TWO'" in done.err and said in done.err
    monkeypatch.setenv("PG_TWO", postgres[1].conninfo())
    assert slideseek("build", "-a", archive).code == 0
    assert answers(slideseek, archive, "remote") == expected


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("COMMENT ON TABLE {table} IS '{{\"slideseek\": 99}}'", "another version of slideseek"),
        ("DELETE FROM {table} WHERE id = (SELECT min(id) FROM {table})", "7 slides, not 8"),
        ("UPDATE {table} SET code_seal = code_seal + 1 WHERE id = (SELECT min(id) FROM {table})", "other codes"),
        ("DROP TABLE {table}", "has no table"),
    ],
)
def test_what_was_changed_on_a_server_is_noticed_and_saved_again(both, slideseek, postgres, damage, said):
    archive = both(shards='["PG_ONE"]')
    expected = answers(slideseek, archive, "local")
    with connected(postgres[0]) as connection:
        connection.execute(damage.format(table=table(postgres[0])))
    done = slideseek("search", "s0", "-a", archive, "--engine", "remote", "--json")
    answer = json.loads(done.out)
    assert done.code == 0 and answer["hits"] == expected[0]["hits"]
    assert any(said in note and "run 'slideseek build'" in note for note in answer["notes"]), answer["notes"]
    done = slideseek("build", "-a", archive)
    assert done.code == 0 and said in done.out + done.err
    assert answers(slideseek, archive, "remote") == expected


def test_a_role_that_may_only_read_can_search(both, slideseek, postgres, monkeypatch):
    archive = both(shards='["PG_ONE"]')
    with connected(postgres[0]) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
        connection.execute("GRANT USAGE ON SCHEMA slideseek TO reader")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA slideseek TO reader")
    monkeypatch.setenv("PG_ONE", postgres[0].conninfo("reader"))
    assert answers(slideseek, archive, "remote") == answers(slideseek, archive, "local")
    with connected(postgres[0]) as connection:
        connection.execute("DROP OWNED BY reader")
        connection.execute("DROP ROLE reader")


def test_a_table_that_other_codes_replaced_is_dropped(both, slideseek, postgres):
    both(shards='["PG_ONE"]')
    first = table(postgres[0])
    both("mean", "cosine", shards='["PG_ONE"]')
    with connected(postgres[0]) as connection:
        assert connection.execute("SELECT to_regclass(%s)", [first]).fetchone() == (None,)
    assert table(postgres[0]) != first


def damage(archive: Path, statement: str) -> None:
    """Change the catalogue behind slideseek's back."""
    with contextlib.closing(sqlite3.connect(archive / "catalog.sqlite")) as catalogue:
        sealing = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'slides'"
        for (name,) in catalogue.execute(sealing).fetchall():
            catalogue.execute(f"DROP TRIGGER {name}")
        assert catalogue.execute(statement).rowcount
        catalogue.commit()


def found(answer) -> list[str]:
    return [hit["slide"]["id"] for hit in answer["hits"]]


CODES_OF = "(SELECT key FROM stages WHERE slide_id = '{}' AND stage = 'encode')"


def test_a_damaged_record_is_one_line_and_the_rest_is_found(both, slideseek):
    archive = both()
    before = answers(slideseek, archive, "remote")
    damage(archive, "UPDATE slides SET patient = 'somebody' WHERE id = 's3'")
    after = answers(slideseek, archive, "remote")
    assert after == answers(slideseek, archive, "local")
    for old, new in zip(before, after, strict=True):
        assert sum("the record of 's3' in the catalogue is damaged" in note for note in new["notes"]) == 1
        kept = [one for one in found(old) if one != "s3"]
        assert found(new)[: len(kept)] == kept and "s3" not in found(new), "right hits from the rest"


def test_a_damaged_code_is_one_line_when_it_is_needed_and_the_rest_is_found(both, slideseek, postgres):
    archive = both(shards='["PG_ONE"]')
    before = answers(slideseek, archive, "remote")
    damage(archive, f"UPDATE payloads SET data = zeroblob(length(data)) WHERE key IN {CODES_OF.format('s4')}")
    assert answers(slideseek, archive, "remote") == before, "the server has the code"
    with connected(postgres[0]) as connection:
        connection.execute(f"DROP TABLE {table(postgres[0])}")
    for old, new in zip(before, answers(slideseek, archive, "remote"), strict=True):
        assert sum("1 code(s) are damaged and were left out" in note for note in new["notes"]) == 1, new["notes"]
        kept = [one for one in found(old) if one != "s4"]
        assert found(new)[: len(kept)] == kept and "s4" not in found(new), "right hits from the rest"
    built = slideseek("build", "-a", archive)
    assert built.code == 0 and "are damaged: build again to recompute them" in built.out + built.err
    assert slideseek("build", "-a", archive).code == 0
    assert answers(slideseek, archive, "remote") == before, "nothing is lost"
