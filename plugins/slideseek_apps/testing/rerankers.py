"""The checks for rerankers, on bags of toy features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slideseek.interfaces import Featurizer, MeasuresRows, MeasuresSets
from slideseek.types import Bag, Float64
from slideseek_apps.testing.checks import Check, Make, having, prepared, require
from slideseek_apps.testing.components import component_checks
from slideseek_apps.testing.encoders import rows_of, toys_of
from slideseek_apps.testing.hit_lists import CLOSE, require_row_distances
from slideseek_apps.testing.training import LazyBags, Toys

WIDTH = 16
"""Feature width of the toy bags."""


def reranker_checks(width: int = WIDTH, featurizer: Featurizer | None = None) -> tuple[Check, ...]:
    """Return all checks for a reranker.

    width: feature width of the toy bags. featurizer: one whose features of toy images are used instead.
    """
    on_bags = (
        distances_are_well_formed,
        bag_is_nearest_to_itself,
        distance_depends_on_the_pair_alone,
        order_of_the_patches_does_not_matter,
        candidates_are_read_one_at_a_time,
        same_bags_same_distances,
        bags_are_left_alone,
        *having(MeasuresRows, row_distances_are_those_of_patches),
        *having(MeasuresSets, set_distance_is_that_of_bags),
    )
    toys = toys_of((width,), featurizer)[0]
    return component_checks("reranker") + prepared(depth_is_positive) + prepared(*on_bags, toys=toys)


def depth_is_positive(make: Make) -> None:
    """`depth` is a positive integer: how many of the nearest slides are compared."""
    depth: Any = make().depth  # a plugin may return anything
    fix = "declare depth: int = 100 as an option, and check its range in __post_init__"
    require(type(depth) is int and depth > 0, "depth to be an int of at least 1", repr(depth), fix)


def distances_are_well_formed(make: Make, toys: Toys) -> None:
    """`distances` returns finite float64 (candidates,), also for one candidate, one patch and none."""
    bags = toys(seed=1).bags
    small = rows_of(bags[0], slice(1))
    for query, candidates in ((bags[0], bags), (small, bags[:1]), (bags[1], (small,)), (bags[0], ())):
        _distances(make(), query, candidates)


def bag_is_nearest_to_itself(make: Make, toys: Toys) -> None:
    """No slide is nearer to a bag than the bag itself."""
    bags = toys(seed=1).bags
    for number, bag in enumerate(bags):
        found = _distances(make(), bag, bags)
        fix = "return distances, not similarities: smaller is more similar"
        passed = bool(found[number] <= found.min() + CLOSE)
        want = f"the smallest distance for {bag.slide_id!r} itself"
        require(passed, want, f"{found[number]:g}, and {found.min():g} for {bags[int(found.argmin())].slide_id!r}", fix)


def distance_depends_on_the_pair_alone(make: Make, toys: Toys) -> None:
    """The distance of two bags does not depend on their ids, the other candidates or the order of these."""
    reranker, bags = make(), toys(seed=1).bags
    together = _distances(reranker, bags[0], bags)
    renamed = [replace(bag, slide_id=f"other-{number}") for number, bag in enumerate(bags)]
    alone = np.concatenate([_distances(reranker, bags[0], [bag]) for bag in renamed])
    fix = "compare the query with each candidate by itself: no ranks, and no mean or scale over the candidates"
    _require_close(together, alone, "the same distances from each candidate alone", fix)
    _require_close(together[::-1], _distances(reranker, bags[0], bags[::-1]), "distances in the order given", fix)


def order_of_the_patches_does_not_matter(make: Make, toys: Toys) -> None:
    """Bags with their patches in another order have the same distances."""
    reranker, bags = make(), toys(seed=1).bags
    turned = [rows_of(bag, np.arange(len(bag))[::-1]) for bag in bags]
    fix = "compare sets: use minima, medians and sums over patches"
    what = "the same distances"
    _require_close(_distances(reranker, bags[0], bags), _distances(reranker, turned[0], turned), what, fix)


def candidates_are_read_one_at_a_time(make: Make, toys: Toys) -> None:
    """Candidates are read when indexed and are not all kept in memory."""
    bags = LazyBags(toys(seed=1, count=24).bags)
    _distances(make(), bags[0], bags)
    fix = "loop over the candidates and keep only their distances: a hundred slides may fill the memory"
    require(bags.most <= len(bags) // 2, "a few bags in memory at a time", f"{bags.most} of {len(bags)}", fix)


def same_bags_same_distances(make: Make, toys: Toys) -> None:
    """The same bags have exactly the same distances again, also from a fresh reranker and after other bags."""
    reranker, bags = make(), toys(seed=1).bags
    first = _distances(reranker, bags[0], bags)
    _distances(reranker, bags[1], bags[:4])
    fix = "keep no state in distances(), and seed random numbers from an option in every call"
    for again in (reranker, make()):
        _require_close(first, _distances(again, bags[0], bags), "the same distances again", fix, 0.0)


def bags_are_left_alone(make: Make, toys: Toys) -> None:
    """`distances` does not write into the bags."""
    bags = [replace(bag, features=bag.features.copy(), xy=bag.xy.copy()) for bag in toys(seed=1).bags]
    make().distances(bags[0], bags[1:])
    same = all(
        np.array_equal(a.features, b.features) and np.array_equal(a.xy, b.xy) for a, b in zip(bags, toys(seed=1)[0])
    )
    require(same, "the bags unchanged", "changed features or coordinates", "work on copies")


def row_distances_are_those_of_patches(make: Make, toys: Toys) -> None:
    """`row_distances` of features equals the distance of bags of one patch; the distance has a name."""
    query, target = toys(seed=1).bags[:2]
    single = [rows_of(target, [row]) for row in range(len(target))]
    between = [_distances(make(), rows_of(query, [row]), single) for row in range(len(query))]
    require_row_distances(make(), query.features, target.features, np.stack(between), "bags of one patch")


def set_distance_is_that_of_bags(make: Make, toys: Toys) -> None:
    """`set_distance` of the distances between patches equals the distance of the bags."""
    reranker, bags = make(), toys(seed=1).bags
    between = (reranker.row_distances(bags[0].features, bag.features) for bag in bags)
    got = np.array([float(reranker.set_distance(apart)) for apart in between])
    fix = "compute the distance of two sets in one function, called by both; query rows come first"
    _require_close(_distances(reranker, bags[0], bags), got, "the distances of the bags from set_distance()", fix)


def _distances(reranker: Any, query: Bag, candidates: Sequence[Bag]) -> Float64:
    found = reranker.distances(query, candidates)
    is_array = isinstance(found, np.ndarray)
    fix = "return one float64 per candidate, np.zeros(0) without candidates"
    passed = is_array and found.dtype == np.float64 and found.shape == (len(candidates),) and np.isfinite(found).all()
    got = f"{found.dtype} {found.shape} {found[:4]}" if is_array else type(found).__name__
    require(bool(passed), f"distances() to return {len(candidates)} finite numbers, float64", got, fix)
    values: Float64 = found
    return values


def _require_close(expected: Float64, got: Float64, what: str, fix: str, close: float = CLOSE) -> None:
    worst = float(np.abs(expected - got).max(initial=0))
    require(worst <= close, what, f"a difference of {worst:.2g}", fix)
