"""Builds: independent of workers, patient with hanging slides, honest in their report."""

import shutil
import sqlite3
import threading
import time

import numpy as np
import pytest

from slideseek.archive.archive import Archive
from slideseek.building.build import Builder, BuildOptions
from slideseek.engine import make_engines
from slideseek.errors import PluginError, SlideseekError
from slideseek.indexing.stage_cache import StageCache
from slideseek.interfaces import Resizing
from slideseek.plugins import load_registry
from slideseek.slides.reader import open_slide
from slideseek_components.encoders.bovw import Bovw
from slideseek_components.featurizers.colour_texture import ColourTexture


class Silent:
    """A reporter that keeps what it is told."""

    def __init__(self):
        self.reports, self.notes = [], []

    def phase(self, name, total, brief=False): ...

    def skip(self, slide_ids): ...

    def begin(self, slide_id): ...

    def slide(self, report):
        self.reports.append(report)

    def epoch(self, engine, metrics): ...

    def note(self, text):
        self.notes.append(text)


def build(folder, **options):
    with Archive(folder) as archive:
        engines = make_engines(archive.config.engines, load_registry())
        reporter = Silent()
        return Builder(archive, engines, reporter, BuildOptions(**options)).run(), reporter


def stored(folder):
    with sqlite3.connect(folder / "catalog.sqlite") as db:
        rows = db.execute("SELECT key, kind, sha256 FROM payloads WHERE kind != 'features' ORDER BY key").fetchall()
    db.close()
    return rows


@pytest.fixture
def added(tmp_path, tiny_slides, tiny_config, slideseek):
    """A function that makes a fresh archive of the tiny slides, added and not built."""

    def make(name):
        folder = tmp_path / name
        assert slideseek("init", folder, "--config", tiny_config).code == 0
        manifest = tiny_slides / "manifest.csv"
        assert slideseek("add", tiny_slides, "--manifest", manifest, "-a", folder).code == 0
        return folder

    return make


def test_patches_and_codes_do_not_depend_on_the_workers(added):
    seen = []
    for workers in (0, 1, 2, 5):
        folder = added(f"w{workers}")
        summary, _ = build(folder, workers=workers)
        assert summary.counts == {"ok": 8}
        seen.append(stored(folder))
    assert seen[0] and all(other == seen[0] for other in seen)


def test_a_slide_that_hangs_is_given_up_and_the_others_go_on(added, monkeypatch):
    from slideseek.building import slide_work

    real, release = open_slide, threading.Event()

    def hanging(path, slide_id="", mpp=None):
        if slide_id == "s2":
            release.wait(30)
        return real(path, slide_id, mpp)

    monkeypatch.setattr(slide_work, "open_slide", hanging)
    folder = added("hang")
    started = time.monotonic()
    summary, _ = build(folder, patience=1.5)
    assert time.monotonic() - started < 25
    release.set()
    assert set(summary.failures) == {"s2"} and summary.counts == {"ok": 7, "failed": 1}
    assert "no progress for 1.5 s" in summary.failures["s2"].cause
    assert build(folder)[0].counts == {"ok": 1, "skipped": 7}


def test_the_run_report_tells_what_failed(added, tiny_slides):
    folder = added("report")
    (tiny_slides / "s4.png").write_bytes(b"not | an image")
    summary, _ = build(folder)
    page = summary.report.read_text()
    assert summary.report == folder / "runs" / "00001" / "report.md"
    assert "7 slides ok, 0 skipped (done before), 1 failed" in page and "**failed slides**" in page
    (row,) = [line for line in page.splitlines() if line.startswith("| s4 |")]
    assert row.count(" | ") == 2 and "- `bars`: sets of 255 bits, 7 slides indexed" in page
    again, _ = build(folder)
    assert again.report.parent.name == "00002"


