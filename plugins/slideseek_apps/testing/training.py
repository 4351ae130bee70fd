"""The checks for training: what a trainable encoder learns, saves and restores.

An encoder that is not trainable passes them.
"""

from __future__ import annotations

import contextlib
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from slideseek.errors import NotFittedError, SlideseekError
from slideseek.interfaces import Checkpointed, Encoder, Progress, Trainable, implements
from slideseek.types import Bag, Code
from slideseek_apps.testing.checks import Make, having, require, require_error
from slideseek_apps.testing.code_equality import require_same_code
from slideseek_apps.testing.stored_files import require_no_pickle
from slideseek_apps.testing.toys import ToyBags, frozen, toy_bags

MODEL_SUFFIXES = (".safetensors", ".json", ".npy", ".csv")

TRAINING_PATCHES = 24
"""Fewest patches of a training bag: 12 bags then have more than 256, enough for as many prototypes."""

Toys: TypeAlias = Callable[..., ToyBags]
"""`toy_bags` with the width of the features, or the pool they are drawn from, already chosen."""


class LazyBags(Sequence[Bag]):
    """Bags as an archive provides them: read when indexed, read-only, a new object each time.

    most: how many of them were in memory at the same time.
    """

    def __init__(self, bags: Sequence[Bag]) -> None:
        self._bags, self.most = bags, 0
        self._read: list[weakref.ref[Any]] = []

    def __len__(self) -> int:
        return len(self._bags)

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return LazyBags(self._bags[position])
        bag = self._bags[position]
        bag = replace(bag, features=frozen(bag.features.copy()), xy=frozen(bag.xy.copy()))
        self._read.append(weakref.ref(bag.features))
        self.most = max(self.most, sum(read() is not None for read in self._read))
        return bag


def fitted(make: Make, toys: Toys, folder: str = "", progress: Progress | None = None) -> Encoder:
    """Return a fresh encoder, fitted on toy bags if it is trainable. folder: for checkpoints, "" for none."""
    encoder: Encoder = make()
    if implements(encoder, Trainable):
        bags, labels, groups = toys(patches=TRAINING_PATCHES)
        fit = partial(encoder.fit_in, Path(folder)) if folder and implements(encoder, Checkpointed) else encoder.fit
        fit(LazyBags(bags), labels, groups, *([progress] if folder else []))
    return encoder


def encode(encoder: Encoder, bag: Bag) -> Code:
    """Encode one bag and require that the result is a Code."""
    code = encoder.encode(bag)
    fix = "build it with Code(bag.slide_id, rows), rows being uint8 or float32 of two dimensions"
    require(isinstance(code, Code), "encode() to return slideseek.types.Code", type(code).__name__, fix)
    return code


def require_equal_encoders(expected: Encoder, got: Encoder, toys: Toys, what: str, fix: str) -> None:
    """Require exactly the same codes from two encoders."""
    for bag in toys(seed=1, count=4).bags:
        require_same_code(encode(expected, bag), encode(got, bag), what, fix)


def training_checks() -> tuple[Callable[..., None], ...]:
    """Return the checks for training; each takes `make` and the `toys` to train on."""
    return having(
        Trainable,
        unfitted_is_refused,
        fitting_keeps_the_options,
        unknown_labels_are_understood,
        another_width_is_refused,
        large_bags_are_learnt,
        saved_encoder_encodes_alike,
        saved_files_hold_no_pickle,
    ) + having(Checkpointed, checkpoints_change_nothing, interrupted_training_continues, foreign_checkpoint_is_refused)


def unfitted_is_refused(make: Make, toys: Toys) -> None:
    """A trainable encoder raises NotFittedError if it encodes or saves before it is fitted."""
    encoder = make()
    fix = f"raise NotFittedError({type(encoder).__name__!r}) while the learnt state is missing"
    require_error(partial(encoder.encode, toys().bags[0]), (NotFittedError,), "from encode() before fit()", fix)
    with tempfile.TemporaryDirectory() as folder:
        require_error(partial(encoder.save, Path(folder)), (NotFittedError,), "from save() before fit()", fix)


def fitting_keeps_the_options(make: Make, toys: Toys) -> None:
    """Fitting does not change options: a fitted encoder equals a fresh one."""
    fresh, trained = make(), fitted(make, toys)
    fix = "store learnt state in fields declared field(init=False, repr=False, compare=False)"
    require(fresh == trained and repr(fresh) == repr(trained), f"unchanged options, {fresh!r}", repr(trained), fix)


