"""`projected`: no leak, chance for shuffled labels, same bits whatever the order, attribution, bits, bad input."""

from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from slideseek.errors import NotFittedError, SlideseekError
from slideseek.types import Bag
from slideseek_apps.testing import run_checks
from slideseek_apps.testing.toys import toy_bags
from slideseek_components.encoders.deep_fv import DeepFisherVector
from slideseek_components.encoders.deep_sbfv import DeepSparseBinaryFisherVector
from slideseek_components.encoders.gmm_fv import GmmFisher
from slideseek_components.encoders.joined import Joined
from slideseek_components.encoders.mean import Mean
from slideseek_components.encoders.projected import Projected
from slideseek_components.encoders.projection import projector, sketch, span
from slideseek_components.encoders.projection.binariser import Binariser
from slideseek_components.encoders.projection.discriminant import beside, class_numbers, discriminant
from slideseek_components.encoders.projection.validation import (
    ALONE,
    DEFAULT,
    GRID,
    choose_unprojected,
    searches_of,
)
from slideseek_components.encoders.yottixel import Yottixel

SMALL: dict[str, Any] = {"hidden": (6,), "latent": 3, "epochs": 1, "device": "cpu"}
WIDTH = 16


def deep(**options):
    return DeepFisherVector(preset="best", **(SMALL | options))


MAKERS = {
    "mean": lambda: Projected(bits=100),
    "floats": lambda: Projected(of=GmmFisher(components=2), bits=0),
    "joined": lambda: Projected(of=Joined(of=(Mean(), deep(projection="none"))), bits=300),
    "sign": lambda: Projected(binarise="sign", bits=9, projection="whitening"),
    "itq": lambda: Projected(of=GmmFisher(components=2), binarise="itq", bits=70, by="site"),
    "none": lambda: Projected(projection="none", bits=64),
    "outside": lambda: Projected(of=GmmFisher(components=2), bits=64, outside=0.5),
    "deep-fv": lambda: deep(dimensions=7),
    "deep-sbfv": lambda: DeepSparseBinaryFisherVector(preset="best", bits=200, **SMALL),
}


def bags_of(count, rng, shift=0.0, classes=2, patches=6, start=0):
    """Return bags whose class moves their mean by `shift` along one direction, with labels and patients."""
    labels = [str(i % classes) for i in range(count)]
    towards = np.random.default_rng(5).normal(size=(classes, WIDTH))
    bags = [
        Bag(
            f"s{start + i}",
            (rng.normal(size=(patches, WIDTH)) + shift * towards[int(label)]).astype(np.float32),
            np.zeros((patches, 2), np.int32),
        )
        for i, label in enumerate(labels)
    ]
    return bags, labels, [f"p{start + i}" for i in range(count)]


def precision(encoder, bags, labels, queries, answers):
    """Return the mean average precision of `queries` among `bags`."""
    known = np.stack([np.unpackbits(encoder.encode(bag).rows[0]).astype(int) for bag in bags])
    found = []
    for bag, label in zip(queries, answers):
        own = np.unpackbits(encoder.encode(bag).rows[0]).astype(int)
        order = np.argsort((known != own).sum(axis=1), kind="stable")
        match = np.array([labels[i] == label for i in order])
        found.append(np.mean(np.arange(1, match.sum() + 1) / (np.flatnonzero(match) + 1)))
    return float(np.mean(found))


@pytest.mark.parametrize("name", MAKERS)
def test_the_kit_passes(name):
    results = run_checks("encoder", MAKERS[name])
    nested = {"options_are_fields"}  # the check knows no options which are components themselves
    assert [r.message for r in results if not r.passed and r.name not in nested] == []


