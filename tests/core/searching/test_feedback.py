"""Relevance feedback: codes are merged as documented, rejected slides push their like back."""

import numpy as np
import pytest

from slideseek.errors import UsageError
from slideseek.searching.feedback import merge_codes, more_like_these
from slideseek.types import Code, CodeSpec


def code(rows, dtype=np.float32):
    return Code("s", np.array(rows, dtype=dtype))


def test_floats_become_the_mean_direction():
    merged = merge_codes([code([[2.0, 0.0]]), code([[0.0, 5.0]]), code([[0.0, 0.0]])], CodeSpec("float", 2))
    np.testing.assert_allclose(merged.rows, [[1 / 3, 1 / 3]], rtol=1e-6)


def test_bits_take_the_majority_and_the_query_decides_a_tie():
    spec = CodeSpec("bits", 4)
    query, other, third = (code([[bits]], np.uint8) for bits in (0b10100000, 0b01100000, 0b01000000))
    assert merge_codes([query, other], spec).rows.tolist() == [[0b10100000]]
    assert merge_codes([query, other, third], spec).rows.tolist() == [[0b01100000]]


def test_sets_are_united():
    spec = CodeSpec("bits", 8, many=True)
    merged = merge_codes([code([[1], [2]], np.uint8), code([[3]], np.uint8)], spec)
    assert merged.rows.tolist() == [[1], [2], [3]]


@pytest.fixture
def searcher(tiny_archive):
    from slideseek.archive.archive import Archive
    from slideseek.plugins import load_registry
    from slideseek.searching.searcher import Searcher

    with Archive(tiny_archive) as archive:
        registry = load_registry()
        yield {e.name: Searcher.open(archive, e.name, registry) for e in archive.config.engines}


def test_marks_move_the_hits(searcher):
    for one in searcher.values():
        query = one.queries.stored("s0")  # a coarse one
        plain = [f.hit.slide_id for f in one.search(query, 7).found]
        answer = more_like_these(one, query, ["s1"], [], k=7)
        found = [f.hit.slide_id for f in answer.found]
        assert set(found) == set(plain) - {"s1"}, "marked slides are not found again"
        assert [f.rank for f in answer.found] == list(range(1, 7))
        # Rejecting the coarse slides brings the fine ones to the front, which are last for the query alone.
        rejected = more_like_these(one, query, ["s1"], ["s2", "s4", "s6"], k=7)
        assert {f.record.label for f in rejected.found} == {"fine"}
        pushed = more_like_these(one, query, ["s1"], ["s2"], k=7)
        distances = {f.hit.slide_id: f.hit.distance for f in answer.found}
        assert any(f.hit.distance > distances[f.hit.slide_id] for f in pushed.found)
        assert all(f.hit.distance >= distances[f.hit.slide_id] for f in pushed.found)
        # The documented rule, computed by hand from the two distances.
        candidate = pushed.found[0].hit.slide_id
        near = {h.slide_id: h.distance for h in one.index.search(one.queries.stored("s2").code, 8)}[candidate]
        d = distances[candidate]
        assert pushed.found[0].hit.distance == pytest.approx(d + max(0.0, d - near))
        with pytest.raises(UsageError, match="both relevant and not"):
            more_like_these(one, query, ["s1"], ["s1"], k=3)
