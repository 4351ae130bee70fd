"""The mixture's Fisher vector against scikit-image, and everything a trained encoder promises."""

import json

import numpy as np
import pytest
from skimage.feature import fisher_vector
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from slideseek.errors import DamagedError, EmptyBagError, NotFittedError, SlideseekError
from slideseek.interfaces import Attributable, Trainable, implements
from slideseek.types import Bag
from slideseek_components.encoders.c_gmm_fv import ConditionedGmmFisher
from slideseek_components.encoders.gmm_fv import Block, GmmFisher


def bag(features, slide_id="s", site=""):
    features = np.asarray(features, dtype=np.float32)
    return Bag(slide_id, features, np.zeros((len(features), 2), dtype=np.int32), site)


def archive(seed=0, count=12, width=6, sites=("",)):
    rng = np.random.default_rng(seed)
    return [
        bag(rng.normal(i % 3, 1 + i % 2, size=(20 + i, width)), f"s{i}", sites[i % len(sites)]) for i in range(count)
    ]


def fitted(encoder, bags):
    encoder.fit(bags, [""] * len(bags), [""] * len(bags))
    return encoder


def sklearn_mixture(mixture):
    model = GaussianMixture(len(mixture.weights), covariance_type="diag")
    model.weights_, model.means_, model.covariances_ = mixture.weights, mixture.means, mixture.variances
    model.precisions_cholesky_ = 1 / np.sqrt(mixture.variances)
    return model


@pytest.mark.parametrize("pca", [0, 3])
@pytest.mark.parametrize("improved", [True, False])
def test_equals_scikit_image_up_to_the_sign_of_the_variance_block(pca, improved):
    bags = archive()
    encoder = GmmFisher(4, pca=pca, blocks=("weights", "means", "variances"), power=improved, l2=improved)
    fitted(encoder, bags)
    mixture = encoder.mixtures_[""]
    points = mixture.project(bags[0].features)
    theirs = fisher_vector(points, sklearn_mixture(mixture), improved=improved)
    theirs[4 + 4 * points.shape[1] :] *= -1
    np.testing.assert_allclose(encoder.vector(bags[0]), theirs, atol=1e-10, rtol=0)


def test_the_mixture_is_scikit_learns():
    bags = archive()
    encoder = fitted(GmmFisher(3, standardise=False, seed=5), bags)
    patches = np.concatenate([b.features for b in bags]).astype(np.float64)
    ours = sklearn_mixture(encoder.mixtures_[""]).score(patches)
    theirs = max(
        GaussianMixture(3, covariance_type="diag", random_state=seed).fit(patches).score(patches) for seed in range(3)
    )
    assert ours == pytest.approx(theirs, abs=0.05)


def test_blocks_and_spec():
    bags = archive()
    cases: list[tuple[tuple[Block, ...], int]] = [(("weights",), 4), (("means",), 24), (("weights", "variances"), 28)]
    for blocks, width in cases:
        encoder = fitted(GmmFisher(4, blocks=blocks), bags)
        assert encoder.spec(6).width == width
        assert encoder.encode(bags[0]).mismatch(encoder.spec(6)) == ""
    assert GmmFisher(4, pca=2).spec(6).width == 16
    with pytest.raises(SlideseekError, match="pca = 7"):
        GmmFisher(pca=7).spec(6)


def test_code_is_the_same_bits_whatever_patch_order_and_threads():
    rng = np.random.default_rng(3)
    encoder = fitted(GmmFisher(4), archive(width=32))
    features = rng.normal(size=(700, 32)).astype(np.float32)
    wanted = encoder.encode(bag(features)).rows.tobytes()
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            assert encoder.encode(bag(features[rng.permutation(700)])).rows.tobytes() == wanted


def test_fit_depends_on_the_seed_and_not_on_threads_or_stored_patch_order():
    bags = archive(width=16)
    shuffled = [bag(np.flip(b.features, axis=0), b.slide_id) for b in bags]
    first = fitted(GmmFisher(4, patches=60), bags)
    with threadpool_limits(2):
        again = fitted(GmmFisher(4, patches=60), shuffled)
    other = fitted(GmmFisher(4, patches=60, seed=1), bags)
    rows = [e.encode(bags[0]).rows.tobytes() for e in (first, again, other)]
    assert rows[0] == rows[1] != rows[2]


def test_power_and_l2():
    bags = archive()
    plain = fitted(GmmFisher(4, power=False, l2=False), bags).vector(bags[1])
    rooted = np.sign(plain) * np.sqrt(np.abs(plain))
    np.testing.assert_allclose(fitted(GmmFisher(4), bags).vector(bags[1]), rooted / np.linalg.norm(rooted), rtol=1e-12)


def test_conditioned_has_one_mixture_a_site_and_a_space_a_site():
    bags = archive(sites=("brain", "lung"))
    encoder = fitted(ConditionedGmmFisher(3), bags)
    alone = fitted(GmmFisher(3), [b for b in bags if b.site == "lung"])
    assert encoder.encode(bags[0]).space == "brain"
    assert set(encoder.mixtures_) == {"brain", "lung"}
    assert encoder.mixtures_["lung"].means.shape == alone.mixtures_[""].means.shape
    with pytest.raises(SlideseekError, match=r"site 'liver'.*brain, lung"):
        encoder.encode(bag(bags[0].features, site="liver"))
    with pytest.raises(SlideseekError, match="has no site"):
        encoder.encode(bag(bags[0].features))


