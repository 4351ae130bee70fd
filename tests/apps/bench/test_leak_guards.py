"""Planted leaks: each is caught, and what leaks is named. Plugins that break their word are named too."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from slideseek.errors import PluginError, SlideseekError
from slideseek.hookspecs import hookimpl
from slideseek.interfaces import Trainable
from slideseek.types import Bag, Code, CodeSpec, Hit, SlideRecord
from slideseek_apps.bench.datasets.dataset import Dataset
from slideseek_apps.bench.leak_guards import check_duplicates
from slideseek_components.indexes.cosine import Cosine

TRUTH: dict[str, int] = {}
"""What a cheat may know of slides, as if it had read the manifest."""


@dataclasses.dataclass
class Honest:
    """The mean of the features."""

    def spec(self, width: int) -> CodeSpec:
        return CodeSpec("float", width)

    def encode(self, bag: Bag) -> Code:
        return Code(bag.slide_id, self.row(bag)[None].astype(np.float32))

    def row(self, bag: Bag) -> np.ndarray:
        return np.asarray(bag.features.mean(axis=0))


class ReadsLabels(Honest):
    """Look the label of a slide up by its id."""

    def row(self, bag: Bag) -> np.ndarray:
        return super().row(bag) + 100 * TRUTH.get(bag.slide_id, 0)


class ReadsNames(Honest):
    """Take the slide's id into the code."""

    def row(self, bag: Bag) -> np.ndarray:
        return super().row(bag) + sum(map(ord, bag.slide_id)) % 7


class LearnsWhileEncoding(Honest):
    """Centre on all slides seen so far."""

    seen = 0.0

    def row(self, bag: Bag) -> np.ndarray:
        self.seen += float(bag.features.sum())
        return super().row(bag) - self.seen


class BreaksItsPromise(Honest):
    def row(self, bag: Bag) -> np.ndarray:
        return super().row(bag)[1:]


class Crashes(Honest):
    def row(self, bag: Bag) -> np.ndarray:
        raise ZeroDivisionError("oops")


class GivesUpOnOne(Honest):
    """Refuse the slides that have exactly four patches."""

    def row(self, bag: Bag) -> np.ndarray:
        if len(bag) == 4:
            raise SlideseekError(f"slide {bag.slide_id!r} is too small")
        return super().row(bag)


@dataclasses.dataclass
class Memoriser(Honest, Trainable):
    """Code a slide by the label of the training slide that looks most like it."""

    known_: list[Any] = dataclasses.field(init=False, repr=False, compare=False, default_factory=list)

    def fit(self, bags, labels, groups):
        self.known_ = [(bags[i].features.mean(axis=0), label) for i, label in enumerate(labels)]

    def save(self, folder): ...
    def load(self, folder): ...

    def row(self, bag: Bag) -> np.ndarray:
        mean = super().row(bag)
        label = min(self.known_, key=lambda known: float(np.square(known[0] - mean).sum()))[1]
        return np.asarray(np.eye(len(mean))[int(label == "cancer")])


SEEN: list[list[float]] = []
"""For every fit of a spy, the sum of the features of each slide it was given."""


@dataclasses.dataclass
class Spy(Memoriser):
    def fit(self, bags, labels, groups):
        super().fit(bags, labels, groups)
        assert len(bags) == len(labels) == len(groups)
        SEEN.append([float(bag.features.sum()) for bag in bags])


@dataclasses.dataclass
class IgnoresTheMask(Cosine):
    def search(self, code, k, among=None):
        return super().search(code, k)


@dataclasses.dataclass
class FindsTwice(Cosine):
    def search(self, code, k, among=None):
        hits = super().search(code, k, among)
        return [hits[0], *hits[:-1]]


@dataclasses.dataclass
class Descends(Cosine):
    def search(self, code, k, among=None):
        return super().search(code, k, among)[::-1]


@dataclasses.dataclass
class FindsStrangers(Cosine):
    def search(self, code, k, among=None):
        return [Hit("nobody", 0.0)]


@dataclasses.dataclass
class FindsTooMany(Cosine):
    def search(self, code, k, among=None):
        return super().search(code, k + 1, among)


@dataclasses.dataclass
class HasNoDistance(Cosine):
    def search(self, code, k, among=None):
        return [Hit(hit.slide_id, float("nan")) for hit in super().search(code, k, among)]


@dataclasses.dataclass
class LosesSlides(Cosine):
    def add(self, codes):
        super().add(codes[1:])


