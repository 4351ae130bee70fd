"""One BLAS thread inside a block: set, restored, and for libraries that are loaded later as well."""

import sys
import types

import sklearn.cluster  # noqa: F401  # loads OpenMP
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from slideseek_components.encoders import blas_threads


def threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info()]


def test_the_setting_ends_with_the_last_block():
    with threadpool_limits(2):
        before = threads()
        with blas_threads.one_blas_thread():
            with blas_threads.one_blas_thread():
                assert set(threads()) == {1}
            assert set(threads()) == {1}
        assert threads() == before
        assert 2 in before


def test_libraries_are_searched_again_after_an_import_only(monkeypatch):
    found = []

    def counted():
        found.append(1)
        return ThreadpoolController()

    monkeypatch.setattr(blas_threads, "ThreadpoolController", counted)
    blas_threads._libraries.cache_clear()
    for _ in range(3):
        with blas_threads.one_blas_thread():
            pass
    assert len(found) == 1
    monkeypatch.setitem(sys.modules, "imported_just_now", types.ModuleType("imported_just_now"))
    with blas_threads.one_blas_thread():
        pass
    assert len(found) == 2
