"""Fill an index, search it and compare the hits: the common steps of the index checks."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from slideseek.interfaces import Index
from slideseek.types import Code, CodeSpec, Float64, Hit, Mask
from slideseek_apps.testing.checks import Check, Make, require
from slideseek_apps.testing.toys import toy_codes

Codes: TypeAlias = tuple[Code, ...]

CLOSE = 1e-5
"""Allowed difference of two distances between float codes, whose rows have unit length in the toy data."""

_WIDTHS = (37, 64)  # one that needs padding bits and one that does not


def every_spec() -> tuple[CodeSpec, ...]:
    """Return the code formats the checks try: each kind, single and many, in two widths."""
    kinds = ("float", "bits", "sparse")
    return tuple(CodeSpec(*form) for form in itertools.product(kinds, _WIDTHS, (False, True)))  # type: ignore[arg-type]


def accepted_specs(make: Make) -> list[CodeSpec]:
    """Return the code formats that the index accepts; at least one."""
    specs = [spec for spec in every_spec() if make().refuses(spec) == ""]
    require(bool(specs), "an index that accepts some code format", "none accepted", 'return "" from refuses()')
    return specs


def on_every_spec(*functions: Callable[[Make, CodeSpec, Codes], None]) -> tuple[Check, ...]:
    """Turn functions into checks that run on every code format the index accepts, each with toy codes of it."""
    return tuple(_on_every_spec(function) for function in functions)


def _on_every_spec(function: Callable[[Make, CodeSpec, Codes], None]) -> Check:
    @functools.wraps(function)
    def check(make: Make) -> None:
        for spec in accepted_specs(make):
            function(make, spec, toy_codes(spec))

    return check


def filled(make: Make, codes: Sequence[Code]) -> Index:
    """Return a fresh index with `codes`, added in one call."""
    index: Index = make()
    index.add(codes)
    return index


def search(index: Index, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
    """Search and require a list of hits, at most k of them, no slide twice."""
    hits: Any = index.search(code, k, among)  # a plugin may return anything
    fix = "build Hit(slide_id, distance) with a plain float"
    passed = isinstance(hits, list) and all(isinstance(hit, Hit) for hit in hits)
    require(passed, "search() to return a list of slideseek.types.Hit", repr(hits)[:80], fix)
    fix = "cut the list at k, and merge the rows of a set into one hit"
    passed = len(hits) <= k and len({hit.slide_id for hit in hits}) == len(hits)
    require(passed, f"at most {k} hits, no slide twice", shown(hits), fix)
    found: list[Hit] = hits
    return found


def require_same_hits(expected: Sequence[Hit], got: Sequence[Hit], what: str, fix: str) -> None:
    """Require the same slides in the same order at the same distances, floats within `CLOSE`."""
    same = len(expected) == len(got) and all(
        a.slide_id == b.slide_id and abs(a.distance - b.distance) <= CLOSE for a, b in zip(expected, got)
    )
    require(same, f"{what}: {shown(expected)}", shown(got), fix)


def require_row_distances(measure: Any, query: Any, target: Any, expected: Float64, what: str) -> None:
    """Require a short name of the distance, and the expected distances (n, m) of n query rows to m target rows."""
    name = measure.distance_name
    short = isinstance(name, str) and 0 < len(name.strip()) <= 40 and "\n" not in name
    require(short, "distance_name to be a short text", repr(name), 'return words for people, such as "differing bits"')
    got = measure.row_distances(query, target)
    shaped = isinstance(got, np.ndarray) and got.dtype == np.float64 and got.shape == expected.shape
    fix = "compute row distances in one function that is used for both; query rows come first"
    want = f"float64 {expected.shape} from row_distances(), as measured between {what}: {expected[0].round(4).tolist()}"
    found = f"{got.dtype} {got.shape} {got[:1].round(4).tolist()}" if isinstance(got, np.ndarray) else repr(got)
    require(shaped and bool(np.allclose(got, expected, atol=CLOSE)), want, found, fix)


def shown(hits: Sequence[Hit]) -> str:
    """Format the first six hits for a message."""
    listed = ", ".join(f"{hit.slide_id} {hit.distance:g}" for hit in hits[:6])
    return f"[{listed}{', ...' if len(hits) > 6 else ''}]" + (f" ({len(hits)} hits)" if len(hits) > 6 else "")
