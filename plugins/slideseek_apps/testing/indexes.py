"""The checks for searching an index. Every check runs on every code format the index accepts.

The checks for adding, removing and saving are in `slideseek_apps.testing.index_storage`.
"""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from slideseek.errors import SlideseekError
from slideseek.interfaces import (
    BatchIndex,
    FiltersRows,
    KeptElsewhere,
    MeasuresRows,
    MeasuresSets,
    ShiftsDistances,
    StatesExactness,
    implements,
)
from slideseek.options import changed_copy, query_options
from slideseek.types import Code, CodeSpec, Float64
from slideseek_apps.testing.checks import Check, Make, demand, having, prepared, require, require_error
from slideseek_apps.testing.components import component_checks, other_values
from slideseek_apps.testing.hit_lists import (
    CLOSE,
    Codes,
    accepted_specs,
    every_spec,
    filled,
    on_every_spec,
    require_row_distances,
    require_same_hits,
    search,
    shown,
)
from slideseek_apps.testing.index_elsewhere import (
    changed_records_are_saved,
    discarded_save_is_gone,
    earlier_save_stays_readable,
    filters_equal_the_mask,
)
from slideseek_apps.testing.index_storage import storage_checks
from slideseek_apps.testing.toys import toy_codes

REFUSALS = (ValueError, SlideseekError)


def index_checks() -> tuple[Check, ...]:
    """Return all checks for an index."""
    return component_checks("index") + prepared(
        refusals_give_a_reason,
        *on_every_spec(
            slides_find_themselves,
            distances_ascend,
            large_k_gives_every_slide,
            small_k_gives_the_first_hits,
            k_below_one_is_refused,
            ties_are_ordered_by_id,
            mask_is_obeyed,
            empty_mask_gives_no_hits,
            mask_of_wrong_length_is_refused,
            spaces_are_kept_apart,
        ),
        *having(MeasuresRows, row_distances_are_those_of_search),
        *having(MeasuresSets, set_distance_is_that_of_search),
        *having(BatchIndex, *on_every_spec(batch_equals_one_by_one)),
        *having(StatesExactness, *on_every_spec(exact_hits_are_the_nearest)),
        *having(KeptElsewhere, earlier_save_stays_readable, discarded_save_is_gone),
        *having(FiltersRows, filters_equal_the_mask, changed_records_are_saved),
        *on_every_spec(query_options_store_nothing, empty_index_gives_no_hits, searching_changes_nothing),
        *storage_checks(),
    )


def refusals_give_a_reason(make: Make) -> None:
    """`refuses` returns "" for at least one code format, and a reason for every other."""
    answers = {str(spec): make().refuses(spec) for spec in every_spec()}
    for spec, answer in answers.items():
        fix = "return a sentence that states what the index can store"
        passed = isinstance(answer, str) and (answer == "" or len(answer.strip()) > 3)
        require(passed, f'refuses({spec}) to return "" or a reason', repr(answer), fix)
    fix = 'return "" from refuses() for the specs the index supports'
    demand("" in answers.values(), f"none of {', '.join(answers)} accepted", fix)