def test_slides_that_were_not_fitted_on_change_nothing():
    rng = np.random.default_rng(0)
    bags, labels, groups = bags_of(30, rng, 0.5)
    probe, *_ = bags_of(3, rng, 0.5, start=90)
    encoder = Projected(of=GmmFisher(components=2), bits=500)
    encoder.fit(bags, labels, groups)
    before = [encoder.encode(bag).rows.tobytes() for bag in probe]
    # Encode other slides in between, and fit again beside slides that are not in the training set.
    for bag in bags_of(5, rng, 9.0, start=60)[0]:
        encoder.encode(bag)
    assert [encoder.encode(bag).rows.tobytes() for bag in probe] == before
    again = Projected(of=GmmFisher(components=2), bits=500)
    again.fit(list(bags), list(labels), list(groups))
    assert [again.encode(bag).rows.tobytes() for bag in probe] == before
    # Labels of the training slides do matter.
    again.fit(bags, [*labels[15:], *["2"] * 15], groups)
    assert [again.encode(bag).rows.tobytes() for bag in probe] != before


def test_labels_help_on_slides_never_seen_and_shuffled_ones_fall_to_chance():
    rng = np.random.default_rng(1)
    bags, labels, groups = bags_of(60, rng, 0.35)
    queries, answers, _ = bags_of(60, rng, 0.35, start=100)
    other, other_labels, _ = bags_of(60, rng, 0.35, start=200)
    fitted = Projected(bits=1000)
    fitted.fit(bags, labels, groups)
    plain = Projected(bits=1000, projection="none")
    plain.fit(bags, labels, groups)
    learnt = precision(fitted, other, other_labels, queries, answers)
    assert learnt > precision(plain, other, other_labels, queries, answers) + 0.05
    # Features without any class: whatever the labels, the slides of the test set cannot be found.
    rng = np.random.default_rng(2)
    noise, names, patients = bags_of(60, rng)
    strangers, answers, _ = bags_of(60, rng, start=100)
    shuffled = Projected(bits=1000)
    shuffled.fit(noise, list(np.random.default_rng(3).permutation(names)), patients)
    assert precision(shuffled, noise, names, strangers, answers) == pytest.approx(0.53, abs=0.06)


@pytest.mark.parametrize("name", MAKERS)
def test_same_bits_whatever_the_order_the_batch_and_the_threads(name):
    bags, labels, groups = toy_bags(count=16)
    encoder = MAKERS[name]()
    encoder.fit(bags, labels, groups)
    wanted = [encoder.encode(bag).rows.tobytes() for bag in bags]
    rng = np.random.default_rng(0)
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            mixed = [
                Bag(bag.slide_id, bag.features[order], bag.xy[order], bag.site)
                for bag, order in ((bag, rng.permutation(len(bag))) for bag in bags)
            ]
            assert [code.rows.tobytes() for code in encoder.encode_many(mixed)] == wanted
            assert [code.rows.tobytes() for code in encoder.encode_many(bags[3:5])] == wanted[3:5]
            again = MAKERS[name]()
            again.fit(bags, labels, groups)
            assert [code.rows.tobytes() for code in again.encode_many(bags)] == wanted


@pytest.mark.parametrize("name", MAKERS)
def test_parts_add_up_to_the_similarity(name):
    bags, labels, groups = toy_bags(count=16)
    encoder = MAKERS[name]()
    encoder.fit(bags, labels, groups)
    for bag, other in ((bags[0], bags[1]), (bags[2], bags[2]), (bags[3], bags[0])):
        mine, code = encoder.encode(bag), encoder.encode(other)
        if mine.rows.dtype == np.uint8:
            width = encoder.spec(WIDTH).width
            wanted = np.mean(np.unpackbits(mine.rows[0], count=width) == np.unpackbits(code.rows[0], count=width))
        else:
            a, b = mine.rows[0].astype(np.float64), code.rows[0].astype(np.float64)
            wanted = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        parts = encoder.contributions(bag, code)
        assert parts.shape == (len(bag),) and parts.std() > 0
        assert parts.sum() == pytest.approx(wanted, abs=1e-9)


