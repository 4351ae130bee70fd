"""`joined`: parts with an equal say, attribution, files, bad input, and the kit over pairs of encoders."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from slideseek.errors import DamagedError, NotAttributableError, NotFittedError, SlideseekError
from slideseek.interfaces import Encoder
from slideseek.types import Bag
from slideseek_apps.testing import run_checks
from slideseek_apps.testing.toys import toy_bags
from slideseek_components.encoders.bovw import Bovw
from slideseek_components.encoders.deep_fv import DeepFisherVector
from slideseek_components.encoders.gmm_fv import GmmFisher
from slideseek_components.encoders.joined import Joined
from slideseek_components.encoders.max import Max
from slideseek_components.encoders.mean import Mean
from slideseek_components.encoders.vlad import Vlad
from slideseek_components.encoders.yottixel import Yottixel

SMALL: dict[str, Any] = {"hidden": (6,), "latent": 3, "epochs": 1, "device": "cpu"}
PARTS: dict[str, Callable[[], Any]] = {
    "mean": Mean,
    "max": Max,
    "bovw": lambda: Bovw(words=3),
    "vlad": lambda: Vlad(words=2),
    "gmm-fv": lambda: GmmFisher(components=2),
    "deep-fv": lambda: DeepFisherVector(preset="best", projection="none", **SMALL),
    "joined": lambda: Joined(of=(Mean(), Max())),
}
NESTED = {"options_are_fields"}
"""Checks that know no options which are components themselves."""


@pytest.mark.parametrize("names", [*itertools.combinations(PARTS, 2)], ids="+".join)
def test_the_kit_passes_for_any_two_encoders(names):
    failed = [
        result.message
        for result in run_checks("encoder", lambda: Joined(of=tuple(PARTS[name]() for name in names)))
        if not result.passed and result.name not in NESTED
    ]
    assert failed == []


def test_parts_are_centred_and_have_the_same_length():
    bags, labels, groups = toy_bags(count=20)
    joined = Joined(of=(Mean(), GmmFisher(components=2)))
    joined.fit(bags, labels, groups)
    codes = np.concatenate([joined.encode(bag).rows for bag in bags]).astype(np.float64)
    for part in (codes[:, :16], codes[:, 16:]):
        assert np.abs(part.mean(axis=0)).max() < 1e-6
        assert np.square(part).sum(axis=1).mean() == pytest.approx(0.5, rel=1e-5)


def test_weights_say_how_much_each_part_counts(tmp_path):
    bags, labels, groups = toy_bags(count=20)
    joined = Joined(of=(Mean(), GmmFisher(components=2)), weights=(1, 0.5))
    joined.fit(bags, labels, groups)
    codes = np.concatenate([joined.encode(bag).rows for bag in bags]).astype(np.float64)
    for part, share in ((codes[:, :16], 0.8), (codes[:, 16:], 0.2)):
        assert np.square(part).sum(axis=1).mean() == pytest.approx(share, rel=1e-5)
    a, b = codes[0], codes[1]
    parts = joined.contributions(bags[0], joined.encode(bags[1]))
    assert parts.sum() == pytest.approx(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)), abs=1e-9)
    joined.save(tmp_path)
    others: tuple[tuple[float, ...], ...] = ((), (1, 1))
    for weights in others:
        with pytest.raises(SlideseekError, match="fitted with"):
            Joined(of=(Mean(), GmmFisher(components=2)), weights=weights).load(tmp_path)
    again = Joined(of=(Mean(), GmmFisher(components=2)), weights=(1, 0.5))
    again.load(tmp_path)
    assert again.encode(bags[0]).rows.tobytes() == joined.encode(bags[0]).rows.tobytes()
    wrong: tuple[tuple[float, ...], ...] = ((1,), (1, 0), (1, float("nan")), (1, float("inf")))
    for weights in wrong:
        with pytest.raises(ValueError, match="weights"):
            Joined(of=(Mean(), Max()), weights=weights)


def test_parts_of_a_similarity_add_up_and_leave_only_the_centre_to_be_shared():
    bags, labels, groups = toy_bags(count=12)
    joined = Joined(of=(Mean(), PARTS["deep-fv"](), Vlad(words=2)))
    joined.fit(bags, labels, groups)
    first, second = (joined.encode(bag) for bag in bags[:2])
    a, b = (code.rows[0].astype(np.float64) for code in (first, second))
    cosine = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    parts = joined.contributions(bags[0], second)
    assert parts.sum() == pytest.approx(cosine, abs=1e-9)
    assert parts.std() > 0
    # A slide of one patch has one part, and a slide of that patch twice has two equal ones.
    one = Bag("one", bags[0].features[:1], bags[0].xy[:1], bags[0].site)
    twice = Bag("two", np.repeat(one.features, 2, axis=0), np.repeat(one.xy, 2, axis=0), one.site)
    assert joined.contributions(one, second) == pytest.approx(joined.contributions(twice, second).sum(), abs=1e-6)


class Whole(Encoder):
    """The mean, but it does not say what each patch contributes."""

    def spec(self, width):
        return Mean().spec(width)

    def encode(self, bag):
        return Mean().encode(bag)


def test_a_part_that_cannot_split_a_similarity_is_named():
    bags, labels, groups = toy_bags()
    joined = Joined(of=(Mean(), Whole()))
    joined.fit(bags, labels, groups)
    with pytest.raises(NotAttributableError, match="Whole cannot split"):
        joined.contributions(bags[0], joined.encode(bags[1]))


def test_an_encoder_given_to_two_is_fitted_separately():
    shared = GmmFisher(components=2)
    first, second = Joined(of=(shared, Mean())), Joined(of=(shared, Mean()))
    first.fit(*toy_bags())
    with pytest.raises(NotFittedError):
        second.encode(toy_bags().bags[0])
    with pytest.raises(NotFittedError):
        shared.encode(toy_bags().bags[0])


def test_bad_input_is_named_and_changes_nothing(tmp_path):
    bags, labels, groups = toy_bags()
    with pytest.raises(ValueError, match="one or more"):
        Joined(of=())
    with pytest.raises(SlideseekError, match="needs an encoder with one row of floats"):
        Joined(of=(Mean(), Yottixel())).spec(16)
    with pytest.raises(SlideseekError, match=r"part 2 of joined \(gmm-fv\) cannot be fitted: the training slides have"):
        Joined(of=(Mean(), GmmFisher(components=10_000))).fit(bags, labels, groups)
    joined = Joined(of=(Mean(), GmmFisher(components=2)))
    joined.fit(bags, labels, groups)
    before = joined.encode(bags[0]).rows.tobytes()
    spoilt = Bag("nan", np.full((3, 16), np.nan, dtype=np.float32), np.zeros((3, 2), np.int32))
    with pytest.raises(SlideseekError, match="NaN"):
        joined.fit([*bags, spoilt], [*labels, "a"], [*groups, "p"])
    with pytest.raises(SlideseekError, match="no training slide has patches"):
        joined.fit([], [], [])
    assert joined.encode(bags[0]).rows.tobytes() == before
    joined.save(tmp_path)
    with pytest.raises((SlideseekError, DamagedError)):
        Joined(of=(Mean(), GmmFisher(components=3))).load(tmp_path)


def test_one_training_slide_and_equal_codes_give_zeros():
    bags, labels, groups = toy_bags()
    joined = Joined(of=(Mean(), GmmFisher(components=1)))
    joined.fit(bags[:1], labels[:1], groups[:1])
    assert np.abs(joined.encode(bags[0]).rows).max() == 0
    assert np.isfinite(joined.encode(bags[1]).rows).all()
    assert joined.contributions(bags[0], joined.encode(bags[1])).tolist() == [0.0] * len(bags[0])


def test_empty_training_slides_are_left_out_and_checkpoints_have_folders(tmp_path):
    bags, labels, groups = toy_bags()
    empty = Bag("empty", np.zeros((0, 16), np.float32), np.zeros((0, 2), np.int32), "liver")
    joined = Joined(of=(Mean(), PARTS["deep-fv"]()))
    joined.fit_in(tmp_path, [*bags, empty], [*labels, ""], [*groups, "p"])
    assert (tmp_path / "part-1" / "training.csv").exists()
    alone = Joined(of=(Mean(), PARTS["deep-fv"]()))
    alone.fit([*bags, empty], [*labels, ""], [*groups, "p"])
    assert alone.encode(bags[0]).rows.tobytes() == joined.encode(bags[0]).rows.tobytes()
