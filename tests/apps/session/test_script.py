"""Sessions from a file or a pipe, and what they leave: files, marks, the log."""

import csv
import io
import json
from typing import Any

import pytest

SCRIPT = """\
# a remark
k 3
search s0

where age>=51
vertical
search
show 1
compare 0 1
explain 1 {folder}/panel.png
mark 1 relevant
mark 2 not
more like these
export {folder}/hits.csv --identified
export {folder}/hits.json --identified
export {folder}/hits.html
save {folder}/again.txt
history 2
quit
this is never reached
"""


def test_a_script_does_it_all(tiny_archive, tmp_path, slideseek):
    script = tmp_path / "script.txt"
    script.write_text(SCRIPT.format(folder=tmp_path))
    done = slideseek("session", tiny_archive, "--script", script)
    assert done.code == 0, done.err
    assert "> search s0" in done.out and "never reached" not in done.out
    assert "7 of 8 slides pass" in done.out and "differs" in done.out
    assert (tmp_path / "panel.png").read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "hits.csv").read_text())))
    kept = json.loads((tmp_path / "hits.json").read_text())
    assert [row["slide_id"] for row in rows] == [hit["slide"]["id"] for hit in kept["hits"]]
    assert kept["request"]["relevant"] and kept["request"]["rejected"] and kept["number"] == 3
    assert "Why:" in (tmp_path / "hits.html").read_text()

    assert "query 3 in the log: k = " in done.out and "more like 1 marked relevant" in done.out

    again = slideseek("session", "-a", tiny_archive, "--script", tmp_path / "again.txt")
    assert again.code == 0, again.err
    entries = slideseek("history", "-a", tiny_archive, "--json", "--all").json
    assert [entry["answer"]["hits"] for entry in entries[:3]] == [entry["answer"]["hits"] for entry in entries[3:]]
    assert len({entry["session"] for entry in entries}) == 2


@pytest.mark.parametrize("command", ["session", "serve", "doctor"])
def test_an_archive_is_named_once(command, tmp_path, slideseek):
    done = slideseek(command, tmp_path / "one", "-a", tmp_path / "two")
    assert done.code == 2 and "two archives are given" in done.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("serch s0", "did you mean 'search'?"),
        ("search s0x", "did you mean 's0'?"),
        ("search s0 --pathc", "no option '--pathc'"),
        ("search s0 --region", "--region needs a value"),
        ("search s0 --patch --case", "cannot be used together"),
        ("search 's0", "close the quote"),
        ("where sit=lung", "did you mean 'site'?"),
        ("where drop 1", "no filter '1'"),
        ("engine barz", "did you mean 'bars'?"),
        ("k 0", "a number from 1"),
        ("show 1", "no search yet"),
        ("explain 9", "no search yet"),
        ("more like these", "no search yet"),
        ("export hits.xls", "no search yet"),
        ("same-patient perhaps", "same-patient on"),
        ("quit now", "write: quit"),
        ("h", "'h' is ambiguous: horizontal or history or help"),
        ("x" * 500, f"no command '{'x' * 40}...'"),
        ("k 5\x1b[2J", "this line is not text"),
        ("\udcff\udcfe", "this line is not text"),
    ],
)
def test_the_first_error_stops_a_script_and_names_its_line(tmp_path, line, said):
    from slideseek.errors import SlideseekError
    from slideseek_apps.session.command_parser import CommandParser
    from slideseek_apps.session.script import run_script
    from slideseek_apps.session.terminal_pictures import Pictures

    with pytest.raises(SlideseekError) as caught:
        run_script(stub_session(), CommandParser(Pictures("none")), ["# first", "", line, "help"], "a file")
    assert caught.value.cause.startswith("a file, line 3: ")
    assert said in f"{caught.value.cause} {caught.value.fix}" and caught.value.exit_code == 2


