"""The rows of `python -m bench.encoders`: the encoders compared, and the recommended one."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bench.encoder_codes import Entry, Once
from slideseek.interfaces import Encoder
from slideseek.types import Bag, Code, CodeSpec
from slideseek_components.encoders.bovw import Bovw
from slideseek_components.encoders.deep_fv import DeepFisherVector
from slideseek_components.encoders.deep_sbfv import DeepSparseBinaryFisherVector
from slideseek_components.encoders.gmm_fv import GmmFisher
from slideseek_components.encoders.joined import Joined
from slideseek_components.encoders.max import Max
from slideseek_components.encoders.mean import Mean
from slideseek_components.encoders.projected import Projected
from slideseek_components.encoders.vlad import Vlad
from slideseek_components.encoders.yottixel import Yottixel

BITS = (64, 128, 512, 1024, 5000, 40_000)
RIVALS = ("yottixel", "mean", "gmm-fv", "deep-sbfv old best 5000 bits")
RECOMMENDED = "recommended"
SHORT = 1024
"""Codes up to this many bits are best made by learnt rotations: random planes need more to tell angles apart."""

OLD_BEST: dict[str, Any] = {
    "preset": "paper",
    "sites": 0,
    "hidden": (128, 64, 32),
    "latent": 32,
    "standardise": True,
    "clip": 5.0,
    "lambda_kl": 0.1,
    "epochs": 60,
    "layers": ("decoder",),
    "selection": "separation",
}
"""What preset `best` was before: the signs of the 5,000 decoder gradients that separate the classes best."""


def old_best(seed: int, labels: int) -> Encoder:
    """Return deep-sbfv as preset `best` was."""
    return DeepSparseBinaryFisherVector(seed=seed, labels=labels, bits=5000, device="cpu", **OLD_BEST)


def deep(seed: int, shared: bool = True) -> Encoder:
    """Return the float code of the deep encoders' preset `best`, before it is projected; shared: by several rows."""
    made = DeepFisherVector(preset="best", projection="none", seed=seed, device="cpu")
    return Once(made) if shared else made


WEIGHTS = {"deep": 1.0, "words": 0.5, "spread": 0.3}
"""The parts of the recommended encoder and their weights."""


def parts_of(seed: int, shared: bool = False) -> dict[str, Encoder]:
    """Return the parts of the recommended encoder by name: the deep code, 16 Gaussians, one Gaussian."""
    return {
        "deep": deep(seed, shared),
        "words": GmmFisher(components=16, pca=64, patches=20_000, seed=seed),
        "spread": GmmFisher(components=1, patches=20_000, power=False, l2=False, seed=seed),
    }


def recommended(seed: int, shared: bool = True, **options: Any) -> Projected:
    """Return the recommended encoder: the parts side by side, projected."""
    joined = Joined(of=tuple(parts_of(seed, shared).values()), weights=tuple(WEIGHTS.values()))
    return Projected(of=Once(joined) if shared else joined, seed=seed, **options)


@dataclass
class Chance(Encoder):
    """A code that says nothing: numbers drawn from the name of the slide."""

    seed: int = 0
    name: ClassVar[str] = "chance"

    def spec(self, width: int) -> CodeSpec:
        """Return one row of floats."""
        return CodeSpec("float", 64)

    def encode(self, bag: Bag) -> Code:
        """Return random floats, whatever the patches."""
        rng = np.random.default_rng([self.seed, *bag.slide_id.encode()])
        return Code(bag.slide_id, rng.standard_normal((1, 64)).astype(np.float32))


def alone(seed: int) -> Encoder:
    """Return the recommended encoder with nothing of the unprojected code beside."""
    return recommended(seed, unprojected=0.0)


def deep_bits(seed: int, bits: int) -> Encoder:
    """Return what preset `best` of deep-sbfv does, on the network that other rows share."""
    return Projected(of=deep(seed), bits=bits, seed=seed)


def gmm_bits(seed: int) -> Encoder:
    """Return gmm-fv as it comes, projected to 5,000 bits."""
    return Projected(of=GmmFisher(seed=seed), seed=seed)


def entries(changes: tuple[str, ...] = ()) -> list[Entry]:
    """Return the rows in the order of the table.

    changes: TOML text each, a row more of the recommended encoder with options changed, such as `by = "site"`.
    """
    rows = [
        Entry("chance", lambda seed, labels: Chance(seed)),
        Entry("yottixel", lambda seed, labels: Yottixel()),
        Entry("mean", lambda seed, labels: Mean(l2=True)),
        Entry("max", lambda seed, labels: Max(l2=True)),
        Entry("bovw", lambda seed, labels: Bovw(seed=seed)),
        Entry("vlad", lambda seed, labels: Vlad(seed=seed)),
        Entry("gmm-fv", lambda seed, labels: GmmFisher(seed=seed)),
        Entry("gmm-fv K = 16, PCA 64", lambda seed, labels: GmmFisher(components=16, pca=64, seed=seed)),
        Entry(RIVALS[3], old_best),
        Entry("deep-fv best, not projected", lambda seed, labels: deep(seed)),
        # What preset `best` of deep-sbfv does, on the network that other rows share; a test shows that bits agree.
        Entry("deep-sbfv best 5000 bits", lambda seed, labels: deep_bits(seed, 5000)),
        Entry("deep-sbfv best 512 bits", lambda seed, labels: deep_bits(seed, 512)),
        Entry("mean, projected, 5000 bits", lambda seed, labels: Projected(of=Mean(), seed=seed)),
        Entry("gmm-fv, projected, 5000 bits", lambda seed, labels: gmm_bits(seed)),
        Entry(f"{RECOMMENDED}, without labels", lambda seed, labels: recommended(seed, projection="none")),
        Entry(f"{RECOMMENDED}, shuffled labels", lambda seed, labels: recommended(seed), shuffled=True),
        Entry(f"{RECOMMENDED}, projection alone, shuffled labels", lambda seed, labels: alone(seed), shuffled=True),
        *_controls(RECOMMENDED, recommended),
        *_controls("projection alone", alone),
        Entry(f"{RECOMMENDED}, learnt rotations", lambda seed, labels: recommended(seed, binarise="itq")),
        Entry(f"{RECOMMENDED}, 512 random planes", lambda seed, labels: recommended(seed, bits=512)),
        Entry(f"{RECOMMENDED}, floats", lambda seed, labels: recommended(seed, bits=0)),
    ]
    rows += [_of_bits(bits) for bits in BITS]
    return rows + [_changed(change) for change in changes]


def _controls(name: str, make: Callable[[int], Encoder]) -> list[Entry]:
    """Return a row that is fitted on shuffled labels and judged by them, and what it would score if it knew nothing."""
    name = f"control, {name}"
    return [
        Entry(name, lambda seed, labels: make(seed), shuffled=True, control=True),
        Entry(f"{name}, queries swapped", lambda seed, labels: make(seed), True, control=True, dealt_again=name),
    ]


def _of_bits(bits: int) -> Entry:
    kind = "itq" if bits <= SHORT else "hyperplanes"
    return Entry(f"{RECOMMENDED} {bits} bits", lambda seed, labels: recommended(seed, bits=bits, binarise=kind))


def _changed(change: str) -> Entry:
    options = tomllib.loads(change.replace(";", "\n"))
    return Entry(f"{RECOMMENDED}, {change}", lambda seed, labels: recommended(seed, **options))
