"""The checks for training: what a trainable encoder learns, saves and restores.

An encoder that is not trainable passes them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import overload

from slideseek.errors import NotFittedError, SlideseekError
from slideseek.interfaces import Encoder, Trainable, implements
from slideseek.testing.checks import Make, require, require_error
from slideseek.testing.code_equality import require_same_code
from slideseek.testing.stored_files import require_no_pickle
from slideseek.testing.toys import toy_bags
from slideseek.types import Bag, Code

MODEL_SUFFIXES = (".safetensors", ".json", ".npy", ".csv")


class LazyBags(Sequence[Bag]):
    """Bags as an archive provides them: read when indexed, read-only, a new object each time."""

    def __init__(self, bags: Sequence[Bag]) -> None:
        self._bags = bags

    def __len__(self) -> int:
        return len(self._bags)

    @overload
    def __getitem__(self, position: int) -> Bag: ...

    @overload
    def __getitem__(self, position: slice) -> LazyBags: ...

    def __getitem__(self, position: int | slice) -> Bag | LazyBags:
        if isinstance(position, slice):
            return LazyBags(self._bags[position])
        bag = self._bags[position]
        features, xy = bag.features.copy(), bag.xy.copy()
        features.setflags(write=False)
        xy.setflags(write=False)
        return Bag(bag.slide_id, features, xy, bag.site)


def fitted(make: Make, width: int) -> Encoder:
    """Return a fresh encoder, fitted on toy bags of that feature width if it is trainable."""
    encoder: Encoder = make()
    if implements(encoder, Trainable):
        bags, labels, groups = toy_bags(width=width)
        encoder.fit(LazyBags(bags), labels, groups)
    return encoder


def encode(encoder: Encoder, bag: Bag) -> Code:
    """Encode one bag and require that the result is a Code."""
    code = encoder.encode(bag)
    require(
        isinstance(code, Code),
        "encode() to return slideseek.types.Code",
        type(code).__name__,
        "build it with Code(bag.slide_id, rows), rows being uint8 or float32 of two dimensions",
    )
    return code


def training_checks() -> tuple[Callable[..., None], ...]:
    """Return the checks for training; each takes `make` and the feature `width` of the toy bags."""
    return (
        unfitted_is_refused,
        fitting_keeps_the_options,
        unknown_labels_are_understood,
        another_width_is_refused,
        saved_encoder_encodes_alike,
        saved_files_hold_no_pickle,
    )


def unfitted_is_refused(make: Make, width: int) -> None:
    """A trainable encoder raises NotFittedError if it encodes or saves before it is fitted."""
    encoder = make()
    if not implements(encoder, Trainable):
        return
    bag = toy_bags(width=width).bags[0]
    fix = f"raise NotFittedError({type(encoder).__name__!r}) while the learnt state is missing"
    require_error(partial(encoder.encode, bag), (NotFittedError,), "from encode() before fit()", fix)
    with tempfile.TemporaryDirectory() as folder:
        require_error(partial(encoder.save, Path(folder)), (NotFittedError,), "from save() before fit()", fix)


def fitting_keeps_the_options(make: Make, width: int) -> None:
    """Fitting does not change options: a fitted encoder equals a fresh one."""
    fresh, trained = make(), fitted(make, width)
    require(
        fresh == trained and repr(fresh) == repr(trained),
        f"unchanged options, {fresh!r}",
        repr(trained),
        "store learnt state in fields declared field(init=False, repr=False, compare=False)",
    )


def unknown_labels_are_understood(make: Make, width: int) -> None:
    """`fit` accepts bags with unknown labels (""), or raises SlideseekError because it needs labels."""
    encoder = make()
    if not implements(encoder, Trainable):
        return
    bags, labels, groups = toy_bags(width=width)
    partly = tuple("" if number % 3 == 0 else label for number, label in enumerate(labels))
    for given in (partly, ("",) * len(bags)):
        try:
            encoder.fit(LazyBags(bags), given, groups)
        except SlideseekError:
            continue
        encode(encoder, bags[0])


def another_width_is_refused(make: Make, width: int) -> None:
    """A fitted encoder raises SlideseekError for features of a different width from those it was fitted on."""
    encoder = fitted(make, width)
    if not implements(encoder, Trainable):
        return
    other = toy_bags(seed=1, width=width + 3).bags[0]
    require_error(
        partial(encoder.encode, other),
        (SlideseekError,),
        f"for {width + 3} features from an encoder fitted on {width}",
        "compare bag.width with the width learnt in fit() and name both",
    )


def saved_encoder_encodes_alike(make: Make, width: int) -> None:
    """An encoder restored by `load` gives exactly the codes of the saved one."""
    encoder, restored = fitted(make, width), make()
    if not implements(encoder, Trainable):
        return
    with tempfile.TemporaryDirectory() as folder:
        encoder.save(Path(folder))
        restored.load(Path(folder))
        pairs = [(encode(encoder, bag), encode(restored, bag)) for bag in toy_bags(seed=1, width=width).bags]
    for expected, got in pairs:
        require_same_code(
            expected,
            got,
            "the codes of the saved encoder from the restored one",
            "write everything that fit() learnt, in its own precision, and restore all of it in load()",
        )


def saved_files_hold_no_pickle(make: Make, width: int) -> None:
    """`save` writes safetensors, JSON, NumPy or CSV files and never a pickle."""
    encoder = fitted(make, width)
    if not implements(encoder, Trainable):
        return
    with tempfile.TemporaryDirectory() as folder:
        encoder.save(Path(folder))
        require_no_pickle(Path(folder), MODEL_SUFFIXES)
