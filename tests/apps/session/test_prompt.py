"""A session as a person has it: at a prompt in a pseudo-terminal."""

import json
import sys

import pexpect
import pytest


@pytest.fixture
def session(tiny_archive, tmp_path):
    """A running session; what it showed so far is in `.before` after each expectation."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "TERM": "xterm-256color",
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "OMP_NUM_THREADS": "1",
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "PYTHONPATH": ":".join(sys.path),
    }
    child = pexpect.spawn(
        sys.executable,
        ["-m", "slideseek", "session", str(tiny_archive), "--pictures", "none"],
        env=environment,
        cwd=str(tmp_path),
        encoding="utf-8",
        dimensions=(40, 120),
        timeout=30,
    )
    child.expect("8 slides, engine bars")
    child.expect("slideseek>")
    yield child
    child.close(force=True)


def complete(child, typed, rest):
    """Type something, let TAB complete it, and see that it did: a prompt completes when it has time to."""
    child.send(typed)
    child.expect_exact(typed.split()[-1])  # a space may be drawn as a move
    child.send("\t")
    child.expect_exact(rest)


def test_a_whole_session_at_the_prompt(session, tmp_path):
    complete(session, "se", "arch")
    complete(session, " S3", "s3")  # the slide's id as it is written
    session.send("\r")
    session.expect(r"s3 \(colon, fine\) - nearest in the archive, engine bars")
    session.expect("7 candidates searched")
    session.expect("query 1 in the log")

    complete(session, "where si", "te=")
    complete(session, "lu", "ng")  # a value the field has in the archive
    session.send("\r")
    session.expect("4 of 8 slides pass")

    session.send("search\r")
    session.expect("4 candidates searched")
    session.send("explain 1\r")
    session.expect("from the pairs of [0-9]+ patches of the query")
    session.send("mark 1 relevant\r")
    session.expect("relevant +s[4-7]")
    session.send("more like these\r")
    session.expect("query 3 in the log")
    session.setwinsize(40, 60)  # a narrow terminal: no table of seven columns
    session.send("history 1\r")
    session.expect(r"3  s3 \+ 1 relevant, 0 not\s+20\d\d-\d\d-\d\d \S+ by \S+, bars, horizontal, k = ")
    session.setwinsize(40, 140)
    session.send("export hits.json\r")
    session.expect(r"wrote 3 hit\(s\) to hits.json")
    session.send("expotr x\r")  # the error is printed and the session goes on
    session.expect("did you mean 'export'")
    complete(session, "engine m", "ean")
    session.send("\r")
    session.expect("engine mean: 8 slides")
    session.send("quit\r")
    session.expect(r"slideseek report --session \S+ -a \S+")
    session.expect(pexpect.EOF)
    session.wait()
    assert session.exitstatus == 0
    hits = json.loads((tmp_path / "hits.json").read_text())
    assert len(hits["hits"]) == 3 and {hit["slide"]["site"] for hit in hits["hits"]} == {"lung"}
    assert "+search s3" in next((tmp_path / "state").rglob("session-history")).read_text()


def test_ctrl_c_gives_up_a_line_and_ctrl_d_the_session(session):
    session.send("search nonsense\x03")
    session.send("k 2\r")
    session.expect("k = 2")
    session.send("\x04")
    session.expect(pexpect.EOF)
    session.wait()
    assert session.exitstatus == 0
