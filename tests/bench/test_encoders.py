"""The comparison of encoders: folds, scores, what is kept, and the variants it judges."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench import encoder_bits, encoder_variants, encoders
from slideseek.types import Bag
from slideseek_components.encoders.deep_sbfv import DeepSparseBinaryFisherVector

pytestmark = pytest.mark.slow

WIDTH = 6


@pytest.fixture(scope="module")
def task():
    """24 slides of 12 patients in two classes that differ in their mean."""
    rng = np.random.default_rng(0)
    labels = ["ab"[i // 2 % 2] for i in range(24)]
    bags = [
        Bag(
            f"s{i}",
            (rng.normal(size=(9, WIDTH)) + 4 * (label == "b") - 2).astype(np.float32),
            np.zeros((9, 2), np.int32),
        )
        for i, label in enumerate(labels)
    ]
    return encoders.Task("toy", "toy", bags, labels, labels, [f"p{i // 2}" for i in range(24)])


def network(seed, bits=20):
    return DeepSparseBinaryFisherVector(
        preset="best", labels=2, bits=bits, seed=seed, hidden=(8,), latent=3, epochs=2, device="cpu"
    )


@pytest.mark.parametrize("count", [0, 4])
def test_no_patient_is_on_both_sides(task, count):
    fold = encoders.folds(task, count, seed=1)
    assert len(set(fold)) == (count or 12)
    for patient in set(task.groups):
        assert len({f for f, group in zip(fold, task.groups) if group == patient}) == 1


def test_macro_f1_equals_scikit_learn():
    from sklearn.metrics import f1_score

    rng = np.random.default_rng(2)
    truth, said = (rng.choice(list("abc"), 40).tolist() for _ in range(2))
    weights = rng.integers(1, 4, 40).astype(np.float64)
    wanted = 100 * f1_score(truth, said, average="macro", sample_weight=weights)
    assert encoders.macro_f1(truth, said, weights) == pytest.approx(wanted)


def test_a_good_encoder_scores_well_and_its_answers_are_kept(task, tmp_path, monkeypatch, capsys):
    rows = [row for row in encoders.entries(0) if row.name in ("yottixel", "mean", "gmm-fv")]
    encoders.print_table(task, rows, 2, 3, tmp_path)
    printed = capsys.readouterr().out
    assert "toy: 24 slides, 12 patients, 2 classes" in printed
    (line,) = [line for line in printed.splitlines() if line.startswith("mean ")]
    assert float(line.split()[1]) > 90
    monkeypatch.setattr(encoders, "predict", None)  # a second run asks nobody
    encoders.print_table(task, rows, 2, 3, tmp_path)
    (again,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("mean ")]
    assert again.split()[1:3] == line.split()[1:3]


def test_rows_have_names_of_their_own_and_variants_share_the_trained_network():
    other = 'preset = "paper"; selection = "separation"'
    rows = encoders.entries(20, ["centre = true", "epochs = 3", other], variants=True)
    assert len({row.name for row in rows}) == len(rows)
    runs = {row.name: row.run for row in rows}
    own = runs["deep-sbfv best 5000 bits"]
    for name in ("5000 bits, centre = true", "5000 bits of 2 networks", "rotated bits (ITQ), 50% of n - 1"):
        assert runs[f"deep-sbfv best {name}"] == own
    assert runs["deep-sbfv best 5000 bits, epochs = 3"] != own
    assert runs['deep-sbfv paper (20 epochs) 5000 bits, selection = "separation"'] == "deep-sbfv paper (20 epochs)"


def test_several_networks_give_their_codes_side_by_side(task, tmp_path):
    both = encoder_variants.Joined([network(0), network(1)])
    both.fit_in(tmp_path, task.bags, task.labels, task.groups)
    alone = network(1)
    alone.fit(task.bags, task.labels, task.groups)
    assert both.spec(WIDTH).width == 40
    bits = np.unpackbits(both.encode(task.bags[3]).rows[0], count=40)
    assert bits[20:].tolist() == np.unpackbits(alone.encode(task.bags[3]).rows[0], count=20).tolist()
    assert bits[:20].tolist() != bits[20:].tolist()


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize(("share", "dimensions"), [(1.0, 23), (0.3, 7)])
def test_projected_codes_are_those_of_the_training_slides(task, tmp_path, whiten, share, dimensions):
    made = encoder_variants.Projected(network(0, bits=40), whiten, share)
    made.fit_in(tmp_path, task.bags, task.labels, task.groups)
    codes = np.stack([made.encode(bag).rows[0] for bag in task.bags])
    assert made.spec(WIDTH).width == dimensions
    assert len(codes[0]) == made.spec(WIDTH).row_shape[0]
    if whiten:
        assert np.abs(codes.T @ codes - np.eye(dimensions)).max() < 1e-4


def test_itq_rotates_towards_the_corners():
    values = np.random.default_rng(3).normal(size=(200, 6)) * [5, 4, 3, 2, 1, 0.5]
    rotation = encoder_variants.itq(values, 0)
    assert np.abs(rotation @ rotation.T - np.eye(6)).max() < 1e-10

    def loss(v):
        return ((v - np.sign(v)) ** 2).sum()

    start = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    assert loss(values @ rotation) < min(loss(values), loss(values @ start))


def test_the_figure_has_a_curve_through_the_rows_of_bits(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    from matplotlib.axes import Axes

    from bench import encoder_figure

    drawn = {}
    monkeypatch.setattr(Axes, "errorbar", lambda self, x, y, e, label, **look: drawn.setdefault(label, (x, y)))
    score = {
        name: encoders.Result(mean, np.array([mean, mean + 1]))
        for name, mean in {
            "yottixel": 60.0,
            "deep-sbfv paper (20 epochs) 128 bits": 50.0,
            "deep-sbfv paper (20 epochs) conditioned 128 bits": 10.0,
            "deep-sbfv paper (20 epochs) 500 bits": 55.0,
            "deep-sbfv paper (20 epochs) all bits": 70.0,
        }.items()
    }
    encoder_figure.draw({"a": score, "b": score}, encoders.BITS, tmp_path / "figure.png")
    ((label, (x, y)),) = drawn.items()
    assert (label, y) == ("deep-sbfv paper", [50.0, 55.0])
    aside = 1.05 ** (list(encoder_figure.CURVES).index(label) - 1.5)
    assert x == pytest.approx([128 * aside, 500 * aside])
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_what_bits_follow_is_measured():
    labels = np.array(list("aabb"))
    x = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 1]], dtype=np.float64)
    assert encoder_bits.explained_by_class(x, labels) == pytest.approx((1 + 0) / 2)
    assert encoder_bits.explained_by_line(x, np.array([0.0, 1.0, 0.0, 1.0])) == pytest.approx((0 + 1) / 2)
    assert encoder_bits.entropy(x) == pytest.approx(2 / 3)
    assert encoder_bits.directions(x) == pytest.approx(2)


def test_what_bits_follow_is_nothing_for_random_bits():
    rng = np.random.default_rng(0)
    bits, labels = rng.integers(0, 2, (12, 4000)).astype(np.float64), np.array(list("ab") * 6)
    assert encoder_bits.explained_by_class(bits, labels) == pytest.approx(1 / 11, abs=0.01)
    assert encoder_bits.explained_by_line(bits, rng.normal(size=12)) == pytest.approx(1 / 11, abs=0.01)


def test_the_bits_of_a_fitted_encoder_are_measured(task, tmp_path):
    encoder = network(0)
    encoder.fit(task.bags, task.labels, task.groups)
    test = list(range(0, 24, 2))
    found = encoder_bits.measure(encoder, task, test)
    for share in (found.of_class, found.of_error, found.still, found.entropy):
        assert 0 <= share <= 1
    assert 1 <= found.directions <= 23
    shown = encoder.model_.inputs(task.bags[0].features, torch.float32, torch.device("cpu"))
    made = encoder.model_.network(shown, torch.zeros(len(shown), dtype=torch.int64), None).x.detach()
    wanted = float(((shown - made) ** 2).sum(dim=1).mean())
    assert encoder_bits.reconstruction_error(encoder, task.bags[0]) == pytest.approx(wanted, rel=1e-5)