ENCODERS = [
    Honest,
    ReadsLabels,
    ReadsNames,
    LearnsWhileEncoding,
    BreaksItsPromise,
    Crashes,
    GivesUpOnOne,
    Memoriser,
    Spy,
]
INDEXES = [IgnoresTheMask, FindsTwice, Descends, FindsStrangers, FindsTooMany, HasNoDistance, LosesSlides]


class Plugin:
    @hookimpl
    def register_encoders(self, register):
        for kind in ENCODERS:
            register(kind.__name__, f"{__name__}:{kind.__name__}", "a test")

    @hookimpl
    def register_indexes(self, register):
        for kind in INDEXES:
            register(kind.__name__, f"{__name__}:{kind.__name__}", "a test")


@pytest.fixture
def bench(run_with, toy_bags_file):
    def run(encoder="Honest", index=None, control=False, **more):
        arrays = np.load(toy_bags_file)
        TRUTH.update({str(i): int(label == "cancer") for i, label in zip(arrays["slide_id"], arrays["label"])})
        return run_with(Plugin(), encoder, index, control, **more)

    return run


def failure(summary) -> SlideseekError:
    error: SlideseekError
    (error,) = summary.failed.values()
    return error


class TestPlantedLeaks:
    def test_a_patient_on_both_sides_of_a_split(self, bench, tmp_path):
        rows = [f"s{n:02d},{'test' if n in (5, 6, 7) else 'train'}" for n in range(24)]
        (tmp_path / "split.csv").write_text("slide_id,split\n" + "\n".join(rows) + "\n")
        split = [{"name": "p", "fit": "split", "split": "split.csv"}]
        said = str(failure(bench("bovw", protocol=split)))
        assert "patient 'p02' is in training and in test (slides 's04' and 's05')" in said
        assert not bench({"use": "bovw", "words": 2}, protocol=split, guards={"patients": False}).failed

    def test_a_slide_under_two_names(self, bench, toy_bags_file):
        arrays = dict(np.load(toy_bags_file))
        rows = np.flatnonzero(arrays["bag"] == 3)
        copy = rows[::-1]  # in another order, as another tool might write them
        kept = arrays["bag"] != 20
        arrays["x"] = np.concatenate([arrays["x"][kept], arrays["x"][copy]])
        arrays["bag"] = np.concatenate([arrays["bag"][kept], np.full(len(copy), 20)])
        np.savez(toy_bags_file, **arrays)
        with pytest.raises(SlideseekError, match=r"'s03' of patient 'p01' and 's20' of patient 'p10' are identical"):
            bench()
        assert not bench(guards={"duplicates": False}).failed

    def test_a_file_under_two_names(self):
        records = tuple(SlideRecord(name, "", patient=f"patient {name}") for name in ("a", "b", "c"))
        same = {"a": "md5:1", "b": "md5:2", "c": "md5:1"}
        dataset = Dataset("d", records, {}, {name: name for name in "abc"}, same, "", 1)
        with pytest.raises(
            SlideseekError, match="'a' of patient 'patient a' and 'c' of patient 'patient c' are byte-id"
        ):
            check_duplicates(dataset)
        check_duplicates(dataclasses.replace(dataset, identities={}))

    def test_slides_without_patches_are_no_duplicates(self, bench, toy_bags_file):
        arrays = dict(np.load(toy_bags_file))
        kept = ~np.isin(arrays["bag"], (3, 20))
        np.savez(toy_bags_file, **arrays | {"x": arrays["x"][kept], "bag": arrays["bag"][kept]})
        assert not bench("yottixel").failed

    def test_two_names_of_one_patients_slide_are_no_leak(self, bench, toy_bags_file):
        arrays = dict(np.load(toy_bags_file))
        arrays["patient"][20] = arrays["patient"][3]
        np.savez(toy_bags_file, **arrays)
        assert not bench().failed

    def test_an_encoder_that_reads_labels(self, bench):
        said = str(failure(bench("ReadsLabels")))
        assert "encoder 'ReadsLabels' of cheats" in said
        assert "reads labels" in said

    def test_an_encoder_that_reads_names(self, bench):
        assert "reads labels: slide 's00' gets another code" in str(failure(bench("ReadsNames")))

    def test_an_encoder_that_learns_from_test_slides(self, bench):
        assert "'LearnsWhileEncoding' of cheats -" in str(failure(bench("LearnsWhileEncoding")))

    def test_ids_are_hidden_even_with_the_guard_off(self, bench, tmp_path):
        """An encoder that looks labels up finds nothing: it does no better than the honest one."""
        found = []
        for encoder in ("ReadsLabels", "Honest"):
            summary = bench(encoder, guards={"labels": False})
            assert not summary.failed
            key = summary.plans[0].key
            found.append((tmp_path / "out" / "cells" / key / "hits.csv").read_bytes())
        assert found[0] == found[1]

    def test_an_honest_encoder_passes(self, bench):
        assert not bench().failed


