"""Max pooling, visual words and VLAD against their definitions written out."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from slideseek.errors import EmptyBagError, NotFittedError, SlideseekError
from slideseek.interfaces import Attributable, Trainable, implements
from slideseek.types import Bag
from slideseek_components.encoders.bovw import Bovw
from slideseek_components.encoders.max import Max
from slideseek_components.encoders.mean import Mean
from slideseek_components.encoders.vlad import Vlad


def bag(features, slide_id="s"):
    features = np.asarray(features, dtype=np.float32)
    return Bag(slide_id, features, np.zeros((len(features), 2), dtype=np.int32))


def archive(width=5):
    rng = np.random.default_rng(0)
    return [bag(rng.normal(i % 3, 1, size=(30, width)), f"s{i}") for i in range(9)]


def fitted(encoder):
    bags = archive()
    encoder.fit(bags, [""] * 9, [""] * 9)
    return encoder, bags


def test_max_is_the_maximum_and_negative_zero_does_not_show():
    assert Max().encode(bag([[1, 5], [2, -3]])).rows.tolist() == [[2, 5]]
    assert np.linalg.norm(Max(l2=True).encode(bag([[3, 4]])).rows) == pytest.approx(1)
    rows = {Max().encode(bag(pair)).rows.tobytes() for pair in ([[0.0], [-0.0]], [[-0.0], [0.0]])}
    assert len(rows) == 1
    with pytest.raises(EmptyBagError):
        Max().encode(bag(np.zeros((0, 2))))


def nearest(encoder, features):
    y = (features - encoder.shift_) / encoder.scale_
    return y, np.array([((row - encoder.centres_) ** 2).sum(axis=1).argmin() for row in y])


def test_bovw_counts_the_nearest_words():
    encoder, bags = fitted(Bovw(4, power=False, l2=False))
    _, word = nearest(encoder, bags[0].features)
    np.testing.assert_allclose(encoder.encode(bags[0]).rows[0], np.bincount(word, minlength=4) / 30, rtol=1e-6)
    assert encoder.encode(bags[0]).mismatch(encoder.spec(5)) == ""


def test_vlad_adds_up_residuals():
    encoder, bags = fitted(Vlad(4, power=False, l2=False, intra=False))
    y, word = nearest(encoder, bags[0].features)
    wanted = np.stack([(y[word == k] - encoder.centres_[k]).sum(axis=0) for k in range(4)]) / 30
    np.testing.assert_allclose(encoder.encode(bags[0]).rows[0], wanted.ravel(), rtol=1e-5, atol=1e-7)
    assert encoder.encode(bags[0]).mismatch(encoder.spec(5)) == ""


def test_vlad_intra_gives_every_met_word_the_same_length():
    encoder, bags = fitted(Vlad(3, l2=False))
    lengths = np.linalg.norm(encoder.encode(bags[0]).rows.reshape(3, 5), axis=1)
    assert set(np.round(lengths, 5)) <= {0.0, 1.0}


@pytest.mark.parametrize("make", [Mean, lambda: Mean(l2=True), lambda: fitted(Bovw(4))[0], lambda: fitted(Vlad(4))[0]])
def test_contributions_add_up_and_follow_patch_order(make):
    encoder, bags = make(), archive()
    assert implements(encoder, Attributable)
    code = encoder.encode(bags[5])
    a, b = encoder.encode(bags[0]).rows[0].astype(np.float64), code.rows[0].astype(np.float64)
    parts = encoder.contributions(bags[0], code)
    assert parts.sum() == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), rel=1e-9)
    order = np.random.default_rng(1).permutation(30)
    np.testing.assert_allclose(encoder.contributions(bag(bags[0].features[order]), code), parts[order], rtol=1e-9)


@pytest.mark.parametrize("kind", [Bovw, Vlad])
def test_same_bits_whatever_order_and_threads(kind):
    encoder, _ = fitted(kind(4))
    with threadpool_limits(2):
        again, _ = fitted(kind(4))
    features = np.random.default_rng(2).normal(size=(600, 5)).astype(np.float32)
    order = np.random.default_rng(3).permutation(600)
    assert encoder.encode(bag(features)).rows.tobytes() == again.encode(bag(features[order])).rows.tobytes()


@pytest.mark.parametrize("kind", [Bovw, Vlad])
def test_save_load_and_errors(kind, tmp_path):
    encoder, bags = fitted(kind(4))
    assert implements(encoder, Trainable)
    encoder.save(tmp_path)
    again = kind(4)
    with pytest.raises(NotFittedError):
        again.encode(bags[0])
    again.load(tmp_path)
    assert again.encode(bags[0]).rows.tobytes() == encoder.encode(bags[0]).rows.tobytes()
    with pytest.raises(SlideseekError, match="words = 4"):
        kind(5).load(tmp_path)
    with pytest.raises(SlideseekError, match="width 3"):
        encoder.encode(bag(np.ones((2, 3))))
    with pytest.raises(SlideseekError, match="3 patches"):
        kind(4).fit([bag(np.ones((3, 2)))], [""], [""])
    with pytest.raises(SlideseekError, match="0 patches"):
        kind(4).fit([], [], [])
    with pytest.raises(ValueError, match="words"):
        kind(0)


def test_a_maximum_belongs_to_the_patches_that_have_it():
    one = bag([[4, 0, 1], [1, 2, 1]])
    other = Max().encode(bag([[1, 1, 1]]))
    parts = Max().contributions(one, other)
    scale = np.linalg.norm([4, 2, 1]) * np.sqrt(3)
    assert parts == pytest.approx(np.array([4.5, 2.5]) / scale, abs=1e-7)
