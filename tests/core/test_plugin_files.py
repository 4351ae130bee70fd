"""Plugins in single files of an archive: used only when trusted, and counted by their content."""

from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "plugins" / "rules.md"
PLUGIN = '''
from dataclasses import dataclass

import numpy as np

from slideseek.hookspecs import hookimpl
from slideseek.interfaces import Encoder
from slideseek.types import Code, CodeSpec

slideseek_api = 1


@hookimpl
def register_encoders(register):
    register("spread", f"{__name__}:Spread", "the spread of the features")


@dataclass
class Spread(Encoder):
    """The standard deviation of each feature."""

    def spec(self, width):
        return CodeSpec("float", width)

    def encode(self, bag):
        return Code(bag.slide_id, (bag.features.std(axis=0, keepdims=True) * 1.0).astype(np.float32))
'''
ENGINE = """
plugins = ["spread.py"]

[[engine]]
name       = "spread"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "spread" }
index      = { use = "cosine" }

[[engine]]
name       = "mean"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "mean" }
index      = { use = "cosine" }
"""


@pytest.fixture
def archive(tiny_archive):
    (tiny_archive / "spread.py").write_text(PLUGIN)
    (tiny_archive / "slideseek.toml").write_text(ENGINE)
    return tiny_archive


def test_the_file_of_the_page_passes_the_kit_and_is_searched(tiny_archive, slideseek, monkeypatch):
    text = PAGE.read_text(encoding="utf-8").partition("# my_encoder.py\n")[2].partition("```")[0]
    (tiny_archive / "my_encoder.py").write_text(text)
    engine = ENGINE.replace("spread.py", "my_encoder.py").replace('use = "spread"', 'use = "range"')
    (tiny_archive / "slideseek.toml").write_text(engine)
    refused = slideseek("build", "-a", tiny_archive, "--engine", "spread")
    assert refused.code == 2
    assert f"not trusted: read it, then set SLIDESEEK_TRUST={tiny_archive.resolve()}" in refused.err
    assert "SlideseekError" not in refused.err
    monkeypatch.setenv("SLIDESEEK_TRUST", str(tiny_archive))
    checked = slideseek("plugins", "check", "range", "-a", tiny_archive)
    assert checked.code == 0, checked.out
    assert slideseek("build", "-a", tiny_archive).code == 0
    assert slideseek("search", "s0", "-a", tiny_archive, "--engine", "spread", "--json").json["hits"]


def test_one_mistake_that_fails_many_checks_is_printed_once(archive, slideseek, monkeypatch):
    monkeypatch.setenv("SLIDESEEK_TRUST", str(archive))
    (archive / "spread.py").write_text(PLUGIN.replace(".astype(np.float32)", "").replace("* 1.0", "* np.float64(1)"))
    checked = slideseek("plugins", "check", "spread", "-a", archive)
    assert checked.code == 3
    line = 1 + PLUGIN.splitlines().index(next(one for one in PLUGIN.splitlines() if "return Code(" in one))
    must = "Got ValueError: Code.rows must be uint8 or float32 (n, columns)"
    assert checked.out.count(f"{must}, not float64 (1, 16) at spread.py line {line}.") == 1
    # These two expect an error: their messages have an expectation and a fix of their own, and are printed.
    for name in ("empty_bag_is_refused", "bad_numbers_are_refused"):
        assert "as in" not in checked.out.partition(f"FAILED  {name}")[2].splitlines()[1]
    assert checked.out.count("as in codes_honour_the_spec") > 5


def test_a_file_that_is_not_trusted_does_not_run_and_other_engines_work(archive, slideseek):
    (archive / "spread.py").write_text(f"open({str(archive / 'ran')!r}, 'w')\n{PLUGIN}")
    done = slideseek("build", "-a", archive)
    assert done.code == 2 and "no encoder named 'spread'" in done.err
    assert f"runs code and is not trusted: read it, then set SLIDESEEK_TRUST={archive}" in done.err
    assert slideseek("search", "s0", "-a", archive, "--engine", "mean").code == 0
    assert not (archive / "ran").exists()


def test_a_trusted_file_is_used_and_an_edit_is_noticed(archive, slideseek, monkeypatch):
    monkeypatch.setenv("SLIDESEEK_TRUST", str(archive))
    done = slideseek("build", "-a", archive)
    assert done.code == 0, done.err
    before = slideseek("search", "s0", "-a", archive, "--json").json["hits"]
    (archive / "spread.py").write_text(PLUGIN.replace("* 1.0", "** 2"))
    done = slideseek("search", "s0", "-a", archive)
    assert done.code == 1 and "must not be mixed" in done.err and "run 'slideseek build'" in done.err
    assert "spread.py" in slideseek("status", "-a", archive).out
    done = slideseek("build", "-a", archive)
    assert done.code == 0 and "encoder 'spread' was spread.py" in done.err and "codes are computed again" in done.err
    assert "done before" in done.err, "features are kept"
    assert slideseek("search", "s0", "-a", archive, "--json").json["hits"] != before


def test_a_file_outside_the_archive_is_refused(archive, slideseek, monkeypatch, tmp_path):
    monkeypatch.setenv("SLIDESEEK_TRUST", str(tmp_path))
    (archive.parent / "outside.py").write_text(PLUGIN)
    (archive / "slideseek.toml").write_text(ENGINE.replace("spread.py", "../outside.py"))
    done = slideseek("build", "-a", archive)
    assert done.code == 2 and "lies outside the archive's folder" in done.err


def test_a_file_that_fails_is_one_line(archive, slideseek, monkeypatch):
    monkeypatch.setenv("SLIDESEEK_TRUST", str(archive))
    (archive / "spread.py").write_text("1 / 0\n")
    done = slideseek("build", "-a", archive)
    assert done.code == 2 and "ZeroDivisionError: division by zero" in done.err and "Traceback" not in done.err


def test_a_file_that_registers_readers_is_refused(archive, slideseek, monkeypatch):
    monkeypatch.setenv("SLIDESEEK_TRUST", str(archive))
    hook = "\n\n@hookimpl\ndef register_readers(register):\n    register('own', 'own:Own', 'own files')\n"
    (archive / "spread.py").write_text(PLUGIN + hook)
    assert "register_readers works only in an installed plugin" in slideseek("plugins", "list", "-a", archive).out


def test_list_show_and_check_see_the_files_of_an_archive(archive, slideseek, monkeypatch):
    missing = slideseek("plugins", "show", "spread", "-a", archive)
    assert missing.code == 2 and "is not trusted" in missing.err
    monkeypatch.setenv("SLIDESEEK_TRUST", str(archive))
    assert "spread.py" in slideseek("plugins", "list", "-a", archive).out
    assert "The standard deviation" in slideseek("plugins", "show", "spread", "-a", archive).out
    assert "empty_bag_is_refused" in slideseek("plugins", "check", "spread", "-a", archive).out
