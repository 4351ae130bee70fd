"""Each application can be left out: the rest works, and what needs it says so in one line with a fix."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import pytest

from slideseek.cli import cli
from slideseek.plugins import load_registry

APPLICATIONS = ("bench", "cluster", "demo", "doctor", "interchange", "reports", "session", "testing", "viewer", "watch")
REGISTERED = [e for e in load_registry(kinds=("command", "executor")).registrations() if e.distribution == "slideseek"]

# Runs command lines in one process from which an application is hidden, as if its folder had been deleted.
WITHOUT = """
import contextlib, importlib.abc, io, json, sys

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == HIDDEN or name.startswith(HIDDEN + "."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

HIDDEN, lines = json.load(sys.stdin)
sys.meta_path.insert(0, Hidden())
from slideseek.cli import main

outcomes = []
for line in lines:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(line)
        except SystemExit as done:
            code = done.code
    outcomes.append((code, out.getvalue(), err.getvalue()))
json.dump(outcomes, sys.stdout)
"""


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


def without(application: str, *lines: tuple[object, ...], folder: Path) -> list[Said]:
    """Run command lines without an application, one after the other, in `folder`; none may end in a traceback."""
    asked = json.dumps([f"slideseek_apps.{application}", [[str(word) for word in line] for line in lines]])
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], input=asked, capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    said = [Said(*one) for one in json.loads(done.stdout)]
    for one in said:
        assert "Traceback" not in one.err, one.err
    return said


def commands_of(application: str) -> list[str]:
    return [entry.name for entry in REGISTERED if entry.plugin == application and entry.kind == "command"]


def test_every_application_is_hidden_below():
    assert set(APPLICATIONS) == {entry.plugin for entry in REGISTERED} - {"components"}


@pytest.mark.parametrize("application", APPLICATIONS)
def test_the_rest_works_without_it(application, tmp_path, tiny_slides, tiny_config):
    archive, lost = tmp_path / "new", commands_of(application)
    # One process for all: each has to import torch.
    helped, *said = without(
        application,
        ("--help",),
        *((name,) for name in lost),
        ("init", archive, "--config", tiny_config),
        ("add", tiny_slides, "--manifest", tiny_slides / "manifest.csv", "-a", archive),
        ("build", "-a", archive),
        ("search", "s0", "-a", archive, "--json"),
        ("status", "-a", archive),
        folder=tmp_path,
    )
    called, work = said[: len(lost)], said[len(lost) :]
    assert helped.code == 0
    listed = re.findall(r"^  ([a-z][a-z-]*)  ", helped.out.partition("Broken plugins")[0], re.MULTILINE)
    assert set(listed) == set(cli.list_commands(click.Context(cli))) - set(lost)
    broken = " ".join(helped.out.partition("Broken plugins:")[2].split())
    assert broken.startswith(f"{application} of slideseek ")
    assert f"No module named 'slideseek_apps.{application}" in broken
    for one in called:
        assert one.code == 2
        assert f"No module named 'slideseek_apps.{application}" in one.err

    assert [one.code for one in work] == [0] * 5, work
    assert len(json.loads(work[3].out)["hits"]) == 5


def test_a_session_works_without_reports(tmp_path, tiny_archive):
    def script(name: str, *lines: str) -> tuple[object, ...]:
        (tmp_path / name).write_text("\n".join(("search s0", *lines)))
        return ("session", tiny_archive, "--script", tmp_path / name)

    table, picture, sheet, page = without(
        "reports",
        script("table", "explain 1"),
        script("picture", "explain 1 match.png"),
        script("sheet", "export hits.csv"),
        script("page", "export hits.html"),
        folder=tmp_path,
    )
    assert (table.code, sheet.code, picture.code, page.code) == (0, 2, 2, 2)
    missing = "needs the application 'reports', which is not installed\n  fix: install slideseek with all its"
    assert f"line 2: a picture of the evidence {missing}" in picture.err
    for one in (sheet, page):  # the names of slides in a file are those of reports
        assert f"line 2: a file of hits {missing}" in one.err


def test_an_export_needs_the_pseudonyms_of_reports(tmp_path, tiny_archive):
    (done,) = without("reports", ("export", "table", "-a", tiny_archive, "-o", "out"), folder=tmp_path)
    assert done.code == 2 and "an export needs the application 'reports'" in done.err
    assert not (tmp_path / "out").exists()


def test_the_demo_says_at_once_that_reports_are_missing(tmp_path):
    (done,) = without("reports", ("demo", "--dir", "demo"), folder=tmp_path)
    assert done.code == 2
    assert "error: the demo needs the application 'reports', which is not installed" in done.err
    assert "fix: install slideseek" in done.err
    assert not (tmp_path / "demo").exists()


def test_a_benchmark_without_interchange_reads_all_but_feature_folders(tmp_path, tiny_archive):
    (tmp_path / "features").mkdir()
    np.save(tmp_path / "features" / "s0.npy", np.zeros((2, 3), np.float32))
    (tmp_path / "manifest.csv").write_text("slide_id,case_id\ns0,p0\n")
    (tmp_path / "bench.toml").write_text(
        '[[protocol]]\nname = "vertical"\nfolds = 2\n\n[[engine]]\nname = "mean"\nencoder = "mean"\n'
    )
    run = ("bench", "run", "bench.toml")
    listed, archive, folder = without(
        "interchange",
        (*run, "--list"),
        (*run, "--data", tiny_archive, "-o", "one"),
        (*run, "--data", "features", "--set", "dataset.manifest=manifest.csv", "-o", "two"),
        folder=tmp_path,
    )
    assert (listed.code, archive.code) == (0, 0), archive.err
    missing = "a folder of feature files needs the application 'interchange', which is not installed"
    assert folder.code == 2
    assert f"error: {missing}" in folder.err
    assert "fix: install slideseek" in folder.err
