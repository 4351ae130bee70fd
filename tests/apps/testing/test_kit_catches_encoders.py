"""Each check of an encoder passes correct toys and catches one made wrong on purpose."""

import itertools
import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slideseek.errors import EmptyBagError, NotAttributableError, NotFittedError, SlideseekError
from slideseek.interfaces import (
    Attributable,
    BatchEncoder,
    Checkpointed,
    Encoder,
    EncodesText,
    Featurizer,
    Fingerprinted,
    NeedsFeaturizer,
    Progress,
    Trainable,
)
from slideseek.types import Bag, Code, CodeSpec, Float32, Float64, UInt8
from slideseek_apps.testing import CheckFailed, encoder_checks, toy_bags
from slideseek_components.encoders.mean import Mean


def checked(bag: Bag) -> np.ndarray:
    if len(bag) == 0:
        raise EmptyBagError(bag.slide_id)
    if not np.isfinite(bag.features).all():
        raise SlideseekError(f"slide {bag.slide_id!r} has NaN or infinite features")
    return bag.features.astype(np.float64)


@dataclass
class MeanSign:
    """One row of bits: the sign of the mean feature."""

    def spec(self, width: int) -> CodeSpec:
        return CodeSpec("bits", width)

    def encode(self, bag: Bag) -> Code:
        return self.pack(bag, checked(bag).sum(axis=0) > 0)

    def pack(self, bag: Bag, bits: np.ndarray) -> Code:
        return Code(bag.slide_id, np.packbits(bits.reshape(1, -1), axis=1))


@dataclass
class Barcodes:
    """A set of rows of bits, one a patch."""

    _cache: dict[str, Code] = field(default_factory=dict, init=False, repr=False, compare=False)

    def spec(self, width: int) -> CodeSpec:
        return CodeSpec("bits", width, many=True)

    def encode(self, bag: Bag) -> Code:
        return Code(bag.slide_id, np.packbits(checked(bag) > 0, axis=1))


@dataclass
class Centred(Trainable):
    """Trainable: the mean feature of the bag less the mean of the training patches.

    scale: factor of the code.
    """

    scale: float = 1.0
    mean_: np.ndarray | None = field(default=None, init=False, repr=False, compare=False)

    def spec(self, width: int) -> CodeSpec:
        return CodeSpec("float", width)

    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        self.mean_ = np.mean([bag.features.astype(np.float64).mean(axis=0) for bag in bags], axis=0)

    def encode(self, bag: Bag) -> Code:
        features = checked(bag)
        if self.mean_ is None:
            raise NotFittedError("centred")
        if bag.width != len(self.mean_):
            raise SlideseekError(f"{bag.width} features, fitted on {len(self.mean_)}")
        return self.code(bag, self.scale * (features.mean(axis=0) - self.mean_))

    def code(self, bag: Bag, values: np.ndarray) -> Code:
        return Code(bag.slide_id, values.astype(np.float32).reshape(1, -1))

    def save(self, folder: Path) -> None:
        if self.mean_ is None:
            raise NotFittedError("centred")
        (folder / "mean.json").write_text(json.dumps(self.mean_.tolist()))

    def load(self, folder: Path) -> None:
        self.mean_ = np.array(json.loads((folder / "mean.json").read_text()))


class NoEncode:
    def spec(self, width: int) -> CodeSpec:
        return CodeSpec("float", width)


class NotADataclass:
    spec = MeanSign.spec
    encode = MeanSign.encode
    pack = MeanSign.pack


@dataclass
class LearntStateAmongOptions(Centred):
    mean_: np.ndarray | None = field(default=None, init=False, repr=True, compare=True)


@dataclass
class StateNamedAsAnOption(MeanSign):
    cache: dict[str, Code] = field(default_factory=dict, init=False, repr=False, compare=False)


@dataclass
class UnplainOption(MeanSign):
    weights: Any = field(default_factory=lambda: {"a": 1})


@dataclass
class RewritesOptions(Centred):
    def __post_init__(self) -> None:
        self.scale *= 2


