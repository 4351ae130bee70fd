"""Codes that a build computes in batches are those of one slide at a time, and a bad slide is named."""

from dataclasses import dataclass

import numpy as np
import pytest

import slideseek
from slideseek.archive.archive import Archive
from slideseek.building import encoding as building
from slideseek.errors import EmptyBagError, SlideseekError
from slideseek.hookspecs import hookimpl
from slideseek.indexing.stage_cache import StageCache
from slideseek.interfaces import BatchEncoder
from slideseek.plugins import load_registry
from slideseek.types import Bag, Code, CodeSpec

CONFIG = """
[[engine]]
name       = "batched"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "batched" }
index      = { use = "cosine" }
"""

calls: list[list[str]] = []
bad: set[str] = set()


@dataclass
class Batched(BatchEncoder):
    """The mean of the features, one bag or several at a time."""

    def spec(self, width: int) -> CodeSpec:
        return CodeSpec("float", width)

    def encode(self, bag: Bag) -> Code:
        if not len(bag):
            raise EmptyBagError(bag.slide_id)
        if bag.slide_id in bad:
            raise SlideseekError("this slide is bad", "leave it out")
        return Code(bag.slide_id, np.asarray(bag.features.mean(axis=0, keepdims=True), np.float32))

    def encode_many(self, bags) -> list[Code]:
        if not bags[0].slide_id.startswith("toy-"):  # the bags an engine is tried with when it is made
            calls.append([bag.slide_id for bag in bags])
        return [self.encode(bag) for bag in bags]


class Plugin:
    @hookimpl
    def register_encoders(self, register):
        register("batched", f"{__name__}:Batched", "the mean, in batches")


@pytest.fixture
def opened(tiny_archive, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, Batched.__module__, sys.modules[__name__])
    (tiny_archive / "slideseek.toml").write_text(CONFIG)
    calls.clear()
    bad.clear()
    with Archive(tiny_archive) as archive:
        yield slideseek.OpenArchive(archive, load_registry(extra=[("batches", Plugin())]))


def codes(opened):
    engine = opened.searcher().engine
    settings = StageCache(opened.archive, print).settings_digest(engine, "encode")
    return {slide: payload.data for slide, payload in opened.archive.catalog.codes(settings)}


def test_a_build_encodes_in_batches_with_the_codes_of_one_at_a_time(opened, monkeypatch):
    monkeypatch.setattr(building, "ENCODE_BATCH", 3)
    opened.build()
    assert [len(call) for call in calls] == [3, 3, 2]
    together = codes(opened)
    with opened.archive.catalog.transaction():
        for payload in list(
            opened.archive.catalog.codes(
                StageCache(opened.archive, print).settings_digest(opened.searcher().engine, "encode")
            )
        ):
            opened.archive.catalog.drop_payload(payload[1].key)
    monkeypatch.setattr(building, "ENCODE_BATCH", 1)
    opened.build()
    assert codes(opened) == together and len(together) == 8


def test_a_batch_holds_a_bounded_number_of_features(opened, monkeypatch):
    monkeypatch.setattr(building, "ENCODE_BYTES", 1)
    opened.build()
    assert not calls, "batches of one slide are encoded alone"
    assert len(codes(opened)) == 8


def test_the_bad_slide_of_a_batch_is_named_and_the_others_are_kept(opened):
    bad.add("s3")
    summary = opened.build()
    assert {name: report.cause for name, report in summary.failures.items()} == {"s3": "this slide is bad"}
    assert len(codes(opened)) == 7
