"""Many queries at once find exactly what one at a time finds."""

import pytest

from slideseek.archive.archive import Archive
from slideseek.searching.searcher import Searcher


@pytest.fixture(params=["bars", "mean"])
def searcher(request, tiny_archive):
    with Archive(tiny_archive) as archive:
        yield Searcher.open(archive, request.param)


@pytest.mark.parametrize("k", [1, 3, 99])
@pytest.mark.parametrize("mode", ["horizontal", "vertical"])
@pytest.mark.parametrize("where", [(), ("age>=52",)])
@pytest.mark.parametrize("exclude_center", [False, True])
def test_the_same_as_one_by_one(searcher, k, mode, where, exclude_center):
    queries = [searcher.queries.stored(slide_id) for slide_id in searcher.index.ids]
    together = searcher.search_many(queries, k, mode, where, exclude_center)
    for query, answer in zip(queries, together, strict=True):
        alone = searcher.search(query, k, mode, where, exclude_center=exclude_center)
        assert [one.hit for one in answer.found] == [one.hit for one in alone.found]
        assert (answer.candidates, answer.votes, answer.notes) == (alone.candidates, alone.votes, alone.notes)


def test_an_index_without_batches_is_searched_one_by_one(searcher, monkeypatch):
    queries = [searcher.queries.stored(slide_id) for slide_id in searcher.index.ids]
    expected = [[one.hit for one in answer.found] for answer in searcher.search_many(queries, 3)]

    class Plain:
        """The same index without `search_many`."""

        def __init__(self, index):
            self._index = index

        def search(self, *given):
            return self._index.search(*given)

        @property
        def ids(self):
            return self._index.ids

    monkeypatch.setattr(searcher._live, "index", searcher.index.with_inner(Plain(searcher.index.inner)))
    assert [[one.hit for one in answer.found] for answer in searcher.search_many(queries, 3)] == expected


def test_nothing_masked_takes_the_path_without_a_mask(searcher, monkeypatch):
    seen = []
    real = type(searcher.index).search

    def search(self, code, k, among=None):
        seen.append(among)
        return real(self, code, k, among)

    monkeypatch.setattr(type(searcher.index), "search", search)
    query = searcher.queries.stored("s0")
    searcher.search(query, 3, include_same_patient=True)
    searcher.search(query, 3)
    assert seen[0] is None and seen[1] is not None
