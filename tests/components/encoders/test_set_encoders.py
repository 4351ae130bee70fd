"""The encoders with a network over sets learn classes of slides, reproducibly and with patients apart."""

from typing import Any

import numpy as np
import pytest

from slideseek.types import Bag
from slideseek_components.encoders.attention_mil import AttentionMil
from slideseek_components.encoders.deep_sets import DeepSets
from slideseek_components.encoders.focal_attention import FocalAttention
from slideseek_components.encoders.memory_set import MemorySet
from slideseek_components.encoders.projected import Projected
from slideseek_components.encoders.set_networks import trainer
from slideseek_components.encoders.set_networks.classes import Classes

ENCODERS = [DeepSets, AttentionMil, MemorySet, FocalAttention]
WIDTH = 10


def archive(count=24, seed=0, sites=("lung",)):
    """Slides of two classes: a quarter of the patches of `x` is shifted, all others are noise."""
    rng = np.random.default_rng(seed)
    bags, labels = [], []
    for i in range(count):
        features = rng.normal(size=(int(rng.integers(10, 30)), WIDTH)).astype(np.float32)
        if i % 2:
            features[: max(3, len(features) // 4), 0] += 6.0
        bags.append(Bag(f"s{i}", features, np.zeros((len(features), 2), dtype=np.int32), sites[i // 2 % len(sites)]))
        labels.append("ox"[i % 2])
    return bags, labels, [f"p{i // 2}" for i in range(count)]


def right(encoder, bags, labels, train, train_labels):
    """The share of slides whose nearest training slide has the same label."""
    unit = [code / np.linalg.norm(code) for code in (encoder.encode(bag).rows[0] for bag in train)]
    found = [encoder.encode(bag).rows[0] for bag in bags]
    return np.mean([train_labels[int(np.argmax(np.array(unit) @ code))] == own for code, own in zip(found, labels)])


@pytest.mark.parametrize("kind", ENCODERS)
def test_slides_never_seen_are_told_apart(kind):
    train, test = archive(40), archive(20, seed=1)
    encoder = kind(hidden=(16, 16), epochs=40, device="cpu")
    encoder.fit(*train)
    assert right(encoder, test[0], test[1], train[0], train[1]) >= 0.8


@pytest.mark.parametrize("kind", ENCODERS)
def test_training_is_reproducible_and_leaves_random_numbers_alone(kind):
    import torch

    bags, labels, groups = archive()
    order = np.random.default_rng(5)
    mixed = [Bag(bag.slide_id, bag.features[order.permutation(len(bag))], bag.xy, bag.site) for bag in bags]
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    codes = []
    for given in (bags, mixed):
        encoder = kind(hidden=(8, 8), epochs=3, patches=12, device="cpu")
        encoder.fit(given, labels, groups)
        codes.append(encoder.encode(bags[3]).rows.tobytes())
    assert codes[0] == codes[1], "the order in which patches are stored must not matter"
    assert torch.equal(torch.random.get_rng_state(), before)
    other = kind(hidden=(8, 8), epochs=3, patches=12, seed=1, device="cpu")
    other.fit(bags, labels, groups)
    assert other.encode(bags[3]).rows.tobytes() != codes[0]


def test_slides_that_do_not_fit_in_memory_train_the_same(monkeypatch):
    bags, labels, groups = archive()
    codes = []
    for held in (trainer.HELD, 500, 0):
        monkeypatch.setattr(trainer, "HELD", held)
        encoder = DeepSets(hidden=(8,), epochs=2, patches=12, device="cpu")
        encoder.fit(bags, labels, groups)
        codes.append(encoder.encode(bags[0]).rows.tobytes())
    assert len(set(codes)) == 1


def test_early_stopping_holds_whole_patients_out(monkeypatch):
    seen: dict[str, Any] = {}

    class Watched(trainer.Trainer):
        def run(self):
            seen["learn"], seen["stop"], seen["epochs"] = self.learn, self.stop, super().run()
            return seen["epochs"]

    monkeypatch.setattr("slideseek_components.encoders.set_networks.encoder.Trainer", Watched)
    bags, labels, groups = archive()
    rng = np.random.default_rng(0)
    DeepSets(hidden=(8,), epochs=200, validation=0.25, patience=2, learning_rate=0.1, device="cpu").fit(
        bags, [str(rng.integers(2)) for _ in labels], groups
    )
    assert seen["epochs"] < 200
    patients = [{groups[i] for i in seen[part]} for part in ("learn", "stop")]
    assert patients[0] and patients[1] and not patients[0] & patients[1]
    assert len(seen["learn"]) + len(seen["stop"]) == len(bags)


def test_classes_are_labels_sites_or_both():
    labels, sites = ["a", "b", "", "a"], ["lung", "lung", "skin", ""]
    assert Classes.of(labels, sites, "label", "e").numbers.tolist() == [[0], [1], [-1], [0]]
    both = Classes.of(labels, sites, "both", "e")
    assert both.counts == (2, 2) and both.numbers.tolist() == [[0, 0], [1, 0], [-1, 1], [0, -1]]
    assert Classes.of(labels, ["lung"] * 4, "both", "e").counts == (2,)
    assert Classes.of(labels, sites, "label", "e").known().tolist() == [0, 1, 3]


def test_sites_alone_are_enough():
    bags, labels, groups = archive(sites=("lung", "skin"))
    encoder = AttentionMil(hidden=(8,), epochs=2, device="cpu")
    encoder.fit(bags, [""] * len(labels), groups)
    assert encoder.encode(bags[0]).rows.shape == (1, 8)


def test_saved_and_projected(tmp_path):
    bags, labels, groups = archive()
    encoder = FocalAttention(hidden=(8,), epochs=2, device="cpu")
    encoder.fit(bags, labels, groups)
    encoder.save(tmp_path)
    loaded = FocalAttention(hidden=(8,), epochs=2)
    loaded.load(tmp_path)
    assert loaded.encode(bags[1]).rows.tobytes() == encoder.encode(bags[1]).rows.tobytes()
    bits = Projected(of=FocalAttention(hidden=(8,), epochs=2, device="cpu"), bits=64)
    bits.fit(bags, labels, groups)
    assert bits.encode(bags[0]).rows.shape == (1, 8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": ()}, "hidden: one or more"),
        ({"dropout": 1.0}, "dropout: at least 0 and below 1"),
        ({"validation": 1.0}, "validation: at least 0 and below 1"),
        ({"learning_rate": 0.0}, "learning_rate: between 0 and 1"),
        ({"epochs": 0}, "epochs: at least 1"),
        ({"by": "patient"}, "by: one of label, site, both"),
        ({"device": "tpu"}, "device: one of auto"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        DeepSets(**options)
    for kind, own in ((AttentionMil, "attention"), (MemorySet, "units"), (FocalAttention, "attention")):
        with pytest.raises(ValueError, match=f"{own}: at least 1"):
            kind(**{own: 0})  # type: ignore[arg-type]
