"""Each check of a reranker passes correct toys and catches one made wrong on purpose."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from slideseek.interfaces import Fingerprinted, MeasuresSets
from slideseek.types import Bag, Float64
from slideseek_apps.testing import CheckFailed, reranker_checks


@dataclass
class MeanDistance:
    """Distance of the mean features.

    depth: slides to compare.
    """

    depth: int = 100
    seed: int = 0

    def distances(self, query: Bag, candidates: Sequence[Bag]) -> Float64:
        return np.array([self.distance(query, bag) for bag in candidates], dtype=np.float64)

    def distance(self, query: Bag, bag: Bag) -> float:
        means = [one.features.astype(np.float64).mean(axis=0) for one in (query, bag)]
        return float(np.abs(means[0] - means[1]).sum())


@dataclass
class MedianOfMinima(MeanDistance, MeasuresSets):
    """Median of the distances of the query's patches to their nearest patch."""

    @property
    def distance_name(self) -> str:
        return "city-block distance"

    def row_distances(self, query: np.ndarray, target: np.ndarray) -> Float64:
        return np.asarray(np.abs(query[:, None].astype(np.float64) - target[None]).sum(axis=2))

    def set_distance(self, between: Float64) -> float:
        return float(np.median(between.min(axis=1)))

    def distance(self, query: Bag, bag: Bag) -> float:
        between = np.abs(query.features[:, None].astype(np.float64) - bag.features[None]).sum(axis=2)
        return float(np.median(between.min(axis=1)))


@dataclass
class NoDepth:
    def distances(self, query: Bag, candidates: Sequence[Bag]) -> Float64:
        return np.zeros(len(candidates))


class NotADataclass:
    depth = 3
    distances = MeanDistance.distances
    distance = MeanDistance.distance


@dataclass
class RandomSeedOption(MeanDistance):
    seed: int = field(default_factory=itertools.count().__next__)


@dataclass
class Undescribed(MeanDistance):
    """Distance of the means. depth: slides to compare."""

    least: float = 0.5


@dataclass
class RevisionInWords(MeanDistance):
    code_revision = "2nd"


@dataclass
class NewFingerprint(MeanDistance, Fingerprinted):
    def fingerprint(self) -> str:
        return f"made at {id(self)}"


@dataclass
class NothingDeep(MeanDistance):
    depth: int = 0


@dataclass
class ListOfDistances(MeanDistance):
    def distances(self, query: Bag, candidates: Sequence[Bag]) -> Any:
        return MeanDistance.distances(self, query, candidates).tolist()


@dataclass
class NotANumber(MeanDistance):
    def distance(self, query: Bag, bag: Bag) -> float:
        return MeanDistance.distance(self, query, bag) if len(bag) > 1 else float("nan")


@dataclass
class Similarity(MeanDistance):
    def distance(self, query: Bag, bag: Bag) -> float:
        return -MeanDistance.distance(self, query, bag)


@dataclass
class RanksTheCandidates(MeanDistance):
    def distances(self, query: Bag, candidates: Sequence[Bag]) -> Float64:
        return np.argsort(np.argsort(MeanDistance.distances(self, query, candidates))).astype(np.float64)


@dataclass
class KnowsTheSlides(MeanDistance):
    def distance(self, query: Bag, bag: Bag) -> float:
        return MeanDistance.distance(self, query, bag) + (bag.slide_id[:3] != query.slide_id[:3])


@dataclass
class SortsTheAnswers(MeanDistance):
    def distances(self, query: Bag, candidates: Sequence[Bag]) -> Float64:
        return np.sort(MeanDistance.distances(self, query, candidates))


@dataclass
class FirstPatch(MeanDistance):
    def distance(self, query: Bag, bag: Bag) -> float:
        return float(np.abs(query.features[0] - bag.features[0]).sum())


@dataclass
class HoldsAll(MeanDistance):
    def distances(self, query: Bag, candidates: Sequence[Bag]) -> Float64:
        return MeanDistance.distances(self, query, list(candidates))


@dataclass
class GlobalRandom(MeanDistance):
    def distance(self, query: Bag, bag: Bag) -> float:
        return MeanDistance.distance(self, query, bag) + 1e-9 * float(np.random.random())


@dataclass
class WritesIntoBags(MeanDistance):
    def distance(self, query: Bag, bag: Bag) -> float:
        if bag.features.flags.writeable:
            bag.features[:] -= 1
        return MeanDistance.distance(self, query, bag)


@dataclass
class NamelessDistance(MedianOfMinima):
    @property
    def distance_name(self) -> str:
        return "a\nb"


@dataclass
class SquaredRowDistances(MedianOfMinima):
    def row_distances(self, query: np.ndarray, target: np.ndarray) -> Float64:
        return MedianOfMinima.row_distances(self, query, target) ** 2


@dataclass
class MeanOfMinima(MedianOfMinima):
    def set_distance(self, between: Float64) -> float:
        return float(between.min(axis=1).mean())


CORRECT = (MeanDistance, MedianOfMinima)

BROKEN = (
    (NoDepth, "interface_is_complete"),
    (NotADataclass, "options_are_fields"),
    (RandomSeedOption, "options_round_trip"),
    (Undescribed, "options_are_described"),
    (RevisionInWords, "declarations_are_well_formed"),
    (NewFingerprint, "fingerprint_is_stable"),
    (NothingDeep, "depth_is_positive"),
    (ListOfDistances, "distances_are_well_formed"),
    (NotANumber, "distances_are_well_formed"),
    (Similarity, "bag_is_nearest_to_itself"),
    (RanksTheCandidates, "distance_depends_on_the_pair_alone"),
    (KnowsTheSlides, "distance_depends_on_the_pair_alone"),
    (SortsTheAnswers, "distance_depends_on_the_pair_alone"),
    (FirstPatch, "order_of_the_patches_does_not_matter"),
    (HoldsAll, "candidates_are_read_one_at_a_time"),
    (GlobalRandom, "same_bags_same_distances"),
    (WritesIntoBags, "bags_are_left_alone"),
    (NamelessDistance, "row_distances_are_those_of_patches"),
    (SquaredRowDistances, "row_distances_are_those_of_patches"),
    (MeanOfMinima, "set_distance_is_that_of_bags"),
)


@pytest.mark.parametrize(
    ("reranker", "check"), list(itertools.product(CORRECT, reranker_checks())), ids=lambda value: value.__name__
)
def test_correct_reranker_passes(reranker: type, check: Callable[..., None]) -> None:
    check(reranker)


@pytest.mark.parametrize(("reranker", "check"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_broken_reranker_is_caught(reranker: type, check: str) -> None:
    named = next(c for c in reranker_checks() if c.__name__ == check)
    with pytest.raises(CheckFailed):
        named(reranker)


def test_every_check_is_proven_to_catch_something() -> None:
    assert {name for _, name in BROKEN} == {check.__name__ for check in reranker_checks()}
