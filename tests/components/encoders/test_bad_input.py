"""Bad input, the same list for every encoder: an error that names the thing, and nothing written or half learnt."""

import functools
import io
import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from slideseek.errors import DamagedError, EmptyBagError, SlideseekError
from slideseek.interfaces import Checkpointed, Trainable, implements
from slideseek.types import Bag
from slideseek_components.encoders.attention_mil import AttentionMil
from slideseek_components.encoders.bovw import Bovw
from slideseek_components.encoders.c_gmm_fv import ConditionedGmmFisher
from slideseek_components.encoders.deep_bfv import DeepBinaryFisherVector
from slideseek_components.encoders.deep_fv import DeepFisherVector
from slideseek_components.encoders.deep_sbfv import DeepSparseBinaryFisherVector
from slideseek_components.encoders.deep_sets import DeepSets
from slideseek_components.encoders.deep_sfv import DeepSparseFisherVector
from slideseek_components.encoders.focal_attention import FocalAttention
from slideseek_components.encoders.gmm_fv import GmmFisher
from slideseek_components.encoders.max import Max
from slideseek_components.encoders.mean import Mean
from slideseek_components.encoders.memory_set import MemorySet
from slideseek_components.encoders.prototypes import Prototypes
from slideseek_components.encoders.vlad import Vlad
from slideseek_components.encoders.yottixel import Yottixel

WIDTH = 6
DEEP: dict[str, Any] = {"hidden": (8, 5), "latent": 3, "sites": 2, "labels": 2, "epochs": 1, "device": "cpu"}
SETS: dict[str, Any] = {"hidden": (8, 5), "epochs": 2, "device": "cpu"}
MAKERS: dict[str, Callable[[], Any]] = {
    "yottixel": Yottixel,
    "mean": Mean,
    "max": Max,
    "bovw": lambda: Bovw(3),
    "vlad": lambda: Vlad(3),
    "gmm-fv": lambda: GmmFisher(3),
    "c-gmm-fv": lambda: ConditionedGmmFisher(3),
    "deep-fv": lambda: DeepFisherVector(**DEEP),
    "deep-sfv": lambda: DeepSparseFisherVector(**DEEP),
    "deep-bfv": lambda: DeepBinaryFisherVector(**DEEP),
    "deep-sbfv": lambda: DeepSparseBinaryFisherVector(bits=20, **DEEP),
    "prototypes": lambda: Prototypes(3),
    "deep-sets": lambda: DeepSets(**SETS),
    "attention-mil": lambda: AttentionMil(**SETS),
    "memory-set": lambda: MemorySet(**SETS),
    "focal-attention": lambda: FocalAttention(**SETS),
}
SET_NETWORKS = ["deep-sets", "attention-mil", "memory-set", "focal-attention"]
LEARNING = [name for name, make in MAKERS.items() if implements(make(), Trainable)]
DEEP_ONES = ["deep-fv", "deep-sfv", "deep-bfv", "deep-sbfv"]
CONDITIONED = ["c-gmm-fv", *DEEP_ONES]


def bag(features, slide_id="s", site="lung"):
    features = np.asarray(features, dtype=np.float32)
    return Bag(slide_id, features, np.zeros((len(features), 2), dtype=np.int32), site)


