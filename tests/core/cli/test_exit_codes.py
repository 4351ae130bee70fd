"""What stops a command is one line with a fix and an exit code; only a bug shows a traceback, and says so."""

import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from slideseek.cli.failures import explain

RUN = (sys.executable, "-m", "slideseek")


def refused(done, cause):
    assert done.code == 1, done.err
    assert "Traceback" not in done.err
    error, fix = done.err.splitlines()[-2:]
    assert error.startswith("error: ") and cause in error, done.err
    assert fix.startswith("  fix: ")


@pytest.fixture
def blocked(tmp_path):
    """A path that nothing can be made below, whoever runs the test: it is a file."""
    path = tmp_path / "file"
    path.write_text("not a folder")
    return path


def test_a_folder_that_cannot_be_written_to(blocked, tiny_slides, slideseek):
    refused(slideseek("plugins", "new", "my-encoder", "--dir", blocked / "x"), "Not a directory")
    refused(slideseek("demo", "--dir", blocked / "x", "--patients", "2"), "Not a directory")
    done = slideseek("inspect", tiny_slides / "s0.png", "--mpp", "1", "-o", blocked / "x" / "p.png")
    refused(done, "Not a directory")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device here")
def test_a_full_disk(tiny_archive):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*RUN, "status", "-a", str(tiny_archive)], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == (
        "error: No space left on device\n  fix: free some space, then run the same command again\n"
    ), "and nothing more when Python ends"


def test_a_malformed_catalogue(tiny_archive, slideseek):
    catalog = tiny_archive / "catalog.sqlite"
    content = bytearray(catalog.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    catalog.write_bytes(content)
    done = slideseek("status", "-a", tiny_archive)
    assert done.code == 1 and "Traceback" not in done.err and "  fix: " in done.err


@pytest.mark.parametrize(
    ("error", "cause", "fix"),
    [
        (PermissionError(13, "Permission denied", "x/y"), "x/y: Permission denied", "write permissions"),
        (OSError(28, "No space left on device"), "No space left on device", "free some space"),
        (OSError("odd"), "odd", "check the disk"),
        (sqlite3.OperationalError("database is locked"), "database is locked", "wait until"),
        (sqlite3.DatabaseError("database disk image is malformed"), "malformed", "backup"),
        (MemoryError(), "not enough memory", "--workers"),
    ],
)
def test_what_is_not_a_bug_is_explained(error, cause, fix):
    known = explain(error)
    assert known is not None and cause in known.cause and fix in known.fix


def test_a_bug_is_called_one(tiny_archive, slideseek, monkeypatch):
    def crash(archive):
        raise KeyError("oh")

    monkeypatch.setattr("slideseek.indexing.status.archive_status", crash)
    done = slideseek("status", "-a", tiny_archive)
    assert done.code == 1
    assert "Traceback" in done.err
    error, fix = done.err.splitlines()[-2:]
    assert error.startswith("error: this is a bug in slideseek") and "report it" in fix


def test_the_traceback_of_an_error_is_there_for_who_asks(slideseek, tmp_path, monkeypatch):
    monkeypatch.setenv("SLIDESEEK_DEBUG", "1")
    done = slideseek("status", "-a", tmp_path)
    assert done.code == 2 and "Traceback" in done.err and "is not an archive" in done.err.splitlines()[-2]


@pytest.mark.slow
def test_a_reader_that_has_gone_is_no_error(tiny_archive):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        done = subprocess.run(
            [*RUN, "status", "-a", str(tiny_archive)], stdout=pipe, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("status",), ("search", "s0"), ("search", "s0", "--csv"), ("build",)])
def test_closed_streams_are_no_error(tiny_archive, arguments):
    line = " ".join([*RUN, *arguments, "-a", str(tiny_archive), ">&-", "2>&-"])
    assert subprocess.run(["bash", "-c", line], check=False).returncode == 0


@pytest.fixture
def ready(tmp_path, tiny_slides, tiny_config, slideseek):
    """An archive of the tiny slides, one of them no slide at all, added and not built."""
    (tiny_slides / "s7.png").write_text("this is not a slide")
    archive = tmp_path / "ready"
    slideseek("init", archive, "--config", tiny_config)
    assert slideseek("add", tiny_slides, "--manifest", tiny_slides / "manifest.csv", "-a", archive).code == 0
    return archive


@pytest.mark.slow
def test_a_log_reader_that_goes_away_does_not_stop_a_build(ready, slideseek):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        done = subprocess.run([*RUN, "build", "-a", str(ready)], stdout=pipe, stderr=pipe, check=False)
    assert done.returncode == 3, "as when somebody reads: a slide failed"
    assert [e["indexed"] for e in slideseek("status", "-a", ready, "--json").json["engines"]] == [7, 7]


@pytest.mark.slow
def test_an_interrupted_build_exits_with_130_and_goes_on(ready, slideseek):
    process = subprocess.Popen(
        [*RUN, "build", "-a", str(ready)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("ok"):
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert err.rstrip().splitlines()[-1].startswith("interrupted: finished work is kept")
    assert slideseek("status", "-a", ready, "--json").json["last_run"]["outcome"] == "interrupted"
    again = slideseek("build", "-a", ready, "--json")
    assert again.code == 3 and again.json["slides"]["skipped"] >= 1
    assert again.json["indexed"] == {"bars": 7, "mean": 7}