def test_only_what_belongs_to_no_patch_is_shared():
    """Before anything is shared, the parts add up to the linear product, which the centre alone separates."""
    bags, labels, groups = toy_bags(count=16)
    encoder = Projected(bits=0)
    encoder.fit(bags, labels, groups)
    own = encoder.projector_
    code = encoder.encode(bags[1])
    values = bags[0].features.astype(np.float64).mean(axis=0)
    assert own is not None
    y = own.project(values.astype(np.float32).astype(np.float64))
    towards = own.directions @ code.rows[0][: len(y)].astype(np.float64) / np.linalg.norm(y)
    each = (bags[0].features.astype(np.float64) - own.centre) @ towards / len(bags[0])
    assert encoder.contributions(bags[0], code) == pytest.approx(each, abs=1e-6)


def test_preset_best_is_the_projection_of_its_float_code():
    bags, labels, groups = toy_bags(count=16)
    whole = DeepSparseBinaryFisherVector(preset="best", bits=2000, **SMALL)
    split = Projected(of=deep(projection="none"), bits=2000)
    for encoder in (whole, split):
        encoder.fit(bags, labels, groups)
    for bag in bags:
        a, b = (np.unpackbits(encoder.encode(bag).rows[0]) for encoder in (whole, split))
        assert np.mean(a == b) > 0.999  # the float code between the two is rounded to float32


def test_hyperplanes_keep_angles_and_are_not_stored(tmp_path):
    bags, labels, groups = toy_bags(count=30)
    floats, bits = Projected(bits=0), Projected(bits=20_000)
    for encoder in (floats, bits):
        encoder.fit(bags, labels, groups)
    a, b = (floats.encode(bag).rows[0].astype(np.float64) for bag in bags[:2])
    differ = np.mean(np.unpackbits(bits.encode(bags[0]).rows[0]) != np.unpackbits(bits.encode(bags[1]).rows[0]))
    assert differ == pytest.approx(np.arccos(a @ b) / np.pi, abs=0.02)
    bits.save(tmp_path)
    assert sum(file.stat().st_size for file in tmp_path.rglob("*")) < 20_000
    # A shorter code is the start of a longer one.
    shorter = Binariser("hyperplanes", 100, 7, 3)
    y = np.random.default_rng(0).normal(size=7)
    assert shorter.values(y).tolist() == Binariser("hyperplanes", 1000, 7, 3).values(y)[:100].tolist()
    # The planes of a block are at right angles, and a product of values is one of coordinates.
    block = Binariser("hyperplanes", 256, 256, 3)
    planes = np.stack([block.values(axis) for axis in np.eye(256)], axis=1)
    assert np.abs(planes @ planes.T - np.eye(256)).max() < 1e-12
    weights = np.random.default_rng(1).normal(size=1000)
    long = Binariser("hyperplanes", 1000, 7, 3)
    assert long.pull_back(weights) @ y == pytest.approx(weights @ long.values(y), rel=1e-12)


def test_itq_rotates_towards_the_corners():
    values = np.random.default_rng(3).normal(size=(200, 6)) * [5, 4, 3, 2, 1, 0.5]
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    made = Binariser("itq", 12, 6, 0)
    made.learn(values)
    first = made.rotation[:6]
    assert np.abs(first @ first.T - np.eye(6)).max() < 1e-10

    def loss(v):
        return ((v - np.sign(v) / np.sqrt(6)) ** 2).sum()

    assert loss(values @ first.T) < loss(values)
    assert not np.allclose(first, made.rotation[6:])


@pytest.mark.parametrize(
    "labels",
    [[""] * 12, ["a"] * 12, [str(i) for i in range(12)]],
    ids=["no label", "one class", "one slide per class"],
)
def test_without_classes_to_learn_from_nothing_is_projected(labels):
    bags, _, groups = toy_bags()
    bags = tuple(Bag(bag.slide_id, bag.features, bag.xy) for bag in bags)
    discriminant, none = Projected(bits=300), Projected(bits=300, projection="none")
    for encoder in (discriminant, none):
        encoder.fit(bags, labels, groups)
    assert discriminant.projector_ and discriminant.projector_.unprojected == ALONE
    assert all(discriminant.encode(b).rows.tobytes() == none.encode(b).rows.tobytes() for b in bags)