def archive():
    rng = np.random.default_rng(0)
    bags = [bag(rng.normal(i % 2, 1, (9, WIDTH)), f"s{i}", ("brain", "lung")[i // 2 % 2]) for i in range(8)]
    return bags, ["xy"[i % 2] for i in range(8)], [f"p{i}" for i in range(8)]


@functools.cache
def fitted(name):
    encoder = MAKERS[name]()
    if implements(encoder, Trainable):
        encoder.fit(*archive())
    return encoder


def refuses_to_learn(name, folder, bags, labels, groups, message):
    """Fitting raises an error that matches, leaves the encoder unfitted and writes nothing."""
    encoder = MAKERS[name]()
    with pytest.raises(SlideseekError, match=message) as caught:
        if implements(encoder, Checkpointed):
            encoder.fit_in(folder, bags, labels, groups)
        else:
            encoder.fit(bags, labels, groups)
    assert caught.value.fix
    with pytest.raises(SlideseekError, match="not fitted"):
        encoder.save(folder)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_features_that_are_no_numbers(name, value, tmp_path):
    bad = np.ones((4, WIDTH), dtype=np.float32)
    bad[2, 3] = value
    encoder = fitted(name)
    with pytest.raises(SlideseekError, match="'bad' has NaN or infinite features, first in patch 2") as caught:
        encoder.encode(bag(bad, "bad"))
    assert caught.value.fix
    if name in LEARNING:
        bags, labels, groups = archive()
        refuses_to_learn(name, tmp_path, [*bags, bag(bad, "bad")], [*labels, "x"], [*groups, "p"], "'bad' has NaN")


@pytest.mark.parametrize("name", MAKERS)
def test_constant_bags_and_single_patches_have_finite_codes(name):
    encoder = fitted(name)
    for features in (np.zeros((5, WIDTH)), np.full((300, WIDTH), 2.5), np.ones((1, WIDTH))):
        code = encoder.encode(bag(features))
        assert np.isfinite(code.rows).all()
        assert len(code) == (len(features) if name == "yottixel" else 1)


@pytest.mark.parametrize("name", LEARNING)
def test_learning_from_constant_bags(name):
    bags = [bag(np.full((4, WIDTH), 2.0), f"s{i}", ("brain", "lung")[i % 2]) for i in range(4)]
    encoder = MAKERS[name]()
    encoder.fit(bags, list("xyxy"), list("abcd"))
    assert np.isfinite(encoder.encode(bags[0]).rows).all()
    assert np.isfinite(encoder.encode(archive()[0][0]).rows).all()


@pytest.mark.parametrize("name", LEARNING)
def test_learning_from_a_single_patch(name, tmp_path):
    one = [bag(np.ones((1, WIDTH)))], ["x"], ["p"]
    if name in DEEP_ONES:
        encoder = MAKERS[name]()
        encoder.fit(*one)
        assert np.isfinite(encoder.encode(one[0][0]).rows).all()
    else:
        message = "fewer than two" if name in SET_NETWORKS else "1 patch.*at least 3"
        refuses_to_learn(name, tmp_path, *one, message)


@pytest.mark.parametrize("name", LEARNING)
def test_learning_from_nothing(name, tmp_path):
    refuses_to_learn(name, tmp_path, [], [], [], "training slide")
    refuses_to_learn(name, tmp_path, [bag(np.zeros((0, WIDTH)))], ["x"], ["p"], "training slide")


@pytest.mark.parametrize("name", MAKERS)
def test_a_site_unseen_in_training(name):
    encoder, liver = fitted(name), bag(np.ones((3, WIDTH)), "new", "liver")
    if name in CONDITIONED:
        with pytest.raises(SlideseekError, match=r"'new' is of site 'liver', .* fitted on brain, lung") as caught:
            encoder.encode(liver)
        assert caught.value.fix
    else:
        assert np.isfinite(encoder.encode(liver).rows).all()


@pytest.mark.parametrize("name", CONDITIONED)
def test_a_training_slide_without_a_site(name, tmp_path):
    bags, labels, groups = archive()
    refuses_to_learn(
        name,
        tmp_path,
        [*bags, bag(np.ones((3, WIDTH)), "bare", "")],
        [*labels, "x"],
        [*groups, "p"],
        "'bare' has no site",
    )


@pytest.mark.parametrize("name", LEARNING)
def test_a_label_missing(name, tmp_path):
    bags, labels, groups = archive()
    labels[3] = ""
    if name in DEEP_ONES:
        refuses_to_learn(name, tmp_path, bags, labels, groups, "'s3' has no label")
    else:
        MAKERS[name]().fit(bags, labels, groups)


@pytest.mark.parametrize("name", SET_NETWORKS)
@pytest.mark.parametrize("label", ["", "x"])
def test_nothing_to_tell_apart(name, label, tmp_path):
    bags, _, groups = archive()
    bags = [bag(one.features, one.slide_id, "lung") for one in bags]
    message = f"{name} learns to tell slides apart by their labels or sites, .* fewer than two"
    refuses_to_learn(name, tmp_path, bags, [label] * len(bags), groups, message)


@pytest.mark.parametrize("name", SET_NETWORKS)
def test_a_part_held_out_needs_two_patients(name):
    bags, labels, _ = archive()
    encoder = type(MAKERS[name]())(validation=0.2, **SETS)
    with pytest.raises(SlideseekError, match="at least two patients") as caught:
        encoder.fit(bags, labels, ["p"] * len(bags))
    assert caught.value.fix


@pytest.mark.parametrize("name", LEARNING)
def test_features_of_another_width(name, tmp_path):
    narrow, (bags, labels, groups) = bag(np.ones((3, WIDTH - 2)), "narrow"), archive()
    refuses_to_learn(name, tmp_path, [*bags, narrow], [*labels, "x"], [*groups, "p"], f"'narrow'.*width {WIDTH - 2}")
    with pytest.raises(SlideseekError, match=rf"'narrow' .* width {WIDTH - 2}, .* width {WIDTH}"):
        fitted(name).encode(narrow)


@pytest.mark.parametrize("name", MAKERS)
def test_no_patches(name):
    with pytest.raises(EmptyBagError, match="'none'"):
        fitted(name).encode(bag(np.zeros((0, WIDTH)), "none"))


def another_version(head):
    head["format"] = 99


def another_encoder(head):
    head["encoder"] = "other"


def another_width(head):
    head["facts"]["width"] = WIDTH + 1


def absurd_width(head):
    head["facts"]["width"] = -1


@pytest.mark.parametrize("name", LEARNING)
@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (another_version, SlideseekError, "format version 99, this slideseek reads 1"),
        (another_encoder, SlideseekError, "written by encoder 'other'"),
        (another_width, DamagedError, "its model.json implies"),
        (absurd_width, DamagedError, "are invalid"),
    ],
)
def test_a_model_file_that_does_not_fit(name, change, kind, message, tmp_path):
    encoder = fitted(name)
    encoder.save(tmp_path)
    head = json.loads((tmp_path / "model.json").read_text())
    change(head)
    (tmp_path / "model.json").write_text(json.dumps(head))
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    before = encoder.encode(archive()[0][0]).rows.tobytes()
    for one in (MAKERS[name](), encoder):
        with pytest.raises(kind, match=message) as caught:
            one.load(tmp_path)
        assert caught.value.fix
    assert encoder.encode(archive()[0][0]).rows.tobytes() == before, "a failed load must leave the encoder as it was"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files


class Alarm:
    """Raise the alarm when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("a model file was unpickled",)


def pickled(data):
    file = io.BytesIO()
    torch.save({"weights": Alarm()}, file)
    return file.getvalue()


def huge_header(data):
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    first = next(key for key in header if key != "__metadata__")
    header[first] |= {"shape": [2**40, 2**20], "data_offsets": [0, 2**62]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def huge_length(data):
    return struct.pack("<Q", 2**63) + data[8:]


@pytest.mark.parametrize("name", LEARNING)
@pytest.mark.parametrize("change", [pickled, huge_header, huge_length, lambda data: data[:-1], lambda data: b""])
def test_a_model_file_of_something_else(name, change, tmp_path):
    encoder = fitted(name)
    encoder.save(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(change(path.read_bytes()))
    before = encoder.encode(archive()[0][0]).rows.tobytes()
    with pytest.raises(DamagedError, match=r"model.safetensors cannot be read"):
        encoder.load(tmp_path)
    assert encoder.encode(archive()[0][0]).rows.tobytes() == before


@pytest.mark.parametrize("name", LEARNING)
def test_a_model_fitted_on_another_width_is_no_surprise(name, tmp_path):
    fitted(name).save(tmp_path)
    encoder = MAKERS[name]()
    encoder.load(tmp_path)
    with pytest.raises(SlideseekError, match=rf"width {WIDTH + 3}, the encoder was fitted on width {WIDTH}"):
        encoder.encode(bag(np.ones((2, WIDTH + 3))))


@pytest.mark.parametrize("name", DEEP_ONES)
def test_features_too_large_to_square(name):
    with pytest.raises(SlideseekError, match=r"'huge' .* too large") as caught:
        fitted(name).encode(bag(np.full((3, WIDTH), 3e38), "huge"))
    assert caught.value.fix