def stub_session():
    """A session whose searcher knows two slides and finds nothing: enough for what is wrong before a search."""
    from types import SimpleNamespace

    from slideseek.config import parse_config
    from slideseek.did_you_mean import nearest
    from slideseek.errors import UsageError
    from slideseek_apps.session.search_session import Session

    engine = 'name="bars"\nselector="grid"\nfeaturizer="colour-texture"\nencoder="yottixel"\nindex="hamming"\n'
    archive: Any = SimpleNamespace(config=parse_config(f"[[engine]]\n{engine}"))

    def query(text, **known):
        raise UsageError(f"{text!r} is not a slide", f"did you mean {nearest(text, ['s0', 's1'])!r}?")

    session = Session(archive, "bars", lambda text: None)
    catalog = SimpleNamespace(slides={}, changes=SimpleNamespace(generation=lambda codes: 1))
    archive.catalog = catalog
    stages = SimpleNamespace(settings_digest=lambda engine, stage: "codes")
    searcher: Any = SimpleNamespace(fields=("age",), query=query, archive=archive, stages=stages, engine=None)
    session._opened._searchers["bars"] = searcher
    session.__dict__["records"] = {}
    return session


def test_errors_after_a_search(tiny_archive, tmp_path, slideseek, monkeypatch):
    import sys

    for line, said in (
        ("show 9", "no hit 9"),
        ("mark 0 relevant", "the query itself"),
        ("mark 1 perhaps", "mark N relevant"),
        ("more like these", "nothing is marked"),
        ("explain s9", "neither the rank of a hit nor a slide"),
        ("export hits.xls", ".csv, .json or .html"),
        ("explain 1 why.txt", "end the name in .png"),
    ):
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"search s0\n{line}\n"))
        done = slideseek("session", tiny_archive)
        assert done.code == 2 and "standard input, line 2" in done.err and said in done.err, (line, done.err)


def test_a_session_notices_that_the_archive_has_changed(tiny_archive, slideseek):
    from slideseek.archive.archive import Archive
    from slideseek.searching.request import Request
    from slideseek_apps.session.search_session import Session

    with Archive(tiny_archive) as archive:
        session = Session(archive, "bars", lambda text: None)
        assert session.ask(Request(text="s0")).answer.notes == ()
        assert slideseek("remove", "s7", "-a", tiny_archive).code == 0
        assert any("'reload'" in note for note in session.ask(Request(text="s0")).answer.notes)
        session.reload()
        answer = session.ask(Request(text="s0", k=9)).answer
        assert not any("'reload'" in note for note in answer.notes) and len(answer.found) == 6


def test_options_are_given_with_a_search(tiny_archive, tmp_path, slideseek):
    config = tiny_archive / "slideseek.toml"
    line = 'index      = { use = "cosine" }\n'
    config.write_text(config.read_text().replace(line, line + 'rerank     = { use = "median-of-min" }\n'))
    script = tmp_path / "script.txt"
    lines = [
        "engine mean",
        "k 2",
        "search s0 --set depth=2 --set=on=barcodes",
        "explain 1",
        "search",
        "search --set depth=4",
    ]
    script.write_text("\n".join([*lines, f"export {tmp_path}/hits.html", "search s0"]))
    done = slideseek("session", tiny_archive, "--script", script)
    assert done.code == 0, done.err
    entries = slideseek("history", "-a", tiny_archive, "--json").json
    assert [entry["request"].get("options", []) for entry in entries] == [
        ["depth=2", "on=barcodes"],
        ["depth=2", "on=barcodes"],
        ["depth=4"],
        [],
    ]
    assert "query 1 in the log: k = 2, depth=2, on=barcodes" in done.out and "differing bits" in done.out
    assert "the 4 nearest of 7 candidates were re-ranked by 'median-of-min'" in done.out + done.err
    assert "Why:" in (tmp_path / "hits.html").read_text()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("search s0 --set dirction=target", "did you mean 'direction'"),
        ("search s0 --set direction=both", "direction: must be 'query', 'target' or 'symmetric'"),
        ("search s0 --set direction", "is not NAME=VALUE"),
        ("search s0 --set", "--set needs a value"),
        ("search --set direction=target", "no search yet"),
    ],
)
def test_wrong_options_are_put_in_the_words_of_a_session(tiny_archive, tmp_path, slideseek, line, said):
    script = tmp_path / "script.txt"
    script.write_text(line)
    done = slideseek("session", tiny_archive, "--script", script)
    assert done.code == 2 and said in done.err
    assert "search QUERY --set NAME=VALUE" in done.err or "--set needs" in said or "no search" in said