@pytest.mark.parametrize("options", [{}, {"blocks": ("weights", "means")}, {"power": False}, {"l2": False}, {"pca": 3}])
def test_contributions_add_up_to_the_cosine_of_the_stored_codes(options):
    bags = archive()
    encoder = fitted(GmmFisher(4, **options), bags)
    a, b = encoder.encode(bags[0]).rows[0].astype(np.float64), encoder.encode(bags[4]).rows[0].astype(np.float64)
    parts = encoder.contributions(bags[0], encoder.encode(bags[4]))
    assert parts.shape == (len(bags[0]),)
    assert parts.sum() == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), rel=1e-9)
    order = np.arange(len(bags[0]))[::-1]
    np.testing.assert_allclose(
        encoder.contributions(bag(bags[0].features[order]), encoder.encode(bags[4])), parts[order], rtol=1e-9
    )
    assert implements(encoder, Attributable) and implements(encoder, Trainable)


def test_contributions_refuse_codes_of_another_encoder_or_site():
    bags = archive(sites=("brain", "lung"))
    encoder = fitted(ConditionedGmmFisher(3), bags)
    with pytest.raises(SlideseekError, match="within a site"):
        encoder.contributions(bags[0], encoder.encode(bags[1]))
    with pytest.raises(SlideseekError, match="the same encoder"):
        encoder.contributions(bags[0], fitted(GmmFisher(2), bags).encode(bags[0]))


def test_save_and_load(tmp_path):
    bags = archive(sites=("brain", "lung"))
    encoder = fitted(ConditionedGmmFisher(3, pca=2), bags)
    encoder.save(tmp_path)
    again = ConditionedGmmFisher(3, pca=2)
    again.load(tmp_path)
    assert again.encode(bags[1]).rows.tobytes() == encoder.encode(bags[1]).rows.tobytes()
    with pytest.raises(SlideseekError, match="fitted with components = 3, the encoder has 4"):
        ConditionedGmmFisher(4, pca=2).load(tmp_path)
    with pytest.raises(SlideseekError, match="written by encoder 'c-gmm-fv'"):
        GmmFisher(3, pca=2).load(tmp_path)


def edit(folder, change):
    head = json.loads((folder / "model.json").read_text())
    change(head)
    (folder / "model.json").write_text(json.dumps(head))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda head: head.update(format=99), "format version 99"),
        (lambda head: head["facts"].update(width=7), "implies"),
        (lambda head: head["facts"].update(width=10**12), "are invalid"),
        (lambda head: head["facts"].update(width=-1), "are invalid"),
        (lambda head: head["facts"].update(width="4"), "are invalid"),
        (lambda head: head["facts"].update(spaces="x"), "are invalid"),
        (lambda head: head["facts"].update(spaces=["x"]), "are invalid"),
        (lambda head: head["facts"].pop("width"), "are invalid"),
        (lambda head: head.update(facts=[]), "are invalid"),
        (lambda head: head["facts"].update(spaces=["", "x"]), "does not contain the tensors"),
        (lambda head: head["options"].pop("seed"), "a different set of options"),
    ],
)
def test_load_refuses_what_does_not_fit(tmp_path, change, message):
    fitted(GmmFisher(3), archive()).save(tmp_path)
    edit(tmp_path, change)
    with pytest.raises(SlideseekError, match=message):
        GmmFisher(3).load(tmp_path)


def test_load_refuses_variances_that_are_not_above_zero(tmp_path):
    encoder = fitted(GmmFisher(3), archive())
    encoder.mixtures_[""].variances[1, 0] = 0
    encoder.save(tmp_path)
    with pytest.raises(DamagedError, match=r"'variances.0' .* not above 0"):
        GmmFisher(3).load(tmp_path)


def test_load_refuses_damage(tmp_path):
    with pytest.raises(DamagedError):
        GmmFisher(3).load(tmp_path)
    fitted(GmmFisher(3), archive()).save(tmp_path)
    data = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(DamagedError):
        GmmFisher(3).load(tmp_path)


def test_bad_input_is_named(tmp_path):
    bags = archive()
    with pytest.raises(NotFittedError):
        GmmFisher().encode(bags[0])
    with pytest.raises(NotFittedError):
        GmmFisher().save(tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(SlideseekError, match=r"5 patches.*at least 8"):
        fitted(GmmFisher(8), [bag(np.ones((5, 3)))])
    with pytest.raises(SlideseekError, match=r"site 'lung' have 20 patches"):
        fitted(ConditionedGmmFisher(25), [bag(np.ones((30, 3)), site="a"), bag(np.ones((20, 3)), site="lung")])
    with pytest.raises(SlideseekError, match="no training slide"):
        fitted(GmmFisher(), [])
    with pytest.raises(SlideseekError, match="'bad'"):
        fitted(GmmFisher(2), [bags[0], bag(np.full((3, 6), np.nan), "bad")])
    with pytest.raises(SlideseekError, match=r"'odd'.*width 5"):
        fitted(GmmFisher(2), [bags[0], bag(np.ones((3, 5)), "odd")])
    encoder = fitted(GmmFisher(2), bags)
    with pytest.raises(EmptyBagError):
        encoder.encode(bag(np.zeros((0, 6))))
    with pytest.raises(SlideseekError, match="width 5"):
        encoder.encode(bag(np.ones((3, 5))))
    for options in ({"components": 0}, {"blocks": ()}, {"blocks": ("means", "means")}, {"blocks": ("mean",)}):
        with pytest.raises(ValueError, match=next(iter(options))):
            GmmFisher(**options)


def test_constant_bags_and_single_patches_have_finite_codes():
    bags = [bag(np.ones((9, 4)), "constant"), bag(np.zeros((1, 4)), "one")]
    encoder = fitted(GmmFisher(3), bags)
    for b in bags:
        assert np.isfinite(encoder.encode(b).rows).all()
