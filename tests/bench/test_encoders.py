"""The comparison of encoders: protocols, scores, what is kept and shared, the figure."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench import encoder_ablation, encoder_codes, encoder_entries, encoder_page, encoder_scores, encoder_sets, encoders
from slideseek.config import parse_config
from slideseek.engine import make_engine
from slideseek.plugins import load_registry
from slideseek.types import Bag
from slideseek_components.encoders.gmm_fv import GmmFisher
from slideseek_components.encoders.joined import Joined
from slideseek_components.encoders.mean import Mean
from slideseek_components.encoders.projected import Projected
from slideseek_components.encoders.yottixel import Yottixel

pytestmark = pytest.mark.slow

WIDTH = 6


@pytest.fixture(scope="module")
def features():
    """24 slides of 12 patients in two classes and two sites that differ in their mean."""
    rng = np.random.default_rng(0)
    labels = ["ab"[i // 2 % 2] for i in range(24)]
    bags = [
        Bag(
            f"s{i}",
            (rng.normal(size=(9, WIDTH)) + 4 * (label == "b") - 2).astype(np.float32),
            np.zeros((9, 2), np.int32),
            ("lung", "colon")[i // 4 % 2],
        )
        for i, label in enumerate(labels)
    ]
    return encoder_sets.FeatureSet("toy", bags, labels, [f"p{i // 2}" for i in range(24)])


ROWS = [
    encoder_codes.Entry("yottixel", lambda seed, labels: Yottixel()),
    encoder_codes.Entry("mean", lambda seed, labels: Mean(l2=True)),
    encoder_codes.Entry(
        "recommended 5000 bits",
        lambda seed, labels: Projected(of=encoder_codes.Once(GmmFisher(components=1, seed=seed)), bits=500, seed=seed),
    ),
]


@pytest.mark.parametrize("protocol", encoder_sets.PROTOCOLS)
def test_every_slide_is_searched_once_and_its_patient_is_never_learnt_from_or_found(features, protocol):
    task = encoder_sets.tasks_of(features)[1]
    asked = []
    for split in encoder_sets.splits(features, protocol, seed=1):
        learnt = {features.groups[i] for i in split.train}
        for query in split.queries.tolist():
            asked.append(query)
            assert features.groups[query] not in learnt
            among = encoder_sets.candidates(task, split, protocol, query)
            assert features.groups[query] not in {features.groups[i] for i in among}
            assert {features.bags[i].site for i in among} <= {features.bags[query].site}
            assert (set(among.tolist()) <= set(split.train.tolist())) == (protocol == "archive") or not len(among)
    assert sorted(asked) == list(range(24))


def test_macro_f1_equals_scikit_learn():
    from sklearn.metrics import f1_score

    rng = np.random.default_rng(2)
    truth, said = (rng.choice(list("abc"), 40).tolist() for _ in range(2))
    weights = rng.integers(1, 4, 40).astype(np.float64)
    wanted = 100 * f1_score(truth, said, average="macro", sample_weight=weights)
    assert encoder_scores.macro_f1(truth, said, weights) == pytest.approx(wanted)


def test_average_precision_is_over_all_candidates(features):
    task = encoder_sets.tasks_of(features)[0]
    near = np.abs(np.arange(24)[:, None] - np.arange(24)[None]).astype(np.float64)
    found = [(split, near) for split in encoder_sets.splits(features, "archive", 0)]
    ranked = encoder_scores.rank(task, "archive", found)
    place = int(np.flatnonzero(ranked.rows == 5)[0])
    split = next(split for split, _ in found if 5 in split.queries)
    order = sorted(encoder_sets.candidates(task, split, "archive", 5).tolist(), key=lambda i: (abs(i - 5), i))
    match = [task.targets[i] == task.targets[5] for i in order]
    wanted = np.mean([sum(match[: i + 1]) / (i + 1) for i, same in enumerate(match) if same])
    assert ranked.precision[place] == pytest.approx(100 * wanted)


def test_a_good_encoder_scores_well_and_its_distances_are_kept(features, tmp_path, monkeypatch, capsys):
    task = encoder_sets.Task("toy", features, features.labels)
    encoders.compute(features, ROWS, 2, tmp_path)
    monkeypatch.setattr(encoder_codes, "measured", None)  # what is kept is not computed again
    found = {row.name: encoders.scored(task, row, "unseen", 2, tmp_path) for row in ROWS}
    sizes = {row.name: encoder_codes.bytes_of(features, row) for row in ROWS}
    encoders.print_table(task, "unseen", found, sizes, {})
    printed = capsys.readouterr().out
    assert "toy: 24 slides, 12 patients, 2 classes; archive never seen" in printed
    assert found["mean"]["mAP"].mean > 90 and found["mean"]["F1@3"].mean > 90
    assert sizes == {"yottixel": 9.0, "mean": 24.0, "recommended 5000 bits": 63.0}
    assert "recommended 5000 bits vs (mAP): yottixel" in printed


def test_shared_encoders_are_fitted_once_per_split_and_shuffled_labels_are_dealt_out(features, monkeypatch):
    calls = []
    fit = GmmFisher.fit

    def counted(*given):
        calls.append(1)
        return fit(*given)

    monkeypatch.setattr(GmmFisher, "fit", counted)
    first, second = encoder_sets.splits(features, "unseen", 0)
    encoder_codes.SHARED.clear()
    for split in (first, first, second):
        encoder_codes.measured(features, ROWS[2], 0, split)
    assert len(calls) == 2
    dealt = encoder_sets.deal_out(features, 0)
    bags, labels, groups = encoder_codes.training(dealt, first.train)
    assert labels == [dealt.labels[i] for i in first.train] != [features.labels[i] for i in first.train]
    assert [bag.site for bag in bags] == [dealt.bags[i].site for i in first.train]
    assert groups == [features.groups[i] for i in first.train]
    pairs, dealt_pairs = (sorted(zip(one.labels, one.sites)) for one in (features, dealt))
    assert pairs == dealt_pairs and dealt.groups == features.groups


def test_the_control_knows_nothing_of_its_queries_and_sees_a_leak(features, tmp_path, monkeypatch):
    def make(seed, labels):
        # the mean tells the classes apart; in 64 random values any labels can be learnt by heart
        of = Joined(of=(Mean(l2=False), encoder_entries.Chance(seed)), weights=(1.0, 0.5))
        return Projected(of=of, unprojected=0.0, bits=0, seed=seed)

    control = encoder_codes.Entry("control", make, shuffled=True, control=True)
    swapped = encoder_codes.Entry("swapped", make, shuffled=True, control=True, dealt_again="control")
    true = encoder_codes.Entry("true", make)
    task = encoder_sets.Task(features.name, features, features.labels)
    monkeypatch.setattr(encoders, "tasks_of", lambda dealt: [encoder_sets.Task(dealt.name, dealt, dealt.labels)])

    def mean_precision(row, folder):
        return encoders.scored(task, row, "unseen", 8, folder)["mAP"].mean

    assert mean_precision(true, tmp_path) > 90
    honest = mean_precision(control, tmp_path) - mean_precision(swapped, tmp_path)
    assert abs(honest) < 10
    split = encoder_codes.measured
    everything = np.arange(len(features.bags))
    monkeypatch.setattr(
        encoder_codes, "measured", lambda f, e, s, given: split(f, e, s, replace(given, train=everything))
    )
    (tmp_path / "leak").mkdir()
    leaked = mean_precision(control, tmp_path / "leak") - mean_precision(swapped, tmp_path / "leak")
    assert leaked > 15


def test_rows_have_names_of_their_own():
    rows = encoder_entries.entries(('by = "site"',))
    assert len({row.name for row in rows}) == len(rows)
    assert set(encoder_entries.RIVALS) | set(encoders.COMPARED) <= {row.name for row in rows}
    last: Any = rows[-1].make(0, 2)
    assert last.by == "site"


def test_the_engine_in_the_first_configuration_is_the_one_measured():
    text = (Path(encoders.__file__).parents[1] / "core" / "slideseek" / "default.toml").read_text(encoding="utf-8")
    offered = text[text.index("# [[engine]]") :].partition("\n\n")[0]
    default, engine = parse_config(text.replace(offered, offered.replace("# ", ""))).engines
    assert engine.name == encoder_entries.RECOMMENDED
    assert engine.selector == default.selector
    encoder: Any = make_engine(engine, load_registry()).encoder
    measured: Any = encoder_entries.recommended(0, shared=False, bits=5000)
    measured.of.of[0].device = encoder.of.of[0].device
    assert encoder == measured


def test_the_figure_has_a_curve_through_the_rows_of_bits(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    from matplotlib.axes import Axes

    from bench import encoder_figure

    drawn: dict[str, Any] = {}
    monkeypatch.setattr(Axes, "errorbar", lambda self, x, y, e, label, **look: drawn.setdefault(label, (x, y)))
    means = {"yottixel": 60.0, "recommended 512 bits": 55.0, "recommended 64 bits": 50.0, "recommended, floats": 70.0}
    scores = {name: {"mAP": encoder_scores.Score(mean, np.array([mean, mean + 1]))} for name, mean in means.items()}
    sizes = {"yottixel": 900.0, "recommended 512 bits": 64.0, "recommended 64 bits": 8.0, "recommended, floats": 2048.0}
    encoder_figure.draw({"a": (scores, sizes), "b": (scores, sizes)}, tmp_path / "figure.png")
    assert drawn == {"recommended": ([8.0, 64.0], [50.0, 55.0]), "yottixel": ([900.0], [60.0])}
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_the_ablation_keeps_parts_and_changes_one_thing_per_row(features, tmp_path, monkeypatch):
    """A part is fitted once per split; rows differ in name; inner halves share no patient and are training slides."""
    monkeypatch.setitem(encoder_ablation.OTHERS, "spread", lambda seed: GmmFisher(components=1, seed=seed))
    row = encoder_ablation.Row("toy", {"spread": 1.0}, {"bits": 64})
    found = encoder_ablation.columns(row, features, 1, tmp_path)
    assert list(found) == [
        f"toy, {task}, {p}" for p in encoder_sets.PROTOCOLS for task in ("site", "diagnosis in site")
    ]
    assert found["toy, diagnosis in site, archive"] > 90
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == 5 + 2
    monkeypatch.setattr(GmmFisher, "fit", None)
    assert encoder_ablation.columns(row, features, 1, tmp_path) == found
    assert set(encoder_ablation.inner_columns(row, features, 1, tmp_path)) == {
        f"toy, {task}, inside {p}" for task in ("site", "diagnosis in site") for p in encoder_sets.PROTOCOLS
    }
    for outer in encoder_sets.splits(features, "archive", 0):
        for inner in encoder_ablation.inner_splits(features, outer, 0):
            assert set(inner.train) | set(inner.queries) == set(outer.train)
            assert not {features.groups[i] for i in inner.train} & {features.groups[i] for i in inner.queries}
    assert len({row.name for row in encoder_ablation.ROWS}) == len(encoder_ablation.ROWS)


def test_the_page_has_a_column_per_task_and_paired_differences():
    """Scores of made-up rows: the best is bold, and a difference has the error of its resamples."""
    scores = {
        name: {
            measure: encoder_scores.Score(mean, np.array([mean - 1, mean + 1]))
            for measure in ("mAP", "F1@1", "F1@3", "F1@5")
        }
        for name, mean in (("yottixel", 40.0), ("recommended 5000 bits", 50.0), ("recommended, floats", 50.0))
    }
    text = encoder_page.page({"toy, archive": scores})
    assert "| mAP | toy, archive |" in text and "| yottixel | 40.0 |" in text
    assert "| recommended 5000 bits | **50.0** |" in text
    assert "| `yottixel`, mAP | +10.0 ± 0.0 |" in text
    assert "recommended 5000 bits keep, in % of the mAP of the float code: 100.0" in text
