"""Random archives of codes, and the definitions that every index is held to, written as plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import pytest

from slideseek.types import Code, CodeSpec, Hit


def bit_distance(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    return float((int.from_bytes(a.tobytes()) ^ int.from_bytes(b.tobytes())).bit_count())


def cosine_distance(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    x, y = a.tolist(), b.tolist()
    scale = math.sqrt(sum([v * v for v in x])) * math.sqrt(sum([v * v for v in y]))
    cosine = sum([v * w for v, w in zip(x, y)]) / scale if scale else 0.0
    return 1.0 - min(1.0, max(-1.0, float(np.float32(cosine))))


def median_of_min(outer: np.ndarray[Any, Any], inner: np.ndarray[Any, Any]) -> float:
    distance = bit_distance if outer.dtype == np.uint8 else cosine_distance
    return median([min([distance(a, b) for b in inner]) for a in outer])


@dataclass(frozen=True)
class Oracle:
    """Answer searches from the definition alone."""

    direction: str = "query"

    def distance(self, query: Code, target: Code) -> float:
        if self.direction == "query":
            return median_of_min(query.rows, target.rows)
        if self.direction == "target":
            return median_of_min(target.rows, query.rows)
        return (median_of_min(query.rows, target.rows) + median_of_min(target.rows, query.rows)) / 2

    def search(self, held: Sequence[Code], query: Code, k: int, among: Sequence[bool] | None = None) -> list[Hit]:
        wanted = among if among is not None else [True] * len(held)
        near = [code for code, keep in zip(held, wanted, strict=True) if keep and code.space == query.space]
        ranked = sorted((self.distance(query, code), code.slide_id) for code in near)
        return [Hit(slide_id, distance) for distance, slide_id in ranked[:k]]


@pytest.fixture
def oracle() -> type[Oracle]:
    return Oracle


@pytest.fixture
def random_code() -> Callable[..., Code]:
    """Make a random code. Few distinct values, so that duplicates, ties and zero vectors are common."""

    def make(rng: np.random.Generator, spec: CodeSpec, slide_id: str, space: str = "", most_rows: int = 3) -> Code:
        count = int(rng.integers(1, most_rows + 1)) if spec.many else 1
        if spec.kind == "bits":
            bits = rng.random((count, spec.width)) < rng.choice([0.0, 0.1, 0.5])
            return Code(slide_id, np.packbits(bits, axis=1), space)
        values = rng.integers(-2, 3, (count, spec.width)) * (
            rng.random((count, spec.width)) < rng.choice([0.0, 0.3, 1])
        )
        return Code(slide_id, (values * rng.choice([0.5, 1.0, 3.0])).astype(np.float32), space)

    return make
