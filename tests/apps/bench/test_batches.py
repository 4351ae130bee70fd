"""Batches: used where encoders and indexes offer them, their answers checked, and a failure names its slide."""

import dataclasses
import json

import numpy as np
import pytest

from slideseek.errors import PluginError, SlideseekError
from slideseek.hookspecs import hookimpl
from slideseek.interfaces import BatchEncoder
from slideseek.types import Bag, Code, CodeSpec
from slideseek_apps.bench.encoding import BATCH_SLIDES
from slideseek_apps.bench.results import read_cells
from slideseek_components.indexes.cosine import Cosine

SIZES: list[int] = []
"""The size of every batch that was encoded or searched."""


@dataclasses.dataclass
class Single:
    """The mean of the features, one bag at a time."""

    def spec(self, width: int) -> CodeSpec:
        return CodeSpec("float", width)

    def encode(self, bag: Bag) -> Code:
        return Code(bag.slide_id, bag.features.mean(axis=0)[None].astype(np.float32))


class Together(Single, BatchEncoder):
    """The same, many bags at a time."""

    def encode_many(self, bags):
        SIZES.append(len(bags))
        return [self.encode(bag) for bag in bags]


class GivesUpOnOne(Together):
    """Refuse slides with exactly four patches."""

    def encode(self, bag: Bag) -> Code:
        if len(bag) == 4:
            raise SlideseekError(f"slide {bag.slide_id!r} is too small")
        return super().encode(bag)


class CrashesOnOne(Together):
    def encode(self, bag: Bag) -> Code:
        if len(bag) == 4:
            raise ZeroDivisionError("oops")
        return super().encode(bag)


class ReturnsTooFew(Together):
    def encode_many(self, bags):
        return super().encode_many(bags)[1:]


class ReturnsNothing(Together):
    def encode_many(self, bags):
        return None


class Reverses(Together):
    def encode_many(self, bags):
        return super().encode_many(bags)[::-1]


class LearnsFromTheBatch(Together):
    """Centre every slide on the slides it comes with."""

    def encode_many(self, bags):
        codes = super().encode_many(bags)
        mean = np.mean([code.rows for code in codes], axis=0)
        return [dataclasses.replace(code, rows=code.rows - mean) for code in codes]


@dataclasses.dataclass
class Counts(Cosine):
    """Exact cosine that counts the queries it gets at once."""

    def search_many(self, codes, k, among=None):
        if not codes[0].slide_id.startswith("toy-"):  # the codes an index is tried with before the benchmark runs
            SIZES.append(len(codes))
        return super().search_many(codes, k, among)


@dataclasses.dataclass
class CannotBatch(Cosine):
    def search_many(self, codes, k, among=None):
        if codes[0].slide_id.startswith("toy-"):
            return super().search_many(codes, k, among)
        raise MemoryError


@dataclasses.dataclass
class LosesAnswers(Cosine):
    def search_many(self, codes, k, among=None):
        return super().search_many(codes, k, among)[1:]


@dataclasses.dataclass
class FindsOthers(Cosine):
    def search_many(self, codes, k, among=None):
        return [hits[1:] for hits in super().search_many(codes, k, among)]


@dataclasses.dataclass
class IgnoresTheMask(Cosine):
    def search_many(self, codes, k, among=None):
        return super().search_many(codes, k)


ENCODERS = [Single, Together, GivesUpOnOne, CrashesOnOne, ReturnsTooFew, ReturnsNothing, Reverses, LearnsFromTheBatch]
INDEXES = [Counts, CannotBatch, LosesAnswers, FindsOthers, IgnoresTheMask]
SPLIT = [{"name": "s", "fit": "split"}]
HORIZONTAL = [{"name": "h", "mode": "horizontal"}]


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
def bench(run_with):
    def run(encoder="Single", index=None, **more):
        SIZES.clear()
        return run_with(Plugin(), encoder, index, **more)

    return run


def hits(tmp_path, summary):
    return (tmp_path / "out" / "cells" / summary.plans[0].key / "hits.csv").read_bytes()


def failure(summary) -> SlideseekError:
    error: SlideseekError
    (error,) = summary.failed.values()
    return error


