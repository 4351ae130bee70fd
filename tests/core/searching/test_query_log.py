"""The log of queries: complete, replayed exactly, and never in the way of a search."""

import os
import sqlite3

import pytest

from slideseek.archive.archive import Archive
from slideseek.searching.request import Request
from slideseek.searching.searcher import Searcher


def test_every_search_is_logged_and_replays_exactly(tiny_archive, tiny_slides, tmp_path, slideseek, monkeypatch):
    monkeypatch.chdir(tiny_slides)
    searches = (
        ("s0", "-k", "3", "--where", "site=lung", "--engine", "mean"),
        ("s3.png", "--vertical"),
        ("s0", "--region", "60,60,180,180", "--include-same-patient"),
        ("p5", "--case", "--exclude-centre"),
        ("s1.png", "--patch", "--site", "colon", "--mpp", "1"),
    )
    answers = [slideseek("search", *search, "-a", tiny_archive, "--json") for search in searches]
    assert [answer.code for answer in answers] == [0] * 5, [answer.err for answer in answers]
    entries = slideseek("history", "-a", tiny_archive, "--json").json
    assert [entry["number"] for entry in entries] == [1, 2, 3, 4, 5]
    first = entries[0]
    assert first["who"] and first["asked"] and first["engine"] == "mean" and first["source"] == "search"
    assert first["resolved"]["index"]["use"] == "cosine" and first["request"]["where"] == ["site=lung"]
    assert entries[1]["request"]["text"] == str(tiny_slides / "s3.png"), "a file is kept with its whole path"
    monkeypatch.chdir(tmp_path)
    for number, answer in enumerate(answers, start=1):
        done = slideseek("replay", number, "-a", tiny_archive, "--json")
        assert done.code == 0, done.out + done.err
        assert done.json["same"] and done.json["changes"] == []
        assert [hit["distance"] for hit in done.json["then"]] == [hit["distance"] for hit in answer.json["hits"]]
    table = slideseek("history", "-a", tiny_archive, "-n", "1").out
    assert "s1.png (patch)" in table and "p5" not in table
    missing = slideseek("replay", 99, "-a", tiny_archive)
    assert missing.code == 2 and "slideseek history" in missing.err
    assert len(slideseek("history", "-a", tiny_archive, "--json").json) == 5, "a replay is not logged"


def test_a_busy_catalogue_or_a_damaged_log_costs_a_note_not_the_search(tiny_archive, slideseek, monkeypatch):
    monkeypatch.setattr("slideseek.searching.query_log.WAIT_SECONDS", 0.05)
    writer = sqlite3.connect(tiny_archive / "catalog.sqlite", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")  # as a build does
    done = slideseek("search", "s0", "-a", tiny_archive)
    writer.execute("ROLLBACK")
    assert done.code == 0 and "7 candidates" in done.out
    assert "this query was not logged (database is locked)" in done.err
    assert slideseek("history", "-a", tiny_archive).out == "no queries yet\n"
    monkeypatch.setenv("SLIDESEEK_NO_QUERY_LOG", "1")
    done = slideseek("search", "s0", "-a", tiny_archive)
    assert done.code == 0 and "not logged" not in done.err
    assert slideseek("history", "-a", tiny_archive, "--json").json == []
    writer.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(tiny_archive, slideseek):
    tiny_archive.chmod(0o555)
    try:
        done = slideseek("search", "s0", "-a", tiny_archive)
    finally:
        tiny_archive.chmod(0o755)
    assert done.code == 0 and "not logged" in done.err


def test_a_folder_that_says_it_may_not_be_written(tiny_archive, monkeypatch):
    from slideseek.searching import query_log

    with Archive(tiny_archive) as archive:
        searcher = Searcher.open(archive)
        result = Request(text="s0").run(searcher)
        assert query_log.log_result(searcher, result, "search") == (1, "")
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        number, note = query_log.log_result(searcher, result, "search")
        assert number == 0 and "is not writable" in note
    entries = query_log.QueryLog(tiny_archive / "catalog.sqlite").last()
    assert [entry.number for entry in entries] == [1], "what was logged can still be read"