@dataclass
class SpecFollowsTraining(Centred):
    def spec(self, width: int) -> CodeSpec:
        return CodeSpec("float", width if self.mean_ is not None else 1)


@dataclass
class WrongWidth(MeanSign):
    def spec(self, width: int) -> CodeSpec:
        return CodeSpec("bits", width + 8)


@dataclass
class ManyRowsForOne(Barcodes):
    def spec(self, width: int) -> CodeSpec:
        return CodeSpec("bits", width)


@dataclass
class FullPadding(MeanSign):
    def pack(self, bag: Bag, bits: np.ndarray) -> Code:
        padded = np.ones(-(-len(bits) // 8) * 8, dtype=bool)
        padded[: len(bits)] = bits
        return Code(bag.slide_id, np.packbits(padded).reshape(1, -1))


@dataclass
class FirstPatchCounts(MeanSign):
    def encode(self, bag: Bag) -> Code:
        return self.pack(bag, checked(bag)[0] > 0)


@dataclass
class NumbersThePatches(Barcodes):
    def encode(self, bag: Bag) -> Code:
        bits = checked(bag) > 0
        bits[:, 0] = np.arange(len(bag)) % 2
        return Code(bag.slide_id, np.packbits(bits, axis=1))


@dataclass
class RunningMean(Centred):
    """A slightly order-dependent float code: recent patches weigh more."""

    def encode(self, bag: Bag) -> Code:
        code = Centred.encode(self, bag)
        return Code(bag.slide_id, code.rows + np.float32(1e-4) * bag.features[-1:])


@dataclass
class NeedsTwoPatches(MeanSign):
    def encode(self, bag: Bag) -> Code:
        features = checked(bag)
        return self.pack(bag, features[0] > features[1:].min(axis=0))


@dataclass
class EmptyBagCrash(MeanSign):
    def encode(self, bag: Bag) -> Code:
        if bag.features[0, 0] == np.inf:
            raise SlideseekError("infinite")
        return MeanSign.encode(self, bag)


@dataclass
class EmptyBagIsZero(MeanSign):
    def encode(self, bag: Bag) -> Code:
        if len(bag) == 0:
            return self.pack(bag, np.zeros(bag.width, dtype=bool))
        return MeanSign.encode(self, bag)


@dataclass
class SwallowsNan(MeanSign):
    def encode(self, bag: Bag) -> Code:
        if len(bag) == 0:
            raise EmptyBagError(bag.slide_id)
        return self.pack(bag, np.nan_to_num(bag.features.astype(np.float64)).sum(axis=0) > 0)


@dataclass
class SwallowsInfinity(MeanSign):
    def encode(self, bag: Bag) -> Code:
        if len(bag) and not np.isnan(bag.features).any():
            return self.pack(bag, bag.features.astype(np.float64).sum(axis=0) > 0)
        return MeanSign.encode(self, bag)


@dataclass
class MutatesTheBag(MeanSign):
    def encode(self, bag: Bag) -> Code:
        code = MeanSign.encode(self, bag)
        if bag.features.flags.writeable:
            bag.features[:] = 0
        return code


@dataclass
class NeedsWritableBag(MeanSign):
    def encode(self, bag: Bag) -> Code:
        code = MeanSign.encode(self, bag)
        bag.features[:] = bag.features.copy()
        return code


@dataclass
class KnowsTheSlides(Centred):
    """Remembers the label of each training slide and writes it into the code."""

    labels_: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        Centred.fit(self, bags, labels, groups)
        self.labels_ = dict(zip((bag.slide_id for bag in bags), labels))

    def encode(self, bag: Bag) -> Code:
        code = Centred.encode(self, bag)
        return Code(bag.slide_id, code.rows + np.float32(len(self.labels_.get(bag.slide_id, ""))))


@dataclass
class ForgetsTheSlideId(MeanSign):
    def pack(self, bag: Bag, bits: np.ndarray) -> Code:
        return Code("slide", MeanSign.pack(self, bag, bits).rows)


@dataclass
class CountsItsCalls(Centred):
    calls_: int = field(default=0, init=False, repr=False, compare=False)

    def encode(self, bag: Bag) -> Code:
        code = Centred.encode(self, bag)
        self.calls_ += 1
        return Code(bag.slide_id, code.rows * np.float32(self.calls_))


@dataclass
class IgnoresTheSeed(Centred):
    """Draws from the operating system instead of from its seed."""

    seed: int = 0

    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        Centred.fit(self, bags, labels, groups)
        assert self.mean_ is not None
        self.mean_ = self.mean_ + np.random.default_rng().normal(size=self.mean_.shape)


@dataclass
class UnfittedGuess(Centred):
    def encode(self, bag: Bag) -> Code:
        if self.mean_ is None:
            return self.code(bag, checked(bag).mean(axis=0))
        return Centred.encode(self, bag)


@dataclass
class SavesNothingLearnt(Centred):
    def save(self, folder: Path) -> None:
        (folder / "mean.json").write_text("null")


@dataclass
class TunesItsOptions(Centred):
    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        Centred.fit(self, bags, labels, groups)
        self.scale = 3.0


@dataclass
class NeedsLabels(Centred):
    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        if len(set(labels)) != 2:
            raise KeyError("")
        Centred.fit(self, bags, labels, groups)


@dataclass
class TakesAnyWidth(Centred):
    def encode(self, bag: Bag) -> Code:
        features = checked(bag)
        if self.mean_ is None:
            raise NotFittedError("takes-any-width")
        width = min(bag.width, len(self.mean_))
        return self.code(bag, features[:, :width].mean(axis=0) - self.mean_[:width])


@dataclass
class ForgetsOnLoad(Centred):
    def load(self, folder: Path) -> None:
        Centred.load(self, folder)
        assert self.mean_ is not None
        self.mean_ = np.zeros_like(self.mean_)


@dataclass
class Pickles(Centred):
    def save(self, folder: Path) -> None:
        if self.mean_ is None:
            raise NotFittedError("pickles")
        (folder / "mean.npy").write_bytes(pickle.dumps(self.mean_))

    def load(self, folder: Path) -> None:
        self.mean_ = pickle.loads((folder / "mean.npy").read_bytes())


@dataclass
class ObjectArray(Pickles):
    def save(self, folder: Path) -> None:
        if self.mean_ is None:
            raise NotFittedError("object-array")
        np.save(folder / "mean.npy", self.mean_.astype(object), allow_pickle=True)

    def load(self, folder: Path) -> None:
        self.mean_ = np.load(folder / "mean.npy", allow_pickle=True).astype(np.float64)


@dataclass
class NewFingerprint(MeanSign, Fingerprinted):
    def fingerprint(self) -> str:
        return f"made at {id(self)}"


@dataclass
class Spread:
    """Mean distance of the patches from their centre, in µm: a code that needs the geometry."""

    def spec(self, width: int) -> CodeSpec:
        return CodeSpec("float", 1)

    def encode(self, bag: Bag) -> Code:
        checked(bag)
        return self.code(bag, bag.centres_um)

    def code(self, bag: Bag, centres: np.ndarray) -> Code:
        spread = np.sort(np.linalg.norm(centres - np.sort(centres, axis=0).mean(axis=0), axis=1)).mean()
        return Code(bag.slide_id, np.full((1, 1), spread, dtype=np.float32))


@dataclass
class ForgetsMpp(Spread):
    """Measures in level-0 pixels: the same tissue has another code at 40x."""

    def encode(self, bag: Bag) -> Code:
        checked(bag)
        return self.code(bag, bag.xy.astype(np.float64))


@dataclass
class NeedsSides(Spread):
    def encode(self, bag: Bag) -> Code:
        checked(bag)
        assert bag.sides is not None and bag.mpp is not None
        return self.code(bag, (bag.xy + bag.sides[:, None] / 2) * bag.mpp)


@dataclass
class WeighsBySidesOfAnotherOrder(MeanSign):
    """Weighs patches by their sides, sorted: a side no longer belongs to its patch."""

    def encode(self, bag: Bag) -> Code:
        features, sides = checked(bag), np.ones(len(bag)) if bag.sides is None else np.sort(bag.sides)
        return self.pack(bag, (features * sides[:, None]).sum(axis=0) > 0)


@dataclass
class CountsInBytes(Centred):
    def encode(self, bag: Bag) -> Code:
        np.full(1, len(bag)).astype(np.uint8, casting="safe" if len(bag) > 255 else "unsafe")
        return Centred.encode(self, bag)


@dataclass
class PartOfACapability(MeanSign, Trainable):
    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        return


@dataclass
class UndeclaredCapability(MeanSign):
    def contributions(self, bag: Bag, code: Code) -> Float64:
        return np.zeros(len(bag))


@dataclass
class AnotherSignature(MeanSign):
    def encode(self, bag: Bag, device: str) -> Code:  # type: ignore[override]
        return MeanSign.encode(self, bag)


@dataclass
class Undescribed(MeanSign):
    """The sign of the mean."""

    strength: float = 1.0


@dataclass
class RevisionInWords(MeanSign):
    code_revision = "2nd"


@dataclass
class RevisionAsOption(MeanSign):
    code_revision: int = 1


@dataclass
class NotFinite(Centred):
    def code(self, bag: Bag, values: np.ndarray) -> Code:
        return Centred.code(self, bag, np.where(np.arange(len(values)) == 1, np.nan, values))


@dataclass
class MetadataInWords(MeanSign):
    """The sign of the mean. batch: patches at a time."""

    batch: int = field(default=8, metadata={"affects_result": "no"})


@dataclass
class Wraps:
    """The sign of another encoder's code. of: the encoder."""

    of: Encoder = field(default_factory=MeanSign)

    def spec(self, width: int) -> CodeSpec:
        return self.of.spec(width)

    def encode(self, bag: Bag) -> Code:
        return self.of.encode(bag)


@dataclass
class ForOneFeaturizer(MeanSign, NeedsFeaturizer):
    @property
    def featurizers(self) -> Sequence[str]:
        return ("kimianet",)


@dataclass
class ForNoFeaturizer(ForOneFeaturizer):
    @property
    def featurizers(self) -> Sequence[str]:
        return ()


@dataclass
class ForAWord(ForOneFeaturizer):
    @property
    def featurizers(self) -> Sequence[str]:
        return "kimianet"


@dataclass
class Explained(MeanSign, Attributable, BatchEncoder):
    """The mean feature as floats, with every capability of an encoder that learns nothing."""

    def spec(self, width: int) -> CodeSpec:
        return CodeSpec("float", width)

    def encode(self, bag: Bag) -> Code:
        mean = np.sort(checked(bag), axis=0).mean(axis=0)
        return Code(bag.slide_id, mean.astype(np.float32)[None])

    def contributions(self, bag: Bag, code: Code) -> Float64:
        mine, other = self.encode(bag).rows[0].astype(np.float64), code.rows[0].astype(np.float64)
        return np.asarray(checked(bag) @ other / len(bag) / (np.linalg.norm(mine) * np.linalg.norm(other)))

    def encode_many(self, bags: Sequence[Bag]) -> list[Code]:
        return [self.encode(bag) for bag in bags]


@dataclass
class OneCodeForAll(MeanSign):
    def encode(self, bag: Bag) -> Code:
        return self.pack(bag, checked(bag)[0] > np.inf)


@dataclass
class AlwaysRefuses(Explained):
    def contributions(self, bag: Bag, code: Code) -> Float64:
        raise NotAttributableError("cannot split a similarity over patches")


@dataclass
class RefusesWithSoundParts(AlwaysRefuses):
    """of: an encoder that can."""

    of: Encoder = field(default_factory=Mean)


@dataclass
class LyingAttribution(Explained):
    def contributions(self, bag: Bag, code: Code) -> Float64:
        return Explained.contributions(self, bag, code) * 1.01


@dataclass
class AttributesToRanks(Explained):
    """Adds up, but its parts are sorted and no longer belong to the patches."""

    def contributions(self, bag: Bag, code: Code) -> Float64:
        return np.sort(Explained.contributions(self, bag, code))


@dataclass
class OnePartForAll(Explained):
    def contributions(self, bag: Bag, code: Code) -> Float64:
        return np.asarray(Explained.contributions(self, bag, code).sum(keepdims=True))


@dataclass
class BatchStatistics(Explained):
    def encode_many(self, bags: Sequence[Bag]) -> list[Code]:
        codes = Explained.encode_many(self, bags)
        return [Code(code.slide_id, code.rows * np.float32(1 + 1e-6 * (len(codes) > 1))) for code in codes]


@dataclass
class BatchByLength(Explained):
    def encode_many(self, bags: Sequence[Bag]) -> list[Code]:
        return Explained.encode_many(self, sorted(bags, key=len))


@dataclass
class BatchOfOneFails(Explained):
    def encode_many(self, bags: Sequence[Bag]) -> list[Code]:
        return Explained.encode_many(self, bags) if len(bags) > 1 else []


@dataclass
class Steps(Centred, Checkpointed):
    """Learns the mean in steps, each with a random part, so that the state of the generator matters.

    epochs: number of steps.
    """

    epochs: int = 3

    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        self.train(None, bags, None)

    def fit_in(
        self,
        folder: Path,
        bags: Sequence[Bag],
        labels: Sequence[str],
        groups: Sequence[str],
        progress: Progress | None = None,
    ) -> None:
        self.train(folder, bags, progress)

    def train(self, folder: Path | None, bags: Sequence[Bag], progress: Progress | None) -> None:
        target = np.mean([bag.features.astype(np.float64).mean(axis=0) for bag in bags], axis=0)
        mean, start = np.zeros_like(target), 0
        if folder is not None and (folder / "state.json").exists():
            start, mean = self.restored(folder, target)
        for epoch in range(start, self.epochs):
            mean = mean + (target - mean) / 2 + np.random.default_rng(epoch).normal(size=mean.shape)
            if folder is not None:
                state = {"epoch": epoch + 1, "mean": mean.tolist(), "bags": target.tolist()}
                (folder / "state.json").write_text(json.dumps(state))
            if progress:
                self.report(progress, epoch)
        self.mean_ = mean

    def report(self, progress: Progress, epoch: int) -> None:
        progress({"epoch": epoch + 1, "epochs": self.epochs})

    def restored(self, folder: Path, target: np.ndarray) -> tuple[int, np.ndarray]:
        state = json.loads((folder / "state.json").read_text())
        if state["bags"] != target.tolist():
            raise SlideseekError("a checkpoint of other slides")
        return state["epoch"], np.array(state["mean"])


@dataclass
class OneStepMore(Steps):
    """Repeats the last epoch of a finished training."""

    def restored(self, folder: Path, target: np.ndarray) -> tuple[int, np.ndarray]:
        epoch, mean = Steps.restored(self, folder, target)
        return min(epoch, self.epochs - 1), mean


@dataclass
class LeavesNothing(Steps):
    def train(self, folder: Path | None, bags: Sequence[Bag], progress: Progress | None) -> None:
        Steps.train(self, folder, bags, progress)
        if folder is not None:
            (folder / "state.json").unlink()


@dataclass
class SilentTraining(Steps):
    def report(self, progress: Progress, epoch: int) -> None:
        return


@dataclass
class ForgetsTheGenerator(Steps):
    """Continues from its checkpoint as if it were the first epoch."""

    def restored(self, folder: Path, target: np.ndarray) -> tuple[int, np.ndarray]:
        epoch, mean = Steps.restored(self, folder, target)
        return epoch, mean if epoch == self.epochs else np.round(mean, 2)


@dataclass
class AnyCheckpoint(Steps):
    def restored(self, folder: Path, target: np.ndarray) -> tuple[int, np.ndarray]:
        state = json.loads((folder / "state.json").read_text())
        return state["epoch"], np.array(state["mean"])


@dataclass
class Worded(Mean, EncodesText):
    """The mean of the features, and text by its letters."""

    def encode_text(self, texts: Sequence[str]) -> Any:
        rows = [[ord(text[i % len(text)]) for i in range(16)] for text in texts]
        return np.array(rows, np.float32).reshape(len(texts), 16)


@dataclass
class Rotated(Worded):
    def encode(self, bag: Bag) -> Code:
        return Code(bag.slide_id, Mean.encode(self, bag).rows[:, ::-1].copy())


@dataclass
class PerhapsInSpace(Worded):
    @property
    def in_feature_space(self) -> Any:
        return "perhaps"


@dataclass
class TextOfAnotherWidth(Worded):
    def encode_text(self, texts: Sequence[str]) -> Any:
        return Worded.encode_text(self, texts)[:, :3]


@dataclass
class TextForBits(MeanSign, EncodesText):
    def encode_text(self, texts: Sequence[str]) -> Any:
        return np.ones((len(texts), 16), np.float32)


@dataclass
class OneTextForAll(Worded):
    def encode_text(self, texts: Sequence[str]) -> Any:
        return np.ones((len(texts), 16), np.float32)


CORRECT = (Worded, MeanSign, Barcodes, Centred, Spread, Wraps, ForOneFeaturizer, Explained, Steps)

BROKEN = (
    (Rotated, "code_of_one_patch_keeps_its_direction"),
    (PerhapsInSpace, "code_of_one_patch_keeps_its_direction"),
    (TextOfAnotherWidth, "text_has_the_format_of_codes"),
    (TextForBits, "text_has_the_format_of_codes"),
    (OneTextForAll, "text_row_depends_on_its_text_alone"),
    (NewFingerprint, "fingerprint_is_stable"),
    (NoEncode, "interface_is_complete"),
    (PartOfACapability, "interface_is_complete"),
    (UndeclaredCapability, "interface_is_complete"),
    (AnotherSignature, "interface_is_complete"),
    (Undescribed, "options_are_described"),
    (RevisionInWords, "declarations_are_well_formed"),
    (RevisionAsOption, "declarations_are_well_formed"),
    (MetadataInWords, "declarations_are_well_formed"),
    (ForNoFeaturizer, "featurizers_are_named"),
    (ForAWord, "featurizers_are_named"),
    (ForgetsMpp, "resolution_of_the_scan_does_not_matter"),
    (NeedsSides, "unknown_geometry_is_no_crash"),
    (WeighsBySidesOfAnotherOrder, "patch_order_does_not_matter"),
    (CountsInBytes, "large_bags_are_learnt"),
    (LyingAttribution, "contributions_add_up"),
    (OneCodeForAll, "different_slides_get_different_codes"),
    (AlwaysRefuses, "contributions_add_up"),
    (RefusesWithSoundParts, "contributions_add_up"),
    (AttributesToRanks, "contributions_add_up"),
    (OnePartForAll, "contributions_add_up"),
    (BatchStatistics, "batch_equals_one_by_one"),
    (BatchByLength, "batch_equals_one_by_one"),
    (BatchOfOneFails, "batch_equals_one_by_one"),
    (OneStepMore, "checkpoints_change_nothing"),
    (LeavesNothing, "checkpoints_change_nothing"),
    (SilentTraining, "checkpoints_change_nothing"),
    (ForgetsTheGenerator, "interrupted_training_continues"),
    (AnyCheckpoint, "foreign_checkpoint_is_refused"),
    (NotADataclass, "options_are_fields"),
    (LearntStateAmongOptions, "options_are_fields"),
    (StateNamedAsAnOption, "options_are_fields"),
    (UnplainOption, "options_are_fields"),
    (RewritesOptions, "options_round_trip"),
    (SpecFollowsTraining, "spec_is_known_in_advance"),
    (WrongWidth, "codes_honour_the_spec"),
    (NotFinite, "codes_honour_the_spec"),
    (ManyRowsForOne, "codes_honour_the_spec"),
    (FullPadding, "padding_bits_are_zero"),
    (FirstPatchCounts, "patch_order_does_not_matter"),
    (NumbersThePatches, "patch_order_does_not_matter"),
    (RunningMean, "patch_order_does_not_matter"),
    (NeedsTwoPatches, "one_patch_is_enough"),
    (EmptyBagCrash, "empty_bag_is_refused"),
    (EmptyBagIsZero, "empty_bag_is_refused"),
    (SwallowsNan, "bad_numbers_are_refused"),
    (SwallowsInfinity, "bad_numbers_are_refused"),
    (MutatesTheBag, "bag_is_left_alone"),
    (NeedsWritableBag, "bag_is_left_alone"),
    (KnowsTheSlides, "slide_id_only_names_the_code"),
    (ForgetsTheSlideId, "slide_id_only_names_the_code"),
    (CountsItsCalls, "encoding_leaves_no_trace"),
    (IgnoresTheSeed, "same_seed_same_codes"),
    (UnfittedGuess, "unfitted_is_refused"),
    (SavesNothingLearnt, "unfitted_is_refused"),
    (TunesItsOptions, "fitting_keeps_the_options"),
    (NeedsLabels, "unknown_labels_are_understood"),
    (TakesAnyWidth, "another_width_is_refused"),
    (ForgetsOnLoad, "saved_encoder_encodes_alike"),
    (Pickles, "saved_files_hold_no_pickle"),
    (ObjectArray, "saved_files_hold_no_pickle"),
)


@pytest.mark.parametrize(
    ("encoder", "check"),
    list(itertools.product(CORRECT, encoder_checks())),
    ids=lambda value: value.__name__,
)
def test_correct_encoder_passes(encoder: type, check: Any) -> None:
    check(encoder)


@pytest.mark.parametrize(("encoder", "check"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_broken_encoder_is_caught(encoder: type, check: str) -> None:
    named = next(c for c in encoder_checks() if c.__name__ == check)
    with pytest.raises(CheckFailed):
        named(encoder)


def test_every_check_is_proven_to_catch_something() -> None:
    assert {name for _, name in BROKEN} == {check.__name__ for check in encoder_checks()}


def test_own_widths_are_used() -> None:
    @dataclass
    class OnlyEight(MeanSign):
        def spec(self, width: int) -> CodeSpec:
            if width != 8:
                raise SlideseekError(f"8 features, not {width}")
            return CodeSpec("bits", 8)

    for check in encoder_checks(widths=(8,)):
        check(OnlyEight)
    honours = next(check for check in encoder_checks() if check.__name__ == "codes_honour_the_spec")
    with pytest.raises(CheckFailed, match="SlideseekError: 8 features, not 16"):
        honours(OnlyEight)


def test_features_of_a_featurizer_are_used() -> None:
    """An encoder that knows only the features of one featurizer passes on these alone."""

    @dataclass
    class OneToFour(Featurizer):
        width = 4

        def featurize(self, images: UInt8) -> Float32:
            signs = np.where(images[:, 0, 0, :1].astype(np.int64) % 2, 1, -1)
            return (signs * np.arange(1, 5)).astype(np.float32)

    @dataclass
    class KnowsOneToFour(MeanSign):
        def encode(self, bag: Bag) -> Code:
            if len(bag) and np.isfinite(bag.features).all() and not (abs(bag.features) == [1, 2, 3, 4]).all():
                raise SlideseekError("unknown features")
            return MeanSign.encode(self, bag)

    for check in encoder_checks(featurizer=OneToFour()):
        check(KnowsOneToFour)


def test_training_bags_are_enough_for_256_prototypes() -> None:
    seen: list[int] = []

    @dataclass
    class Counts(Centred):
        def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
            seen.append(sum(len(bag) for bag in bags))
            Centred.fit(self, bags, labels, groups)

    for check in encoder_checks():
        check(Counts)
    assert min(seen) > 256
    assert max(seen) > 2000
    assert min(len(bag) for bag in toy_bags(patches=300).bags) >= 300


def test_message_says_what_was_expected_got_and_to_do() -> None:
    empty = next(check for check in encoder_checks() if check.__name__ == "empty_bag_is_refused")
    with pytest.raises(CheckFailed, match=r"expected EmptyBagError .*; got IndexError.* To fix it: begin encode\(\)"):
        empty(EmptyBagCrash)
