"""Slides can be searched while others are computed, and the end is the same as without."""

import sqlite3

import pytest

from slideseek.archive.archive import Archive
from slideseek.building import encoding, index_saving
from slideseek.building.build import Builder
from slideseek.building.reporting import Silent
from slideseek.engine import make_engines
from slideseek.errors import SlideseekError
from slideseek.plugins import load_registry
from slideseek.searching.searcher import Searcher

LEARNT = """
[[engine]]
name       = "learnt"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "bovw", words = 4 }
index      = { use = "cosine" }
"""


class Asking(Silent):
    """After every slide of the features phase, count the slides that each engine can search."""

    def __init__(self, root, names):
        self.root, self.names, self.found, self.told, self.notes = root, names, [], [], []

    def note(self, text):
        self.notes.append(text)

    def slide(self, report):
        with Archive(self.root) as archive:
            try:
                searchers = [Searcher.open(archive, name) for name in self.names]
            except SlideseekError:
                self.found.append(0)
                return
            self.found.append(min(len(searcher.index.ids) for searcher in searchers))
            answer = searchers[0].search(searchers[0].query("s0"), 3)
            self.told += answer.notes
            assert len(answer.found) == min(3, self.found[-1] - 1)


def fresh(tmp_path, tiny_slides, slideseek, config, name):
    (tmp_path / "engines.toml").write_text(config)
    folder = tmp_path / name
    assert slideseek("init", folder, "--config", tmp_path / "engines.toml").code == 0
    assert slideseek("add", tiny_slides, "--manifest", tiny_slides / "manifest.csv", "-a", folder).code == 0
    return folder


def run(folder, reporter):
    with Archive(folder) as archive:
        engines = make_engines(archive.config.engines, load_registry())
        return Builder(archive, engines, reporter).run()


def stored(folder):
    with sqlite3.connect(folder / "catalog.sqlite") as db:
        rows = db.execute("SELECT key, kind, sha256 FROM payloads ORDER BY key").fetchall()
    db.close()
    return rows


def index_bytes(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted((folder / "index").rglob("*")) if f.is_file()}


def test_the_first_slides_are_found_before_the_last_are_read(
    tmp_path, tiny_slides, tiny_config, slideseek, monkeypatch
):
    monkeypatch.setattr(encoding, "ENCODE_BATCH", 3)
    monkeypatch.setattr(index_saving, "EARLY_CHANGED", 1)
    folder = fresh(tmp_path, tiny_slides, slideseek, tiny_config.read_text(), "early")
    asking = Asking(folder, ["bars", "mean"])
    summary = run(folder, asking)
    assert asking.found[:8] == [0, 1, 2, 2, 4, 4, 4, 7] and asking.found[-1] == 8, "one, one, two, then three at a time"
    assert all("not in the index" in note for note in asking.told), "and from a saved index"
    assert summary.indexed == {"bars": 8, "mean": 8}
    monkeypatch.setattr(encoding.EarlyCodes, "add", lambda self, slide_id: None)
    whole = fresh(tmp_path, tiny_slides, slideseek, tiny_config.read_text(), "whole")
    run(whole, Silent())
    assert stored(folder) == stored(whole) and index_bytes(folder) == index_bytes(whole)


def test_what_waits_is_bounded_by_time_too(tmp_path, tiny_slides, tiny_config, slideseek, monkeypatch):
    monkeypatch.setattr(encoding, "MOST_SECONDS", 0.0)
    folder = fresh(tmp_path, tiny_slides, slideseek, tiny_config.read_text(), "soon")
    asking = Asking(folder, ["bars"])
    run(folder, asking)
    assert asking.found[:8] == list(range(8))


def test_an_encoder_that_learns_needs_all_slides_once(tmp_path, tiny_slides, slideseek, paint_tiny):
    folder = fresh(tmp_path, tiny_slides, slideseek, LEARNT, "learnt")
    asking = Asking(folder, ["learnt"])
    run(folder, asking)
    assert asking.found[:8] == [0] * 8 and any("is fitted on all slides first" in note for note in asking.notes)
    for number in (8, 9):
        paint_tiny(tiny_slides / f"s{number}.png", number, True)
    assert slideseek("add", tiny_slides, "--mpp", "1.0", "-a", folder).code == 0
    asking = Asking(folder, ["learnt"])
    run(folder, asking)
    assert asking.found[:2] == [8, 9] and not any("fitted on all slides first" in note for note in asking.notes)


def test_a_bad_slide_is_tried_once_in_a_build(tmp_path, tiny_slides, tiny_config, slideseek, monkeypatch):
    from slideseek_components.encoders.mean import Mean

    real = Mean.encode
    tried = []

    def picky(self, bag):
        if bag.slide_id == "s0":
            tried.append(bag.slide_id)
            raise SlideseekError("this slide is bad", "leave it out")
        return real(self, bag)

    monkeypatch.setattr(Mean, "encode", picky)
    folder = fresh(tmp_path, tiny_slides, slideseek, tiny_config.read_text(), "bad")
    summary = run(folder, Silent())
    assert list(summary.failures) == ["s0"] and tried == ["s0"] and summary.indexed == {"bars": 8, "mean": 7}


@pytest.mark.parametrize("engine", ["bars", "mean"])
def test_an_interrupted_build_can_be_searched(tmp_path, tiny_slides, tiny_config, slideseek, engine):
    class Stopping(Silent):
        done = 0

        def slide(self, report):
            self.done += 1
            if self.done == 5:
                raise KeyboardInterrupt

    folder = fresh(tmp_path, tiny_slides, slideseek, tiny_config.read_text(), "stopped")
    with pytest.raises(KeyboardInterrupt):
        run(folder, Stopping())
    found = slideseek("search", "s0", "--engine", engine, "-a", folder, "--json").json
    assert found["candidates"] == 3 and "4 slide(s) of the archive are not in the index" in found["notes"][0]
    assert slideseek("build", "-a", folder, "--json").json["indexed"] == {"bars": 8, "mean": 8}
