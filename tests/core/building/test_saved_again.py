"""What a plugin saves is loaded again and compared before it counts; a batch is compared with single codes."""

import inspect

import numpy as np
import pytest

from slideseek.boundary import CheckedIndex, Owner
from slideseek.engine import toy_bags
from slideseek.types import Code
from slideseek_components.encoders.gmm_fv import GmmFisher
from slideseek_components.encoders.mean import Mean
from slideseek_components.indexes.cosine import Cosine

LEARNS = """
[[engine]]
name       = "learns"
selector   = { use = "grid", size = 64, mpp = 1.0 }
featurizer = { use = "colour-texture" }
encoder    = { use = "gmm-fv", components = 2 }
index      = { use = "cosine" }
"""


@pytest.fixture
def learning(tiny_archive):
    (tiny_archive / "slideseek.toml").write_text(LEARNS)
    return tiny_archive


def test_a_model_that_is_not_restored_is_the_plugins_fault(learning, slideseek, monkeypatch):
    monkeypatch.setattr(GmmFisher, "load", lambda self, folder: None)
    built = slideseek("build", "-a", learning)
    assert (
        built.code != 0 and "encoder 'gmm-fv' of slideseek" in built.err and "does not encode after load()" in built.err
    )
    monkeypatch.undo()
    assert slideseek("build", "-a", learning).code == 0
    assert slideseek("search", "s0", "-a", learning).code == 0


def test_a_model_restored_otherwise_is_the_plugins_fault(learning, slideseek, monkeypatch):
    load = GmmFisher.load

    def other(self, folder):
        load(self, folder)
        monkeypatch.setattr(self, "encode", lambda bag: Code(bag.slide_id, GmmFisher.encode(self, bag).rows * -1))

    monkeypatch.setattr(GmmFisher, "load", other)
    built = slideseek("build", "-a", learning)
    assert built.code != 0 and "gives other codes after save() and load() than before" in built.err


def test_an_index_restored_with_other_ids_is_the_plugins_fault(learning, slideseek, monkeypatch):
    load, ids = Cosine.load, inspect.getattr_static(Cosine, "ids")

    def restored(self, folder):
        load(self, folder)
        self.turned = True

    def turned(self):
        return list(ids.fget(self))[:: -1 if hasattr(self, "turned") else 1]

    monkeypatch.setattr(Cosine, "load", restored)
    monkeypatch.setattr(Cosine, "ids", property(turned))
    built = slideseek("build", "-a", learning)
    assert built.code != 0 and "index 'cosine' of slideseek" in built.err, built.err
    assert "after save() and load() than before" in built.err


def test_an_index_must_return_the_nearest_for_one_hit():
    class Farthest(Cosine):
        def search(self, code, k, among=None):
            return Cosine.search(self, code, 99, among)[-k:]

    codes = [Mean().encode(bag) for bag in toy_bags(8)]
    CheckedIndex(Cosine(), Owner("index", "toy", "toys 1.0")).probe_nearest(codes)
    with pytest.raises(Exception, match=r"toys 1.0 does not return the nearest code when one hit is wanted"):
        CheckedIndex(Farthest(), Owner("index", "toy", "toys 1.0")).probe_nearest(codes)


def test_hits_at_one_distance_are_noted(learning, slideseek, monkeypatch):
    def equal(self, bag):
        return Code(bag.slide_id, np.ones((1, bag.width), np.float32))

    monkeypatch.setattr(Mean, "encode", equal)
    (learning / "slideseek.toml").write_text(LEARNS.replace('"gmm-fv", components = 2', '"mean"'))
    assert slideseek("build", "-a", learning).code == 0
    notes = slideseek("search", "s0", "-a", learning, "--json").json["notes"]
    assert [note for note in notes if note.startswith("all 5 hits are equally far")]
