"""The rows of `python -m bench.all_encoders`: every bundled encoder of features, with its defaults or preset `best`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bench.encoder_codes import SHARED, Entry, Once
from bench.encoder_entries import deep, recommended
from slideseek.interfaces import Encoder, Trainable
from slideseek.types import Bag
from slideseek_components.encoders.attention_mil import AttentionMil
from slideseek_components.encoders.bovw import Bovw
from slideseek_components.encoders.c_gmm_fv import ConditionedGmmFisher
from slideseek_components.encoders.deep_sets import DeepSets
from slideseek_components.encoders.deep_sfv import DeepSparseFisherVector
from slideseek_components.encoders.focal_attention import FocalAttention
from slideseek_components.encoders.gmm_fv import GmmFisher
from slideseek_components.encoders.max import Max
from slideseek_components.encoders.mean import Mean
from slideseek_components.encoders.memory_set import MemorySet
from slideseek_components.encoders.projected import Projected
from slideseek_components.encoders.prototypes import Prototypes
from slideseek_components.encoders.vlad import Vlad
from slideseek_components.encoders.yottixel import Yottixel

CONDITIONED = ("c-gmm-fv",)
"""Encoders whose codes are comparable within a site only: slides of a site they were not fitted on have no code."""


class OnceWithLabels(Once):
    """An encoder that several rows contain and that learns from labels, which are the same for all of these rows."""

    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        key = (repr(self.encoder), *(bag.slide_id for bag in bags))
        if any(other[1:] != key[1:] for other in SHARED):
            SHARED.clear()
        if key not in SHARED:
            self.encoder.fit(bags, labels, groups)
            SHARED[key] = self.encoder, {}
        self.key = key


ROWS: dict[str, Callable[[int], Encoder]] = {
    "yottixel": lambda seed: Yottixel(),
    "mean": lambda seed: Mean(l2=True),
    "max": lambda seed: Max(l2=True),
    "bovw": lambda seed: Bovw(seed=seed),
    "vlad": lambda seed: Vlad(seed=seed),
    "gmm-fv": lambda seed: Once(GmmFisher(seed=seed)),
    "c-gmm-fv": lambda seed: ConditionedGmmFisher(seed=seed),
    "deep-fv, not projected": lambda seed: deep(seed),
    "deep-fv": lambda seed: Projected(of=deep(seed), bits=0, seed=seed),
    "deep-sfv": lambda seed: DeepSparseFisherVector(preset="best", seed=seed, device="cpu"),
    # At preset `best` these two have no loss of their own: the same network, projected, as 5,000 bits.
    "deep-bfv and deep-sbfv": lambda seed: Projected(of=deep(seed), seed=seed),
    "mean, projected": lambda seed: Projected(of=Mean(), seed=seed),
    "gmm-fv, projected": lambda seed: Projected(of=Once(GmmFisher(seed=seed)), seed=seed),
    "recommended": lambda seed: recommended(seed),
    "prototypes, as published": lambda seed: Prototypes(centre=False, prior=0.01, seed=seed),
    "prototypes": lambda seed: Once(Prototypes(seed=seed)),
    "prototypes, projected": lambda seed: Projected(of=Once(Prototypes(seed=seed)), seed=seed),
    "deep-sets": lambda seed: _trained(DeepSets(seed=seed, device="cpu")),
    "deep-sets, projected": lambda seed: _projected(DeepSets(seed=seed, device="cpu")),
    "attention-mil": lambda seed: _trained(AttentionMil(seed=seed, device="cpu")),
    "attention-mil, projected": lambda seed: _projected(AttentionMil(seed=seed, device="cpu")),
    "memory-set": lambda seed: _trained(MemorySet(seed=seed, device="cpu")),
    "memory-set, projected": lambda seed: _projected(MemorySet(seed=seed, device="cpu")),
    "focal-attention": lambda seed: _trained(FocalAttention(seed=seed, device="cpu")),
    "focal-attention, projected": lambda seed: _projected(FocalAttention(seed=seed, device="cpu")),
}
"""Name of a row -> the encoder for a seed. Projected rows have 5,000 bits; the others have floats, unless they say."""


def entries() -> list[Entry]:
    """Return the rows in the order of the table."""
    return [_entry(name, make) for name, make in ROWS.items()]


def revisions(encoder: object) -> Iterator[str]:
    """Yield what decides the codes of an encoder apart from its options: the revisions of it and of those in it."""
    encoder = encoder.encoder if isinstance(encoder, Once) else encoder
    yield f"{type(encoder).__name__} {getattr(encoder, 'code_revision', 0)}"
    inner = getattr(encoder, "of", ())
    for part in inner if isinstance(inner, tuple) else (inner,):
        yield from revisions(part)


def _trained(encoder: Trainable) -> Encoder:
    return OnceWithLabels(encoder)


def _projected(encoder: Trainable) -> Encoder:
    return Projected(of=OnceWithLabels(encoder), seed=getattr(encoder, "seed", 0))


def _entry(name: str, make: Callable[[int], Encoder]) -> Entry:
    return Entry(name, lambda seed, labels: make(seed))