def unknown_labels_are_understood(make: Make, toys: Toys) -> None:
    """`fit` accepts bags with unknown labels (""), or raises SlideseekError because it needs labels."""
    encoder, (bags, labels, groups) = make(), toys(patches=TRAINING_PATCHES)
    partly = tuple("" if number % 3 == 0 else label for number, label in enumerate(labels))
    for given in (partly, ("",) * len(bags)):
        try:
            encoder.fit(LazyBags(bags), given, groups)
        except SlideseekError:
            continue
        encode(encoder, bags[0])


def another_width_is_refused(make: Make, toys: Toys) -> None:
    """A fitted encoder raises SlideseekError for features of a different width from those it was fitted on."""
    encoder, width = fitted(make, toys), toys(count=1).bags[0].width
    fix = "compare bag.width with the width learnt in fit() and name both"
    what = f"for {width + 3} features from an encoder fitted on {width}"
    require_error(partial(encoder.encode, toy_bags(seed=1, width=width + 3).bags[0]), (SlideseekError,), what, fix)


def large_bags_are_learnt(make: Make, toys: Toys) -> None:
    """An encoder learns from and encodes bags of hundreds of patches, thousands in all."""
    encoder, (bags, labels, groups) = make(), toys(count=8, patches=300)
    encoder.fit(LazyBags(bags), labels, groups)
    mismatch = encode(encoder, bags[0]).mismatch(encoder.spec(bags[0].width))
    require(not mismatch, f"a code of {len(bags[0])} patches", mismatch, "allow any number of patches")


def saved_encoder_encodes_alike(make: Make, toys: Toys) -> None:
    """An encoder restored by `load` gives exactly the codes of the saved one."""
    encoder: Any = fitted(make, toys)
    restored = make()
    fix = "write everything that fit() learnt, in its own precision, and restore all of it in load()"
    with tempfile.TemporaryDirectory() as folder:
        encoder.save(Path(folder))
        restored.load(Path(folder))
        require_equal_encoders(encoder, restored, toys, "the codes of the saved encoder from the restored one", fix)


def saved_files_hold_no_pickle(make: Make, toys: Toys) -> None:
    """`save` writes safetensors, JSON, NumPy or CSV files and never a pickle."""
    encoder: Any = fitted(make, toys)
    with tempfile.TemporaryDirectory() as folder:
        encoder.save(Path(folder))
        require_no_pickle(Path(folder), MODEL_SUFFIXES)


def checkpoints_change_nothing(make: Make, toys: Toys) -> None:
    """`fit_in` gives the codes of `fit`, also in the folder of a finished training, and leaves a log there."""
    epochs: list[Mapping[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for again in ("", " again, in the folder of a finished training"):
            got = fitted(make, toys, folder, epochs.append)
            fix = "make fit() and fit_in() run the same training, and restore all of its state from a checkpoint"
            require_equal_encoders(fitted(make, toys), got, toys, f"the codes of fit() from fit_in(){again}", fix)
        left = [path.name for path in Path(folder).rglob("*") if path.is_file()]
    require(bool(left), "a training log in the folder", "an empty folder", "leave the log when training has finished")
    complete = bool(epochs) and all({"epoch", "epochs"} <= epoch.keys() for epoch in epochs)
    fix = 'call progress({"epoch": 1, "epochs": 10, "loss": 0.5}) after every epoch, unless it is None'
    require(complete, "progress() to be called with `epoch` and `epochs`", f"{epochs[:2]}", fix)


def interrupted_training_continues(make: Make, toys: Toys) -> None:
    """Training that is stopped after its first epoch and continued gives the codes of `fit`."""

    def stop(epoch: Mapping[str, float]) -> None:
        raise _StoppedError

    with tempfile.TemporaryDirectory() as folder:
        with contextlib.suppress(_StoppedError):
            fitted(make, toys, folder, stop)
        continued = fitted(make, toys, folder)
    fix = "store the state of the optimiser and of every random generator with the weights"
    require_equal_encoders(fitted(make, toys), continued, toys, "the codes of uninterrupted training", fix)


def foreign_checkpoint_is_refused(make: Make, toys: Toys) -> None:
    """`fit_in` raises SlideseekError in a folder with the checkpoint of other training slides."""
    with tempfile.TemporaryDirectory() as folder:
        fitted(make, toys, folder)
        fix = "store the options and a digest of the training bags with the checkpoint, and compare them"
        what = "for a checkpoint of other slides"
        require_error(partial(fitted, make, partial(toys, seed=5), folder), (SlideseekError,), what, fix)


class _StoppedError(Exception):
    """Training was stopped on purpose."""