def test_an_encoder_learns_from_training_slides_alone(bench, toy_bags_file):
    """Every fold is given other patients than it asks with, and labels of these slides only."""
    SEEN.clear()
    assert not bench("Spy", protocol=[{"name": "v", "folds": 3}]).failed
    arrays = np.load(toy_bags_file)
    sums = {round(float(arrays["x"][arrays["bag"] == n].sum()), 3): n for n in range(24)}
    folds = [{sums[round(total, 3)] for total in fold} for fold in SEEN]
    assert [len(fold) for fold in folds] == [16, 16, 16]
    out = [set(range(24)) - fold for fold in folds]
    assert sorted(n for fold in out for n in fold) == list(range(24))
    assert all({n ^ 1 for n in fold} == fold for fold in out), "both slides of a patient are left out together"


def test_a_leak_shows_in_the_control(bench, tmp_path, write_toys, toy_bags_file):
    """With its guard off, a patient on both sides lets an encoder recognise the patient and recall the label."""
    arrays = dict(np.load(write_toys(toy_bags_file, patients=30, split=True)))
    rng = np.random.default_rng(1)
    centres = rng.normal(scale=20, size=(30, arrays["x"].shape[1]))  # slides of one patient look alike
    arrays["x"] = (centres[arrays["bag"] // 2] + rng.normal(size=arrays["x"].shape)).astype(np.float32)
    sound = [{"name": "sound", "mode": "vertical", "fit": "split"}]
    np.savez(toy_bags_file, **arrays)
    (verdict,) = bench("Memoriser", control=True, protocol=sound).verdicts.values()
    assert verdict.at_chance, str(verdict)
    arrays["split"] = np.array(["train", "test"] * 30)
    np.savez(toy_bags_file, **arrays)
    assert "is in training and in test" in str(next(iter(bench("Memoriser", protocol=sound).failed.values())))
    (verdict,) = bench("Memoriser", control=True, protocol=sound, guards={"patients": False}).verdicts.values()
    assert not verdict.at_chance, str(verdict)
    assert verdict.observed > 0.9


@pytest.mark.parametrize(
    ("index", "why"),
    [
        ("IgnoresTheMask", "a slide that this search excludes"),
        ("FindsTwice", "twice"),
        ("Descends", "at rank 2, after"),
        ("FindsStrangers", "a slide it does not hold"),
        ("FindsTooMany", "2 hits for k = 1"),
        ("HasNoDistance", "returned the distance nan at rank 1"),
        ("LosesSlides", "was given 24 slides and lists 23 more"),
    ],
)
def test_an_index_is_not_trusted(bench, index, why):
    error = failure(bench(index=index, protocol=[{"name": "h", "mode": "horizontal"}]))
    assert isinstance(error, PluginError)
    assert f"index {index!r} of cheats" in error.cause
    assert why in error.cause


@pytest.mark.parametrize("probed", [True, False])
@pytest.mark.parametrize(("encoder", "why"), [("BreaksItsPromise", "returned a wrong code"), ("Crashes", "oops")])
def test_an_encoder_is_not_trusted(bench, encoder, why, probed):
    error = failure(bench(encoder, guards={"labels": probed}))
    assert isinstance(error, PluginError)
    assert f"encoder {encoder!r} of cheats" in error.cause
    assert why in error.cause
    assert "'s00'" in error.cause


def test_a_slide_that_cannot_be_encoded_finds_nothing_and_is_not_found(bench, tmp_path, toy_bags_file):
    from slideseek_apps.bench.results import read_cells

    sizes = np.bincount(np.load(toy_bags_file)["bag"])
    small = {f"s{n:02d}" for n in np.flatnonzero(sizes == 4)}
    assert small
    assert not bench("GivesUpOnOne").failed
    (cell,) = read_cells(tmp_path / "out")
    queries = cell.hits()
    assert {query.query_id for query in queries if not query.hits} == small
    assert not {hit.slide_id for query in queries for hit in query.hits} & small
    assert len(queries) == 24