def test_unreadable_patches_are_counted_against_a_budget():
    from slideseek.errors import RegionError, SlideError
    from slideseek.slides.patch_images import patch_images
    from slideseek.types import Patches
    from slideseek_components.pixels.array_slide import ArraySlide

    class Torn(ArraySlide):
        bad: frozenset[int] = frozenset()

        def read(self, xy, size, mpp):
            if xy[0] in self.bad:
                raise RegionError("a region cannot be decoded")
            return super().read(xy, size, mpp)

    slide = Torn(np.zeros((64, 2000, 3), np.uint8), mpp=1.0, slide_id="torn")
    patches = Patches.at("torn", np.array([[8 * n, 0] for n in range(200)]), 8, 1.0)
    slide.bad = frozenset({80, 160})
    rows = np.concatenate([rows for rows, _ in patch_images(slide, patches, 8)])
    assert sorted(set(range(200)) - set(rows.tolist())) == [10, 20]
    slide.bad = frozenset({80, 160, 240})
    with pytest.raises(SlideError, match=r"3 of the first 31 patches cannot be read, at most 2 of 200 may fail"):
        list(patch_images(slide, patches, 8))


def test_patches_are_read_at_the_featurizers_side_when_it_shrinks_them(added):
    from slideseek.types import Patches

    with Archive(added("side")) as archive:
        (engine, _) = make_engines(archive.config.engines, load_registry())
    patches = Patches.at("x", np.zeros((1, 2)), 1000, 0.5)
    assert engine.read_side(patches) == 1000

    class Shrinking(Resizing):
        side = 224

    class Optioned:
        side = 224

    engine.__dict__["featurizer"] = Optioned()
    assert engine.read_side(patches) == 1000, "an option that happens to be called side"

    engine.__dict__["featurizer"] = Shrinking()
    assert engine.read_side(patches) == 224
    assert engine.read_side(Patches.at("x", np.zeros((1, 2)), 100, 0.5)) == 100


TRAINED = """
[[engine]]
name       = "words"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "bovw", words = 4 }
index      = { use = "cosine" }
"""


@pytest.fixture
def trained(tmp_path, added):
    folder = added("trained")
    (folder / "slideseek.toml").write_text(TRAINED)
    build(folder)
    return folder


def codes(folder):
    with Archive(folder) as archive:
        (engine,) = make_engines(archive.config.engines, load_registry())
        return {
            slide: p.data
            for slide, p in archive.catalog.codes(
                StageCache(archive, lambda text: None).settings_digest(engine, "encode")
            )
        }


def test_a_refit_that_comes_out_different_makes_new_codes(trained, monkeypatch):
    before, folders = codes(trained), set((trained / "models").iterdir())
    assert len(before) == 8
    build(trained, refit=True)
    assert codes(trained) == before and set((trained / "models").iterdir()) == folders, "the same fit, the same model"
    real = Bovw.fit

    def other(self, bags, labels, groups):
        real(self, bags[::2], labels[::2], groups[::2])

    monkeypatch.setattr(Bovw, "fit", other)
    build(trained, refit=True)
    assert codes(trained) != before and len(codes(trained)) == 8
    assert len(list((trained / "models").iterdir())) == 1, "the old model is gone"


def test_a_lost_model_is_fitted_again(trained):
    before = codes(trained)
    shutil.rmtree(trained / "models")
    _, reporter = build(trained)
    assert any("it is fitted again" in note for note in reporter.notes)
    assert codes(trained) == before


def test_changed_labels_are_noticed(trained, tiny_slides, slideseek):
    manifest = tiny_slides / "manifest.csv"
    manifest.write_text(manifest.read_text().replace("fine", "finer"))
    slideseek("add", tiny_slides, "--manifest", manifest, "-a", trained)
    _, reporter = build(trained)
    assert any("pass --refit" in note for note in reporter.notes)


def test_one_engine_that_stops_does_not_stop_the_others(trained):
    text = TRAINED.replace('"words"', '"bad"').replace("words = 4", "words = 100000") + TRAINED
    (trained / "slideseek.toml").write_text(text)
    shutil.rmtree(trained / "index")
    with pytest.raises(SlideseekError):
        build(trained)
    assert (trained / "index" / "words").is_dir()