def test_classes_of_one_slide_and_unlabelled_slides_are_taken_along():
    bags, labels, groups = toy_bags(count=20)
    some = ["", *labels[1:-1], "rare"]
    encoder = Projected(bits=300)
    encoder.fit(bags, some, groups)
    assert encoder.projector_ and encoder.projector_.unprojected in (*GRID, ALONE)
    assert len({encoder.encode(bag).rows.tobytes() for bag in bags}) == 20


def test_bad_input_is_named_and_changes_nothing(tmp_path):
    bags, labels, groups = toy_bags()
    encoder = Projected(bits=50)
    with pytest.raises(NotFittedError):
        encoder.encode(bags[0])
    encoder.fit(bags, labels, groups)
    before = encoder.encode(bags[0]).rows.tobytes()
    with pytest.raises(SlideseekError, match="1 training slides do not have two different codes"):
        encoder.fit(bags[:1], labels[:1], groups[:1])
    with pytest.raises(SlideseekError, match="12 training slides do not have two different codes"):
        encoder.fit([bags[0]] * 12, labels, groups)
    with pytest.raises(SlideseekError, match="no training slide has patches"):
        encoder.fit([], [], [])
    spoilt = Bag("nan", np.full((3, 16), np.nan, dtype=np.float32), np.zeros((3, 2), np.int32))
    with pytest.raises(SlideseekError, match="NaN"):
        encoder.fit([*bags, spoilt], [*labels, "a"], [*groups, "p"])
    assert encoder.encode(bags[0]).rows.tobytes() == before
    with pytest.raises(SlideseekError, match="needs an encoder with one row of floats"):
        Projected(of=Yottixel()).spec(16)
    encoder.save(tmp_path)
    with pytest.raises(SlideseekError, match="was fitted with bits = 50"):
        Projected(bits=51).load(tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"projection": "lda"},
        {"by": "patient"},
        {"shrinkage": 1.5},
        {"dimensions": 0},
        {"bits": -1},
        {"binarise": "sign"},
        {"binarise": "pq"},
        {"outside": -1.0},
    ],
    ids=str,
)
def test_options_out_of_range_are_named(options):
    with pytest.raises(ValueError, match=r"bits|projection|by|shrinkage|dimensions|binarise|outside"):
        Projected(**options)


def test_wide_codes_are_folded_and_many_slides_need_no_large_matrix(monkeypatch):
    bags, labels, groups = toy_bags(count=60)
    whole = Projected(of=GmmFisher(components=8), bits=4000)
    whole.fit(bags, labels, groups)
    for module in (sketch, projector):
        monkeypatch.setattr(module, "WIDEST", 100)
    monkeypatch.setattr(projector, "_SAMPLE", 40)
    monkeypatch.setattr(span, "_EXACT", 20)
    folded = Projected(of=GmmFisher(components=8), bits=4000, dimensions=30)
    folded.fit(bags, labels, groups)
    assert folded.projector_ and folded.projector_.axes.shape == (100, 30)
    for bag in bags[:4]:
        a, b = folded.encode(bag), folded.encode(bags[5])
        wanted = np.mean(np.unpackbits(a.rows[0]) == np.unpackbits(b.rows[0]))
        assert folded.contributions(bag, b).sum() == pytest.approx(wanted, abs=1e-9)


def test_a_random_basis_finds_the_main_directions():
    rng = np.random.default_rng(0)
    codes = (rng.normal(size=(300, 5)) @ rng.normal(size=(5, 80)) + 0.01 * rng.normal(size=(300, 80))).astype("f4")
    exact, variance = span._exact(codes, 5)
    found, other = span._refined(codes, 5, seed=1)
    assert other == pytest.approx(variance, rel=1e-4)
    assert np.linalg.svd(exact.T @ found)[1] == pytest.approx(np.ones(5), abs=1e-4)


