"""An interrupted slide goes on where it stopped, and ends in the same bytes."""

import numpy as np
import pytest

from slideseek.archive.archive import Archive
from slideseek.building import parts as building_parts
from slideseek.building.build import Builder
from slideseek.building.parts import Parts, ReadSoFar
from slideseek.building.reporting import Silent
from slideseek.engine import Engine, make_engines
from slideseek.plugins import load_registry

CONFIG = """
[[engine]]
name       = "small"
selector   = { use = "grid", size = 32, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "mean" }
index      = { use = "cosine" }
"""


@pytest.fixture
def made(tmp_path, paint_tiny, slideseek):
    """A function that makes an archive of one slide with 196 patches."""
    paint_tiny(tmp_path / "big.png", 1, True, side=640)

    def make(name):
        (tmp_path / "small.toml").write_text(CONFIG)
        assert slideseek("init", tmp_path / name, "--config", tmp_path / "small.toml").code == 0
        assert slideseek("add", tmp_path / "big.png", "--mpp", "1.0", "-a", tmp_path / name).code == 0
        return tmp_path / name

    return make


class Counting:
    """Count the patches that are featurized, and stop after some of them."""

    def __init__(self, monkeypatch, most=10**9):
        self.patches, real = 0, Engine.features

        def features(engine, images):
            if len(images) > 2:  # not the two toy images an engine is tried with
                self.patches += len(images)
                if self.patches > most:
                    raise KeyboardInterrupt
            return real(engine, images)

        monkeypatch.setattr(Engine, "features", features)


def run(folder):
    with Archive(folder) as archive:
        engines = make_engines(archive.config.engines, load_registry())
        return Builder(archive, engines, Silent()).run()


def features_of(folder):
    (file,) = (folder / "features").rglob("*.h5")
    return file.read_bytes()


def test_a_killed_slide_goes_on(made, monkeypatch):
    monkeypatch.setattr(building_parts, "PART_PATCHES", 64)
    whole, cut = made("whole"), made("cut")
    counted = Counting(monkeypatch)
    run(whole)
    total = counted.patches
    assert total > 200 and not list((whole / "parts").rglob("*.npz"))
    with monkeypatch.context() as patch:
        Counting(patch, most=150)
        with pytest.raises(KeyboardInterrupt):
            run(cut)
    assert len(list((cut / "parts").rglob("*.npz"))) == 2
    with monkeypatch.context() as patch:
        counted = Counting(patch)
        run(cut)
    assert counted.patches == total - 128, "only the patches after the second part"
    assert features_of(cut) == features_of(whole)
    assert not list((cut / "parts").rglob("*.npz"))


def test_parts_of_other_content_are_not_used(made, monkeypatch, tmp_path, paint_tiny):
    monkeypatch.setattr(building_parts, "PART_PATCHES", 64)
    cut = made("cut")
    with monkeypatch.context() as patch:
        Counting(patch, most=150)
        with pytest.raises(KeyboardInterrupt):
            run(cut)
    paint_tiny(tmp_path / "big.png", 2, True, side=640)
    with monkeypatch.context() as patch:
        counted = Counting(patch)
        run(cut)
    assert counted.patches > 200, "all of them"
    assert not list((cut / "parts").rglob("*.npz")), "nobody will ask for them again"


def test_a_damaged_part_and_those_after_it_are_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(building_parts, "PART_PATCHES", 2)
    written = Parts(tmp_path, "s" * 64, "k" * 64)
    for first in (0, 2, 4):
        written.add(np.array([first, first + 1]), np.full((2, 3), first, np.float32), ReadSoFar(first + 2, first, 7))
    begun = Parts(tmp_path, "s" * 64, "k" * 64).begun(3, 10)
    assert begun is not None and begun.read == ReadSoFar(6, 4, 7, 0) and begun.rows.tolist() == [0, 1, 2, 3, 4, 5]
    assert begun.features[:, 0].tolist() == [0, 0, 2, 2, 4, 4]
    second = sorted(tmp_path.rglob("*.npz"))[1]
    second.write_bytes(second.read_bytes()[:-1] + b"x")
    begun = Parts(tmp_path, "s" * 64, "k" * 64).begun(3, 10)
    assert begun is not None and begun.read.next == 2 and begun.rows.tolist() == [0, 1]
    assert len(list(tmp_path.rglob("*.npz"))) == 1
    assert Parts(tmp_path, "s" * 64, "k" * 64).begun(4, 10) is None, "another width"


def test_patches_left_out_before_count_on(tmp_path, monkeypatch):
    monkeypatch.setattr(building_parts, "PART_PATCHES", 2)
    written = Parts(tmp_path, "s" * 64, "k" * 64)
    written.add(np.array([0, 3]), np.zeros((2, 3), np.float32), ReadSoFar(4, 2, 0))
    begun = Parts(tmp_path, "s" * 64, "k" * 64).begun(3, 10)
    assert begun is not None and begun.read.left_out == 2