def slides_find_themselves(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """Each slide is its own nearest hit, at distance 0 (floats: nearly 0)."""
    index = filled(make, codes)
    for code in codes:
        hits = search(index, code, 1)
        allowed = 0.0 if spec.kind == "bits" else CLOSE
        fix = "return distance 0 for equal codes, and the smallest distance first"
        passed = len(hits) == 1 and hits[0].slide_id == code.slide_id and abs(hits[0].distance) <= allowed
        require(passed, f"{code.slide_id!r} at distance 0 for its own code of {spec}", shown(hits), fix)


def distances_ascend(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """Hits are ordered nearest first, with finite distances that are not negative."""
    for query in toy_codes(spec, seed=1, n=5, prefix="query"):
        hits = search(filled(make, codes), query, 20)
        distances = [hit.distance for hit in hits]
        fix = "return distances, not similarities, and sort them ascending"
        passed = all(a <= b for a, b in itertools.pairwise(distances)) and bool(np.isfinite(distances).all())
        require(passed, f"finite distances in ascending order for codes of {spec}", shown(hits), fix)
        fix = "turn a similarity s into 1 - s, and clip rounding errors below 0"
        require(not distances or distances[0] >= -CLOSE, "distances of at least 0", shown(hits), fix)


def large_k_gives_every_slide(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """A k above the number of slides gives every slide once."""
    hits = search(filled(make, codes), codes[0], len(codes) + 7)
    fix = "use min(k, number of candidates), and drop the filler entries some libraries return"
    passed = sorted(hit.slide_id for hit in hits) == [code.slide_id for code in codes]
    require(passed, f"each of {len(codes)} slides once for k = {len(codes) + 7}", shown(hits), fix)


def small_k_gives_the_first_hits(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """A smaller k gives the first hits of a larger one."""
    index, query = filled(make, codes), toy_codes(spec, seed=1, n=1, prefix="query")[0]
    everything = search(index, query, 20)
    for k in (1, 2, 7):
        fix = "cut the list after ordering by distance and id; a partial sort alone loses ties at the cut"
        require_same_hits(everything[:k], search(index, query, k), f"the first {k} of all hits for k = {k}", fix)


def k_below_one_is_refused(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """k = 0 and k = -1 raise ValueError."""
    index = filled(make, codes)
    for k in (0, -1):
        fix = 'start search() with: if k < 1: raise ValueError(f"k: at least 1, not {k}")'
        require_error(partial(index.search, codes[0], k), REFUSALS, f"for k = {k}", fix)


def ties_are_ordered_by_id(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """Equal codes are ordered by slide id, for any order of adding and any k."""
    others = toy_codes(spec, n=9)
    twins = [replace(others[4], slide_id=f"slide-{name}") for name in ("zz", "9", "10", "aa", "Z")]
    expected = sorted(code.slide_id for code in (others[4], *twins))
    index = filled(make, [twins[0], *others[:3], twins[1], *others[3:], *twins[2:]])
    for k in (len(index.ids), len(expected), 3, 1):
        hits = search(index, others[4], k)
        fix = "order by (distance, slide id), and give equal codes exactly equal distances"
        want = f"slides with equal codes of {spec} in the order of their ids, k = {k}: {expected[:k]}"
        require([hit.slide_id for hit in hits][: len(expected)] == expected[:k], want, shown(hits), fix)


def mask_is_obeyed(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """`among` keeps the hits of an unmasked search whose entry is true, in the same order."""
    index, query = filled(make, codes), toy_codes(spec, seed=1, n=1, prefix="query")[0]
    everything = search(index, query, 20)
    for share in (0.1, 0.5, 0.9):
        among = np.random.default_rng(5).random(len(index.ids)) < share
        among[3] = True
        chosen = {slide_id for slide_id, kept in zip(index.ids, among) if kept}
        fix = "drop the others before taking the k nearest; entry i of the mask belongs to ids[i]"
        require_same_hits(
            [hit for hit in everything if hit.slide_id in chosen],
            search(index, query, 20, among),
            f"the {len(chosen)} slides of the mask and no others",
            fix,
        )


def empty_mask_gives_no_hits(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """A mask without a true entry gives no hits and no error."""
    hits = search(filled(make, codes), codes[0], 3, np.zeros(len(codes), dtype=np.bool_))
    require(hits == [], "no hits for an empty mask", shown(hits), "return [] if no candidate is left")


def mask_of_wrong_length_is_refused(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """A mask without exactly one entry per slide raises ValueError."""
    index = filled(make, codes)
    for length in (len(codes) - 1, len(codes) + 1):
        fix = "compare among.shape with (len(self.ids),): a shifted mask would return the wrong slides"
        require_error(
            partial(index.search, codes[0], 3, np.ones(length, dtype=np.bool_)),
            (*REFUSALS, IndexError),
            f"for a mask of {length} entries over {len(codes)} slides",
            fix,
        )


def spaces_are_kept_apart(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """Codes with a different space from the query's are never hits."""
    kidney = toy_codes(spec, seed=2, n=6, space="kidney", prefix="kidney")
    liver = toy_codes(spec, seed=3, n=8, space="liver", prefix="liver")
    index = filled(make, [code for pair in zip(kidney, liver) for code in pair] + list(liver[6:]))
    for query, own in ((kidney[0], kidney), (liver[7], liver)):
        hits = search(index, query, 20)
        fix = "store Code.space with each code and compare it with the query's"
        passed = sorted(hit.slide_id for hit in hits) == [code.slide_id for code in own]
        require(passed, f"the {len(own)} slides of space {query.space!r} and no others", shown(hits), fix)
    hits = search(index, replace(kidney[0], space="lung"), 3)
    require(hits == [], "no hits in a space without codes", shown(hits), "return [] if no candidate is left")


def row_distances_are_those_of_search(make: Make) -> None:
    """`row_distances` equals the distance that `search` returns for codes of one row; the distance has a name."""
    for spec in accepted_specs(make):
        query, target = (
            Code("rows", np.concatenate([code.rows for code in toy_codes(spec, seed=seed, n=3)])) for seed in (1, 2)
        )
        index, between = filled(make, toy_codes(spec)), _row_distances(make, query, target)
        require_row_distances(index, query.rows, target.rows, between, f"codes of {spec}")


def set_distance_is_that_of_search(make: Make) -> None:
    """For an index of sets, `set_distance` of the row distances equals the distance that `search` returns."""
    for spec in (spec for spec in accepted_specs(make) if spec.many):
        codes, query = toy_codes(spec, n=6), toy_codes(spec, seed=1, n=1, prefix="query")[0]
        index: Any = filled(make, codes)
        found = {hit.slide_id: hit.distance for hit in search(index, query, len(codes))}
        for code in codes:
            between = _row_distances(make, query, code)
            expected = found[code.slide_id] - (index.shift(code.slide_id) if implements(index, ShiftsDistances) else 0)
            got: Any = index.set_distance(between)  # a plugin may return anything
            fix = "compute it in one function, called by both search() and set_distance(); query rows come first"
            want = f"{expected:g}, the distance of {code.slide_id!r} in a search with codes of {spec}"
            rows = f"{got!r} from the distances of {between.shape[0]} query rows to {between.shape[1]} target rows"
            require(isinstance(got, float) and abs(got - expected) <= CLOSE, want, rows, fix)


def _row_distances(make: Make, query: Code, target: Code) -> Float64:
    """Return the distance of every query row to every target row, float64 (query rows, target rows).

    The index itself measures them, so it may use any distance: the distance of two one-row sets is that of the rows.
    """
    rows = [Code(f"row-{number:02d}", row[None]) for number, row in enumerate(target.rows)]
    index = filled(make, rows)
    between = np.empty((len(query.rows), len(rows)))
    for row, out in zip(query.rows, between):
        found = {hit.slide_id: hit.distance for hit in search(index, Code("query", row[None]), len(rows))}
        out[:] = [found[code.slide_id] for code in rows]
    return between


def batch_equals_one_by_one(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """`search_many` returns the hits of `search` for every query, in order, and obeys the mask."""
    index: Any = filled(make, codes)
    queries, odd = toy_codes(spec, seed=1, n=7, prefix="query"), np.arange(len(codes)) % 2 == 1
    for batch, among in itertools.product((queries[:0], queries[:1], queries[::-1]), (None, odd, ~odd)):
        found = index.search_many(batch, 4, among)
        fix = "search once per query, with its space and the mask, and keep the order of the queries"
        require(len(found) == len(batch), f"{len(batch)} lists of hits", f"{len(found)} lists", fix)
        for query, hits in zip(batch, found):
            require_same_hits(search(index, query, 4, among), hits, f"the hits of search() for {query.slide_id!r}", fix)


def exact_hits_are_the_nearest(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """`exact` is true or false; if true, the hits are the nearest of all codes by the index's own distance."""
    index: Any = filled(make, codes)
    exact = index.exact  # a plugin may return anything
    require(isinstance(exact, bool), "exact to be true or false", repr(exact), "return a bool")
    measured = exact and not spec.many and implements(make(), MeasuresRows)
    for query in toy_codes(spec, seed=1, n=5, prefix="query") if measured else ():
        apart = index.row_distances(query.rows, np.concatenate([code.rows for code in codes]))[0]
        hits = search(index, query, 5)
        fix = "compare every candidate, or return false from exact"
        passed = bool(np.allclose([hit.distance for hit in hits], np.sort(apart)[:5], atol=CLOSE))
        require(passed, f"the 5 nearest of all codes, at {np.sort(apart)[:5].round(4).tolist()}", shown(hits), fix)


def query_options_store_nothing(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """What an index stores does not depend on options that may be given with a query, nor do they outlive it."""
    query = toy_codes(spec, seed=1, n=1, prefix="query")[0]
    for name in query_options(make()):
        for other in other_values(make(), name):
            index, tuned = filled(make, codes), partial(replace, make(), **{name: other})
            before, expected = search(index, query, 5), search(filled(tuned, codes), query, 5)
            what, fix = f"the hits of an index made with {name} = {other!r}", "read the option in search() alone"
            require_same_hits(expected, search(changed_copy(index, {name: other}), query, 5), what, fix)
            with tempfile.TemporaryDirectory() as folder:
                index.save(Path(folder))
                loaded = tuned()
                loaded.load(Path(folder))
                require_same_hits(expected, search(loaded, query, 5), f"{what}, from stored codes", fix)
            require_same_hits(before, search(index, query, 5), "the former hits afterwards", fix)


def empty_index_gives_no_hits(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """An index without codes returns no hits: a fresh one, and one whose slides were all removed."""
    for index in (make(), filled(make, codes[:3])):
        index.remove(list(index.ids))
        hits = search(index, codes[0], 3)
        fix = "return [] if there is nothing to search"
        demand(hits == [] and len(index.ids) == 0, f"{shown(hits)} and {len(index.ids)} ids", fix)


def searching_changes_nothing(make: Make, spec: CodeSpec, codes: Codes) -> None:
    """A search does not change the index, the query or the mask, and gives the same hits again."""
    index, query = filled(make, codes), toy_codes(spec, seed=1, n=1, prefix="query")[0]
    query = replace(query, rows=query.rows.copy())
    rows, among = query.rows.copy(), np.arange(len(index.ids)) % 2 == 0
    kept, ids, nbytes = among.copy(), list(index.ids), index.nbytes
    first = search(index, query, 5, among)
    fix = "work on copies"
    demand(np.array_equal(query.rows, rows) and np.array_equal(among, kept), "changed values after search()", fix)
    search(index, toy_codes(spec, seed=2, n=1)[0], 3)
    require_same_hits(first, search(index, query, 5, among), "the same hits again", "keep no state in search()")
    fix = "add nothing to the index in search()"
    passed = list(index.ids) == ids and index.nbytes == nbytes
    demand(passed, f"{len(index.ids)} ids and {index.nbytes} bytes, were {len(ids)} and {nbytes}", fix)
