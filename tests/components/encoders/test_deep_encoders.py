"""The four deep encoders: same bits whatever the order, codes, attribution, files, presets, bad input."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
import torch

from slideseek.errors import DamagedError, EmptyBagError, NotFittedError, SlideseekError
from slideseek.interfaces import Attributable, BatchEncoder, Checkpointed, Trainable
from slideseek.types import Bag
from slideseek_components.encoders.deep.settings import PRESETS
from slideseek_components.encoders.deep.slide_gradients import Gradients
from slideseek_components.encoders.deep_bfv import DeepBinaryFisherVector
from slideseek_components.encoders.deep_fv import DeepFisherVector
from slideseek_components.encoders.deep_sbfv import DeepSparseBinaryFisherVector
from slideseek_components.encoders.deep_sfv import DeepSparseFisherVector

KINDS = [DeepFisherVector, DeepSparseFisherVector, DeepBinaryFisherVector, DeepSparseBinaryFisherVector]
SMALL: dict[str, Any] = {"hidden": (12, 8), "latent": 4, "sites": 3, "labels": 4, "epochs": 2, "standardise": True}


def bag(features, slide_id="s", site="lung"):
    features = np.asarray(features, dtype=np.float32)
    return Bag(slide_id, features, np.zeros((len(features), 2), dtype=np.int32), site)


def archive(count=12, width=9):
    bags = []
    for i in range(count):
        rng = np.random.default_rng(i)
        rows = int(rng.integers(3, 40))
        bags.append(bag(rng.normal(i % 2, 1, size=(rows, width)), f"s{i}", ("brain", "lung")[i // 2 % 2]))
    return bags, ["xy"[i % 2] for i in range(count)], [f"p{i}" for i in range(count)]


def small(kind, **options):
    given = SMALL | options
    if kind is DeepSparseBinaryFisherVector:
        given.setdefault("bits", 60)
    return kind(**given)


def fitted(kind, **options):
    encoder = small(kind, **options)
    encoder.fit(*archive())
    return encoder


@pytest.mark.parametrize("kind", KINDS)
def test_protocols_and_spec(kind):
    encoder = fitted(kind)
    for protocol in (Trainable, Checkpointed, BatchEncoder, Attributable):
        assert isinstance(encoder, protocol)
    spec = kind(**SMALL | ({"bits": 60} if kind is DeepSparseBinaryFisherVector else {})).spec(9)
    code = encoder.encode(archive()[0][0])
    assert code.mismatch(spec) == "" and code.space == "brain"
    assert spec.kind == ("bits" if "Binary" in kind.__name__ else "sparse" if "Sparse" in kind.__name__ else "float")


def test_the_whole_gradient_of_the_papers_network_is_the_code():
    assert DeepFisherVector().spec(1024).width == 1_407_105
    assert DeepBinaryFisherVector().spec(1024).width == 1_407_105
    assert DeepSparseBinaryFisherVector().spec(1024).width == 5000


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("options", [{"keep": 0}, {"keep": 50, "centre": True}])
def test_same_bits_whatever_order_threads_and_company(precision, options):
    encoder = fitted(DeepFisherVector, precision=precision, **options)
    rng = np.random.default_rng(0)
    bags = [bag(rng.normal(size=(n, 9)), f"n{n}", ("brain", "lung")[n % 2]) for n in (1, 2, 7, 31, 256, 257, 700)]
    wanted = [encoder.encode(b).rows.tobytes() for b in bags]
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            shuffled = [bag(b.features[rng.permutation(len(b))], b.slide_id, b.site) for b in bags]
            assert [encoder.encode(b).rows.tobytes() for b in shuffled] == wanted
            order = rng.permutation(len(bags))
            together = encoder.encode_many([shuffled[i] for i in order])
            assert [code.rows.tobytes() for code in together] == [wanted[i] for i in order]
            assert [code.slide_id for code in together] == [bags[i].slide_id for i in order]
    finally:
        torch.set_num_threads(before)


def test_coding_takes_the_threads_that_pytorch_may_use_at_that_time(monkeypatch):
    encoder, seen = fitted(DeepFisherVector), []
    means = Gradients.means

    def counted(self, slides, threads):
        seen.append(threads)
        return means(self, slides)

    monkeypatch.setattr(Gradients, "means", counted)
    before = torch.get_num_threads()
    try:
        for threads in (3, 1, 2):
            torch.set_num_threads(threads)
            encoder.encode(archive()[0][0])
    finally:
        torch.set_num_threads(before)
    assert seen == [3, 1, 2]


def test_codes_can_be_made_in_the_callers_inference_mode():
    encoder, slide = fitted(DeepFisherVector), bag(np.random.default_rng(0).normal(size=(300, 9)))
    wanted, before = encoder.encode(slide).rows.tobytes(), torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with torch.inference_mode():
            assert encoder.encode(slide).rows.tobytes() == wanted
            assert torch.is_inference_mode_enabled()
    finally:
        torch.set_num_threads(before)


def test_duplicated_patches_do_not_change_the_mean():
    encoder = fitted(DeepFisherVector)
    features = archive()[0][3].features
    one, twice = encoder.gradient(bag(features)), encoder.gradient(bag(np.repeat(features, 2, axis=0)))
    np.testing.assert_allclose(one, twice, rtol=1e-4, atol=1e-6)


def test_float_code_is_the_normalised_gradient():
    encoder = fitted(DeepFisherVector)
    one = archive()[0][1]
    root = np.sign(encoder.gradient(one)) * np.sqrt(np.abs(encoder.gradient(one)))
    np.testing.assert_allclose(encoder.encode(one).rows[0], root / np.linalg.norm(root), rtol=1e-5)
    plain = fitted(DeepFisherVector, power=False, l2=False)
    np.testing.assert_allclose(plain.encode(one).rows[0], plain.gradient(one), rtol=1e-6)


def test_bits_are_the_signs_of_the_chosen_entries():
    encoder = fitted(DeepSparseBinaryFisherVector)
    bags, _, _ = archive()
    for one in bags[:4]:
        chosen = encoder.model_.kept[one.site].chosen
        wanted = np.packbits(encoder.gradient(one)[chosen] > 0)
        assert np.array_equal(encoder.encode(one).rows[0], wanted)
    lung = np.stack([encoder.gradient(b) for b in bags if b.site == "lung"])
    top = np.sort(np.argsort(-lung.var(axis=0), kind="stable")[:60])
    assert encoder.model_.kept["lung"].chosen.tolist() == top.tolist()


def test_statistics_of_all_slides_choose_one_set():
    encoder = fitted(DeepSparseBinaryFisherVector, statistics="all")
    assert set(encoder.model_.kept) == {""}
    assert encoder.encode(archive()[0][0]).space == "brain"
    free = fitted(DeepSparseBinaryFisherVector, sites=0)
    assert free.statistics == "all"
    assert free.encode(bag(np.ones((3, 9)), site="")).space == ""
    by_site = fitted(DeepSparseBinaryFisherVector, sites=0, statistics="site")
    assert by_site.encode(archive()[0][0]).space == "brain"


def test_a_site_with_one_slide_takes_the_statistics_of_all():
    bags, labels, groups = archive()
    bags[0] = bag(bags[0].features, "s0", "eye")
    encoder = small(DeepSparseBinaryFisherVector)
    encoder.fit(bags, labels, groups)
    free = small(DeepSparseBinaryFisherVector, statistics="all")
    free.fit(bags, labels, groups)
    assert encoder.model_.kept["eye"].chosen.tolist() == free.model_.kept[""].chosen.tolist()


def test_centring_and_scaling_are_fitted_on_training_slides_alone():
    encoder = fitted(DeepFisherVector, sites=0, centre=True, scale=True, power=False, l2=False)
    bags, _, _ = archive()
    gradients = np.stack([encoder.gradient(b) for b in bags])
    alive = gradients.std(axis=0) > 1e-6
    gradients, row = gradients[:, alive], encoder.encode(bags[2]).rows[0][alive]
    wanted = (gradients[2] - gradients.mean(axis=0)) / gradients.std(axis=0)
    np.testing.assert_allclose(row, wanted, rtol=1e-3, atol=1e-3)


def test_layers_limit_the_code():
    encoder = fitted(DeepFisherVector, layers=("decoder",))
    sizes = encoder.settings_.shape(9).layers()
    assert encoder.spec(9).width == sum(o * (i + 1) for name, (o, i) in sizes.items() if name.startswith("decoder"))
    whole = fitted(DeepFisherVector)
    one = archive()[0][0]
    assert np.array_equal(encoder.gradient(one), whole.gradient(one)[-encoder.spec(9).width :])


def test_the_sparse_code_is_sparse_where_the_cut_says():
    one = archive()[0][0]
    zeros = [float((fitted(DeepSparseFisherVector, cut=cut).encode(one).rows == 0).mean()) for cut in (0.0, 0.05, 0.3)]
    assert zeros[0] < zeros[1] < zeros[2]


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize(
    "options", [{}, {"keep": 70}, {"centre": True, "scale": True}, {"power": False}, {"l2": False}]
)
def test_float_parts_add_up_to_the_cosine(precision, options):
    encoder = fitted(DeepFisherVector, precision=precision, **options)
    bags, _, _ = archive()
    code = encoder.encode(bags[5])
    a, b = encoder.encode(bags[4]).rows[0].astype(np.float64), code.rows[0].astype(np.float64)
    parts = encoder.contributions(bags[4], code)
    assert parts.shape == (len(bags[4]),)
    assert parts.sum() == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), rel=1e-9)


@pytest.mark.parametrize("options", [{}, {"bits": 0}, {"centre": True}])
def test_bit_parts_add_up_to_the_share_of_equal_bits(options):
    encoder = fitted(DeepSparseBinaryFisherVector, **options)
    bags, _, _ = archive()
    code = encoder.encode(bags[5])
    width = encoder.spec(9).width
    a, b = (np.unpackbits(c.rows[0], count=width) for c in (encoder.encode(bags[4]), code))
    parts = encoder.contributions(bags[4], code)
    assert parts.sum() == pytest.approx(float((a == b).mean()), rel=1e-9) and (parts >= 0).all()
    order = np.arange(len(parts))[::-1]
    flipped = encoder.contributions(bag(bags[4].features[order], site=bags[4].site), code)
    np.testing.assert_allclose(flipped, parts[order], rtol=1e-9)


def test_a_patch_of_the_other_slide_carries_the_similarity():
    encoder = fitted(DeepFisherVector)
    rng = np.random.default_rng(5)
    theirs = bag(np.full((4, 9), 3.0) + 0.01 * rng.normal(size=(4, 9)))
    mine = bag(np.concatenate([theirs.features[:1], rng.normal(-2, 1, size=(6, 9)).astype(np.float32)]))
    assert encoder.contributions(mine, encoder.encode(theirs)).argmax() == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"centre": True, "scale": True}])
def test_save_and_load(kind, options, tmp_path):
    encoder = fitted(kind, **options)
    encoder.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"model.json", "model.safetensors", "training.csv"}
    again = small(kind, device="cpu", **options)
    again.load(tmp_path)
    for one in archive()[0][:4]:
        assert again.encode(one).rows.tobytes() == encoder.encode(one).rows.tobytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda head: head.update(format=2), "format version 2"),
        (lambda head: head.update(encoder="deep-fv"), "written by encoder 'deep-fv'"),
        (lambda head: head["facts"].update(width=10), "implies"),
        (lambda head: head["facts"].update(width=10**9), "are invalid"),
        (lambda head: head["facts"].update(width="9"), "are invalid"),
        (lambda head: head["facts"].update(width=9.5), "are invalid"),
        (lambda head: head["facts"].update(sites=["b", "a"]), "are invalid"),
        (lambda head: head["facts"].update(sites=[1, 2]), "are invalid"),
        (lambda head: head["facts"].update(sites=["a", "b", "c", "d"]), "are invalid"),
        (lambda head: head["facts"].update(sites=[]), "are invalid"),
        (lambda head: head["facts"].update(spaces=["brain", "liver"]), "are invalid"),
        (lambda head: head["options"].update(bits=61), "bits = 61"),
    ],
)
def test_load_refuses_what_does_not_fit(tmp_path, change, message):
    fitted(DeepSparseBinaryFisherVector).save(tmp_path)
    head = json.loads((tmp_path / "model.json").read_text())
    change(head)
    (tmp_path / "model.json").write_text(json.dumps(head))
    encoder = small(DeepSparseBinaryFisherVector)
    with pytest.raises(SlideseekError, match=message):
        encoder.load(tmp_path)
    assert encoder.model_ is None


def test_load_refuses_to_divide_by_zero(tmp_path):
    encoder = fitted(DeepSparseBinaryFisherVector)
    encoder.model_.inputs.scale[0] = 0
    encoder.save(tmp_path)
    with pytest.raises(DamagedError, match=r"'inputs.scale' .* not above 0"):
        small(DeepSparseBinaryFisherVector).load(tmp_path)


def test_labels_need_no_room_where_only_the_choice_of_entries_sees_them():
    bags, _, groups = archive()
    labels = [f"l{i // 2}" for i in range(len(bags))]
    encoder = small(DeepSparseBinaryFisherVector, lambda_cls=0.0, selection="separation", statistics="all")
    encoder.fit(bags, labels, groups)
    assert {row["classification"] for row in encoder.log_} == {0.0}
    same = small(DeepSparseBinaryFisherVector, lambda_cls=0.0, statistics="all")
    same.fit(bags, [""] * len(bags), groups)
    for a, b in zip(encoder.model_.network.parameters(), same.model_.network.parameters()):
        assert torch.equal(a, b)


def test_bad_input_is_named_and_changes_nothing(tmp_path):
    bags, labels, groups = archive()
    encoder = small(DeepSparseBinaryFisherVector)
    with pytest.raises(NotFittedError):
        encoder.encode(bags[0])
    with pytest.raises(NotFittedError):
        encoder.save(tmp_path)
    for change, message in [
        (lambda: (bags, ["", *labels[1:]], groups), "'s0' has no label"),
        (lambda: ([bag(bags[0].features, "s0", ""), *bags[1:]], labels, groups), "'s0' has no site"),
        (lambda: ([bag(np.full((2, 9), np.inf), "s0"), *bags[1:]], labels, groups), "'s0' has NaN"),
        (lambda: (bags, [f"l{i}" for i in range(12)], groups), "12 labels, the network has room for 4"),
        (lambda: ([bag(b.features, b.slide_id, f"x{i}") for i, b in enumerate(bags)], labels, groups), "room for 3"),
        (lambda: ([bag(np.zeros((0, 9)))], ["x"], ["p"]), "no training slide"),
    ]:
        with pytest.raises(SlideseekError, match=message):
            encoder.fit_in(tmp_path, *change())
        assert encoder.model_ is None and not list(tmp_path.iterdir())
    encoder.fit(bags, labels, groups)
    with pytest.raises(SlideseekError, match=r"site 'liver'.*brain, lung"):
        encoder.encode(bag(bags[0].features, site="liver"))
    with pytest.raises(SlideseekError, match=r"has no site.*brain, lung"):
        encoder.encode(bag(bags[0].features, site=""))
    with pytest.raises(SlideseekError, match="width 3"):
        encoder.encode(bag(np.ones((2, 3))))
    with pytest.raises(EmptyBagError):
        encoder.encode(bag(np.zeros((0, 9))))
    with pytest.raises(SlideseekError, match="NaN"):
        encoder.encode(bag(np.full((2, 9), np.nan)))
    with pytest.raises(SlideseekError, match="cannot keep 10000000"):
        small(DeepSparseBinaryFisherVector, bits=10_000_000).spec(9)


def test_constant_bags_single_patches_and_empty_training_bags():
    bags, labels, groups = archive()
    bags[3] = bag(np.zeros((0, 9)), "s3")
    bags[4] = bag(np.ones((1, 9)), "s4", "brain")
    bags[5] = bag(np.ones((20, 9)), "s5", "brain")
    encoder = small(DeepFisherVector, centre=True, scale=True)
    encoder.fit(bags, labels, groups)
    for one in (bags[4], bags[5], bag(np.zeros((1, 9)))):
        assert np.isfinite(encoder.encode(one).rows).all()


def test_labels_are_not_needed_without_a_classifier():
    bags, _, groups = archive()
    for options in ({"labels": 0}, {"lambda_cls": 0.0}):
        small(DeepFisherVector, **options).fit(bags, [""] * 12, groups)
    with pytest.raises(SlideseekError, match="no label"):
        small(DeepSparseBinaryFisherVector, labels=0, selection="separation").fit(bags, [""] * 12, groups)


def test_a_preset_gives_defaults_and_an_explicit_option_wins():
    paper = DeepSparseBinaryFisherVector()
    assert (paper.preset, paper.epochs, paper.hidden, paper.lambda_sparse) == ("paper", 150, (512, 256, 128), 1e-4)
    assert (paper.centre, paper.scale, paper.selection, paper.bits) == (False, False, "variance", 5000)
    best = DeepSparseBinaryFisherVector(preset="best")
    for name, value in PRESETS["best"].items():
        assert getattr(best, name) == value
    mine = DeepSparseBinaryFisherVector(preset="best", epochs=7, centre=False)
    assert (mine.epochs, mine.centre) == (7, False)
    assert all(getattr(best, item.name) is not None for item in dataclasses.fields(best) if item.init)
    assert not hasattr(DeepFisherVector(), "lambda_sparse")
    assert dataclasses.fields(best)[[f.name for f in dataclasses.fields(best)].index("device")].metadata == {
        "affects_result": False
    }


@pytest.mark.parametrize(
    "options",
    [
        {"preset": "worst"},
        {"epochs": -1},
        {"hidden": ()},
        {"learning_rate": 0.0},
        {"validation": 1.0},
        {"patience": 3},
        {"activation": "swish"},
        {"layers": ("middle",)},
        {"precision": "float16"},
        {"device": "tpu"},
        {"threads": 0},
        {"amp": True},
        {"seed": -1},
        {"lambda_kl": float("nan")},
        {"clip": float("inf")},
    ],
)
def test_options_out_of_range_are_named(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        DeepSparseBinaryFisherVector(**options)


def test_amp_needs_cuda():
    encoder = small(DeepFisherVector, amp=True, device="cpu")
    with pytest.raises(SlideseekError, match="CUDA"):
        encoder.fit(*archive())
