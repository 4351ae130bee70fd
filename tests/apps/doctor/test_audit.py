"""The audit log: who searched and exported what, and that nothing in it can be changed unseen."""

import json
import sqlite3
from contextlib import closing

import pytest

from slideseek.archive.archive import Archive
from slideseek.searching.query_log import open_log


@pytest.fixture
def searched(tiny_archive, slideseek, tmp_path):
    """An archive with two searches, an export and a report in its log; and the head that was noted."""
    for _ in range(2):
        assert slideseek("search", "s0", "-a", tiny_archive).code == 0
    assert slideseek("export", "table", "-a", tiny_archive, "-o", tmp_path / "out").code == 0
    assert slideseek("report", "-a", tiny_archive, "-o", tmp_path / "report.html").code == 0
    checked = slideseek("audit", "-a", tiny_archive, "--json")
    assert checked.code == 0 and checked.json["entries"] == 4 and checked.json["problems"] == []
    return tiny_archive, checked.json["head"]


def change(root, *statements):
    with closing(sqlite3.connect(root / "catalog.sqlite", isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def test_it_says_who_did_what(searched, slideseek):
    listed = slideseek("audit", "-a", searched[0], "--list", "--json").json["list"]
    said = [json.loads(entry["what"]) for entry in listed]
    kinds = ["query", "query", "export", "report"]
    assert [next(iter(set(one) & set(kinds))) for one in said] == kinds
    assert said[2]["export"] == "table" and said[2]["identified"] is False and said[2]["output"].endswith("out")
    assert all(entry["who"] and entry["happened"] for entry in listed)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE queries SET who = 'somebody else' WHERE id = 1", "query 1 is not as it was written"),
        ("UPDATE queries SET answer = '{}' WHERE id = 2", "query 2 is not as it was written"),
        ("DELETE FROM queries WHERE id = 1", "query 1 is missing"),
        ("UPDATE audit SET who = 'somebody else' WHERE number = 3", "entry 3 is not as it was written"),
        ("UPDATE audit SET what = '{}' WHERE number = 1", "entry 1 is not as it was written"),
        ("DELETE FROM audit WHERE number = 2", "entry 2 is missing"),
        ("UPDATE audit SET digest = 'x' WHERE number = 4", "entry 4 is not as it was written"),
        (
            "INSERT INTO queries SELECT 9, asked, who, source, session, engine, signature, request, state, answer"
            " FROM queries WHERE id = 1",
            "query 9 was inserted",
        ),
    ],
)
def test_a_change_is_found(searched, slideseek, statement, said):
    change(searched[0], statement)
    done = slideseek("audit", "-a", searched[0])
    assert done.code == 1 and said in done.err and "backup" in done.err


def test_a_log_that_was_cut_off_or_computed_again_is_found_by_its_head(searched, slideseek):
    root, head = searched
    assert slideseek("audit", "-a", root, "--head", head).code == 0
    assert slideseek("search", "s1", "-a", root).code == 0
    assert slideseek("audit", "-a", root, "--head", head).code == 0  # what is added later changes nothing
    change(root, "DELETE FROM audit WHERE number > 2")
    assert slideseek("audit", "-a", root).code == 1 or slideseek("audit", "-a", root, "--head", head).code == 1
    change(root, "DELETE FROM queries", "DELETE FROM audit")
    assert slideseek("audit", "-a", root).code == 0
    done = slideseek("audit", "-a", root, "--head", head)
    assert done.code == 1 and "entry 4 is not the one whose digest was kept" in done.err
    assert slideseek("audit", "-a", root, "--head", "nonsense").code == 2


def test_queries_from_before_the_audit_log_are_counted(searched, slideseek):
    root, _ = searched
    change(root, "DROP TABLE audit")
    assert slideseek("audit", "-a", root, "--json").json["older"] == 2
    assert slideseek("search", "s1", "-a", root).code == 0
    found = slideseek("audit", "-a", root, "--json")
    assert found.code == 0 and (found.json["entries"], found.json["older"]) == (1, 2)


def test_nothing_is_noted_where_the_log_is_off(searched, monkeypatch):
    monkeypatch.setenv("SLIDESEEK_NO_QUERY_LOG", "1")
    with Archive(searched[0]) as archive:
        assert open_log(archive).note({"export": "table"}) == ""
        assert len(open_log(archive).audited()[0]) == 4