def test_notes_of_every_engine_are_told(added):
    folder = added("notes")
    text = (folder / "slideseek.toml").read_text()
    finer = (
        text.replace('"bars"', '"finer"')
        .replace('"mean"\nselector', '"finer-mean"\nselector')
        .replace("mpp = 1.0", "mpp = 0.7")
    )
    (folder / "slideseek.toml").write_text(text + finer)
    summary, reporter = build(folder)
    noted = [
        r
        for r in reporter.reports
        if any("patches of 0.70 µm/px are upsampled: the slide has only 1.00" in n for n in r.notes)
    ]
    assert len(noted) == 8
    assert "patches of 0.70" in summary.report.read_text()


def test_bad_weights_stop_the_run_before_the_first_slide(added, tmp_path):
    folder = added("weights")
    (tmp_path / "w.pth").write_bytes(b"not weights")
    text = (folder / "slideseek.toml").read_text()
    chosen = f'{{ use = "densenet121", weights = "{tmp_path / "w.pth"}" }}'
    (folder / "slideseek.toml").write_text(text.replace('{ use = "colour-texture" }', chosen))
    with pytest.raises(SlideseekError, match=r"w\.pth"):
        build(folder)
    with Archive(folder) as archive:
        assert archive.catalog.stages() == [], "no slide is to blame"


def spied(monkeypatch, spoil):
    """Record the batches that the featurizer gets, by number and side; `spoil` changes its features."""
    batches, honest = [], ColourTexture.featurize

    def featurize(self, images):
        batches.append(images.shape[:2])
        return spoil(images, honest(self, images))

    monkeypatch.setattr(ColourTexture, "featurize", featurize)
    return batches


def test_a_featurizer_that_works_is_tried_with_patches_only(added, monkeypatch):
    batches = spied(monkeypatch, lambda images, features: features)
    assert not build(added("works"))[0].failures
    assert batches[0] == (0, 224), "a network is loaded while the first slide is read"
    assert all(side != 224 for _, side in batches[1:]), "no toy images"


def test_a_featurizer_need_not_take_an_empty_batch(added, monkeypatch):
    spied(monkeypatch, lambda images, features: features if len(images) else 1 // 0)
    assert not build(added("none"))[0].failures


def test_a_featurizer_that_cannot_work_is_one_error(added, monkeypatch):
    batches = spied(monkeypatch, lambda images, features: features[:-1])
    folder = added("never")
    with pytest.raises(PluginError, match=r"'colour-texture' of slideseek .* returned float32 \(1, \d+\)"):
        build(folder)
    assert [count for count, _ in batches[2:]] == [2], "two toy images show that it is not the first slide"
    with Archive(folder) as archive:
        assert {stage.stage for stage in archive.catalog.stages()} == {"select"}, "no slide is to blame"


def test_a_featurizer_that_fails_on_one_slide_does_not_stop_the_others(added, monkeypatch):
    seen = []

    def spoil(images, features):
        seen.append(len(images))
        return features * np.float32(np.nan) if len(seen) == 2 else features

    spied(monkeypatch, spoil)
    summary, _ = build(added("one"))
    (failed,) = summary.failures.values()
    assert failed.cause.startswith("featurizer 'colour-texture' of slideseek")


def test_features_shared_with_a_slide_that_changed_are_made_in_the_same_build(
    added, tiny_slides, paint_tiny, slideseek
):
    folder, manifest = added("twins"), tiny_slides / "manifest.csv"
    shutil.copy(tiny_slides / "s0.png", tiny_slides / "t0.png")
    manifest.write_text(manifest.read_text() + "t0,t0.png,p0,colon,coarse,C0,1.0,50\n")
    assert slideseek("add", tiny_slides, "--manifest", manifest, "-a", folder).code == 0
    assert build(folder)[0].counts == {"ok": 9}
    paint_tiny(tiny_slides / "s0.png", 99, True)
    assert slideseek("add", tiny_slides, "--manifest", manifest, "-a", folder).code == 0
    assert build(folder)[0].counts == {"ok": 1, "skipped": 8}
    with Archive(folder) as archive:
        engines = make_engines(archive.config.engines, load_registry())
        stages = StageCache(archive, lambda text: None)
        assert all(len(stages.ready(engine)) == 9 for engine in engines)
        assert [stages.sound(key) is not None for _, key in stages.ready(engines[0])] == [True] * 9
    assert build(folder)[0].counts == {"skipped": 9}
