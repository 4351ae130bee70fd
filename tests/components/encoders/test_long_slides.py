"""A slide with very many patches is read piece by piece from its file."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

from slideseek.interfaces import Trainable, implements
from slideseek.types import Bag
from slideseek_components.encoders.bovw import Bovw
from slideseek_components.encoders.c_gmm_fv import ConditionedGmmFisher
from slideseek_components.encoders.deep_fv import DeepFisherVector
from slideseek_components.encoders.deep_sbfv import DeepSparseBinaryFisherVector
from slideseek_components.encoders.focal_attention import FocalAttention
from slideseek_components.encoders.max import Max
from slideseek_components.encoders.mean import Mean
from slideseek_components.encoders.memory_set import MemorySet
from slideseek_components.encoders.prototypes import Prototypes
from slideseek_components.encoders.vlad import Vlad
from slideseek_components.encoders.yottixel import Yottixel

pytestmark = pytest.mark.slow

WIDTH, SHORT, LONG = 64, 2_000, 40_000
DEEP: dict[str, Any] = {"hidden": (8,), "latent": 3, "sites": 0, "labels": 0, "epochs": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    path = tmp_path_factory.mktemp("features") / "long.npy"
    features = np.lib.format.open_memmap(path, "w+", dtype=np.float32, shape=(LONG, WIDTH))
    features[:] = np.random.default_rng(0).normal(size=(LONG, WIDTH))
    features.flush()
    return np.load(path, mmap_mode="r")


@pytest.mark.parametrize(
    "encoder",
    [
        Yottixel(),
        Mean(),
        Max(),
        Bovw(4),
        Vlad(4),
        ConditionedGmmFisher(4),
        DeepFisherVector(**DEEP),
        DeepSparseBinaryFisherVector(bits=20, **DEEP),
        Prototypes(4),
        MemorySet(epochs=1, hidden=(8,), device="cpu"),
        FocalAttention(epochs=1, hidden=(8,), device="cpu"),
    ],
    ids=lambda encoder: type(encoder).__name__,
)
def test_memory_does_not_grow_with_the_slide(encoder, mapped):
    def bag(rows):
        return Bag("long", mapped[:rows], np.zeros((rows, 2), dtype=np.int32), "lung")

    if implements(encoder, Trainable):
        encoder.fit([bag(300), bag(400)], ["x", "y"], ["p", "q"])
    encoder.encode(bag(300))
    peaks = []
    for rows in (SHORT, LONG):
        slide = bag(rows)
        tracemalloc.start()
        encoder.encode(slide)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # A patch is 256 bytes; its place in the order, with what sorting needs, is at most 40, a barcode 8.
    assert peaks[1] - peaks[0] < 48 * (LONG - SHORT)