def test_the_code_as_it_was_stands_beside_the_projected_one():
    """Inner products are those of both, each scaled to the same mean squared length, in no more coordinates."""
    rng = np.random.default_rng(4)
    rows, numbers = rng.normal(size=(40, 6)) * [3, 2, 1, 1, 1, 0.5], np.arange(40) % 4
    turn = discriminant(rows, [numbers], 0.1)
    moved, scale = rows @ turn, lambda x: np.square(x).sum() / len(x)
    wanted = moved @ moved.T / scale(moved) + 0.5**2 * rows @ rows.T / scale(rows)
    found = rows @ beside(rows, turn, 0.5)
    assert found.shape == rows.shape
    assert np.abs(found @ found.T - wanted).max() < 1e-10


def test_slides_outside_of_the_training_span_still_differ():
    """Four training slides span three directions; the others keep their angles in the random ones."""
    rng = np.random.default_rng(6)
    fitted, others = rng.normal(size=(4, 600)), rng.normal(size=(3, 600))
    bags = [Bag(f"s{i}", row[None].astype(np.float32), np.zeros((1, 2), np.int32)) for i, row in enumerate(fitted)]
    encoder = Projected(projection="none", bits=0)
    encoder.fit(bags, [""] * 4, list("abcd"))
    centred = others - fitted.mean(axis=0)
    wanted = centred @ centred.T
    wanted /= np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
    strangers = [Bag("o", row[None].astype(np.float32), np.zeros((1, 2), np.int32)) for row in others]
    codes = np.stack([code.rows[0] for code in encoder.encode_many(strangers)])
    assert np.abs(codes @ codes.T - wanted).max() < 0.15
    assert encoder.projector_ is not None
    inside = encoder.projector_.axes.shape[1]
    assert inside == 3 and np.linalg.norm(codes[:, inside:], axis=1).min() > 0.9
    bits = Projected(projection="none", bits=8000)
    bits.fit(bags, [""] * 4, list("abcd"))
    signs = np.stack([np.unpackbits(code.rows[0]) * 2.0 - 1 for code in bits.encode_many(strangers)])
    angles = np.arccos(np.clip(wanted, -1, 1))
    assert np.abs(signs @ signs.T / 8000 - (1 - 2 * angles / np.pi)).max() < 0.04
    within = Projected(projection="none", bits=0, outside=0.0)
    within.fit(bags, [""] * 4, list("abcd"))
    assert not any(code.rows[0, inside:].any() for code in within.encode_many(strangers))


def test_the_weight_is_chosen_by_what_helps_patients_left_out():
    rng = np.random.default_rng(7)
    labels = np.array([str(i % 2) for i in range(80)])
    groups = [f"p{i}" for i in range(80)]
    numbers = class_numbers(labels.tolist())
    searches = searches_of(numbers, None)
    # The class is in one quiet coordinate of thirty: only a projection finds it.
    rows = rng.normal(size=(80, 30)) * 3
    rows[:, 0] = rng.normal(size=80) * 0.1 + np.where(numbers, 0.5, -0.5)
    assert choose_unprojected(rows, [numbers], searches, groups, 0.1, 0) == 0.0
    # Fewer than six patients say nothing.
    assert choose_unprojected(rows, [numbers], searches, ["p", "q"] * 40, 0.1, 0) == DEFAULT
    # Nothing separates the classes: no weight is ahead, or the code as it was is.
    noise = rng.normal(size=(80, 30))
    assert choose_unprojected(noise, [numbers], searches, groups, 0.1, 0) >= DEFAULT


def test_searches_are_for_the_site_and_for_the_label_within_it():
    sites, labels = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    assert [(s.classes.tolist(), s.within.tolist()) for s in searches_of(labels, sites)] == [
        ([0, 0, 1, 1], [0, 0, 0, 0]),
        ([0, 1, 0, 1], [0, 0, 1, 1]),
    ]
    assert [s.within.tolist() for s in searches_of(labels, None)] == [[0, 0, 0, 0]]
    assert searches_of(None, np.array([0, 0, 0, 0])) == []