class TestEncoding:
    def test_batches_are_bounded_and_change_nothing(self, bench, tmp_path, write_toys, toy_bags_file):
        write_toys(toy_bags_file, patients=20)
        alone, together = bench("Single"), bench("Together")
        assert not alone.failed
        assert not together.failed
        assert SIZES == [BATCH_SLIDES, 40 - BATCH_SLIDES]
        assert hits(tmp_path, alone) == hits(tmp_path, together)

    def test_large_bags_make_small_batches(self, bench, monkeypatch):
        monkeypatch.setattr("slideseek_apps.bench.encoding.BATCH_BYTES", 1)
        assert not bench("Together").failed
        assert SIZES == [1] * 24

    def test_slides_of_a_batch_share_its_time(self, bench, tmp_path, monkeypatch):
        clock = iter(range(10_000))
        monkeypatch.setattr("slideseek_apps.bench.encoding.time.perf_counter", lambda: next(clock))
        bench("Together", guards={"labels": False})
        (cell,) = read_cells(tmp_path / "out")
        assert cell.times["encode_ms_per_slide"] == pytest.approx(1000 / 24)

    def test_a_slide_that_fails_is_named_and_the_rest_of_its_batch_is_encoded(self, bench, tmp_path, toy_bags_file):
        small = {f"s{n:02d}" for n in np.flatnonzero(np.bincount(np.load(toy_bags_file)["bag"]) == 4)}
        assert small
        assert not bench("GivesUpOnOne").failed
        (cell,) = read_cells(tmp_path / "out")
        assert {query.query_id for query in cell.hits() if not query.hits} == small
        record = json.loads((cell.folder / "cell.json").read_text())
        assert record["not_encoded"] == {name: f"slide {name!r} is too small" for name in sorted(small)}

    def test_a_crash_names_the_slide(self, bench, toy_bags_file):
        first = np.flatnonzero(np.bincount(np.load(toy_bags_file)["bag"]) == 4)[0]
        error = failure(bench("CrashesOnOne", guards={"labels": False}))
        assert isinstance(error, PluginError)
        assert f"failed in encode() for 's{first:02d}' (ZeroDivisionError: oops)" in error.cause

    @pytest.mark.parametrize(
        ("encoder", "why"),
        [
            ("ReturnsTooFew", "returned 23 answers from encode_many() for 24 slides"),
            ("ReturnsNothing", "returned NoneType instead of a list from encode_many()"),
            ("Reverses", "returned a code of 's23' for 's00'"),
            ("LearnsFromTheBatch", "returned other codes from encode_many() than from encode() for 's00'"),
        ],
    )
    def test_a_batch_that_is_not_what_single_slides_give_is_named(self, bench, encoder, why):
        error = failure(bench(encoder))
        assert isinstance(error, PluginError)
        assert f"encoder {encoder!r} of cheats -" in error.cause
        assert why in error.cause


class TestSearching:
    def test_queries_with_one_mask_are_searched_together(self, bench, tmp_path, write_toys, toy_bags_file):
        write_toys(toy_bags_file, split=True)
        plain = bench(protocol=SPLIT)
        counted = bench(index="Counts", protocol=SPLIT)
        assert SIZES == [4, 4], "test patients are not in the index: all queries of a site share a mask"
        assert hits(tmp_path, plain) == hits(tmp_path, counted)

    def test_slides_of_one_patient_share_a_mask(self, bench, tmp_path):
        plain, counted = bench(protocol=HORIZONTAL), bench(index="Counts", protocol=HORIZONTAL)
        assert SIZES == [2] * 12
        assert hits(tmp_path, plain) == hits(tmp_path, counted)

    def test_batches_are_bounded(self, bench, write_toys, toy_bags_file, monkeypatch):
        monkeypatch.setattr("slideseek_apps.bench.retrieval.BATCH_QUERIES", 3)
        write_toys(toy_bags_file, split=True)
        assert not bench(index="Counts", protocol=SPLIT).failed
        assert SIZES == [3, 3], "one query of each site is left, and is searched alone"

    def test_queries_of_a_batch_share_its_time(self, bench, tmp_path, write_toys, toy_bags_file, monkeypatch):
        write_toys(toy_bags_file, split=True)
        clock = iter(range(10_000))
        monkeypatch.setattr("slideseek_apps.bench.retrieval.time.perf_counter", lambda: next(clock))
        assert not bench(index="Counts", protocol=SPLIT).failed
        (cell,) = read_cells(tmp_path / "out")
        assert cell.times["search_ms_median"] == pytest.approx(1000 / 4)

    def test_a_batch_that_fails_is_searched_one_by_one(self, bench, tmp_path):
        plain, slow = bench(protocol=HORIZONTAL), bench(index="CannotBatch", protocol=HORIZONTAL)
        assert not slow.failed
        assert hits(tmp_path, plain) == hits(tmp_path, slow)

    @pytest.mark.parametrize(
        ("index", "why"),
        [
            ("LosesAnswers", "returned 1 answers from search_many() for 2 slides"),
            ("FindsOthers", "returned other hits from search_many() than from search()"),
            ("IgnoresTheMask", "a slide that this search excludes"),
        ],
    )
    def test_a_batch_that_is_not_what_single_queries_find_is_named(self, bench, index, why):
        error = failure(bench(index=index, protocol=HORIZONTAL))
        assert isinstance(error, PluginError)
        assert f"index {index!r} of cheats -" in error.cause
        assert why in error.cause

    def test_unknown_centres_are_left_out_of_each_other(self, bench, tmp_path, toy_bags_file):
        """With leave_out = "center", an unknown centre counts as one centre."""
        arrays = dict(np.load(toy_bags_file))
        arrays["center"][:4] = ""
        np.savez(toy_bags_file, **arrays)
        assert not bench(protocol=[{"name": "c", "mode": "horizontal", "leave_out": "center", "k": 30}]).failed
        (cell,) = read_cells(tmp_path / "out")
        unknown = {"s00", "s01", "s02", "s03"}
        found = {query.query_id: {hit.slide_id for hit in query.hits} for query in cell.hits()}
        assert all(not found[name] & unknown and len(found[name]) == 20 for name in unknown)
