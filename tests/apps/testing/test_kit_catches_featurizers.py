"""Each check of a featurizer passes a correct toy and catches one made wrong on purpose."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from slideseek.interfaces import Described, EncodesText, Fingerprinted, Resizing
from slideseek.types import FeaturizerCard, Float32, UInt8
from slideseek_apps.testing import CheckFailed, featurizer_checks


@dataclass
class ColourMoments:
    """Mean and spread of each colour."""

    seed: int = 0

    @property
    def width(self) -> int:
        return 6

    def featurize(self, images: UInt8) -> Float32:
        pixels = images.reshape(len(images), images.shape[1] * images.shape[2], 3).astype(np.float64)
        return np.concatenate([pixels.mean(axis=1), pixels.std(axis=1)], axis=1).astype(np.float32)


@dataclass
class WithCard(ColourMoments, Described, Resizing, EncodesText):
    """The same with every capability a featurizer may have."""

    @property
    def side(self) -> int:
        return 32

    def card(self) -> FeaturizerCard:
        return FeaturizerCard(self.width, 64, 0.5, "Apache-2.0", "", True)

    def encode_text(self, texts: Sequence[str]) -> Float32:
        counts = [[text.count(letter) + 1 for letter in "abcdef"] for text in texts]
        return np.array(counts, dtype=np.float32).reshape(len(texts), 6)


@dataclass
class ShortText(WithCard):
    def encode_text(self, texts: Sequence[str]) -> Float32:
        return WithCard.encode_text(self, texts)[:, :5]


@dataclass
class NoMeaning(WithCard):
    def encode_text(self, texts: Sequence[str]) -> Float32:
        return np.zeros((len(texts), 6), dtype=np.float32)


@dataclass
class TextStatistics(WithCard):
    def encode_text(self, texts: Sequence[str]) -> Float32:
        rows = WithCard.encode_text(self, texts)
        return rows / rows.max() if len(rows) else rows


@dataclass
class OneTextForAll(WithCard):
    def encode_text(self, texts: Sequence[str]) -> Float32:
        return np.ones((len(texts), 6), dtype=np.float32)


@dataclass
class NeedsSomeText(WithCard):
    def encode_text(self, texts: Sequence[str]) -> Float32:
        return np.stack([WithCard.encode_text(self, [text])[0] for text in texts])


@dataclass
class NoWidth:
    def featurize(self, images: UInt8) -> Float32:
        return np.zeros((len(images), 1), dtype=np.float32)


class NotADataclass:
    width = 6
    featurize = ColourMoments.featurize


@dataclass
class RandomSeedOption(ColourMoments):
    seed: int = field(default_factory=lambda: int(np.random.default_rng().integers(2**62)))


@dataclass
class WidthUnknown(ColourMoments):
    @property
    def width(self) -> int:
        return 0


@dataclass
class OtherWidth(ColourMoments):
    @property
    def width(self) -> int:
        return 7


@dataclass
class Double(ColourMoments):
    def featurize(self, images: UInt8) -> Any:
        return ColourMoments.featurize(self, images).astype(np.float64)


@dataclass
class DividesByZero(ColourMoments):
    def featurize(self, images: UInt8) -> Float32:
        features = ColourMoments.featurize(self, images)
        with np.errstate(divide="ignore", invalid="ignore"):
            return features / (features - features)


@dataclass
class StacksRows(ColourMoments):
    def featurize(self, images: UInt8) -> Float32:
        return np.stack([ColourMoments.featurize(self, image[None])[0] for image in images])


@dataclass
class BatchStatistics(ColourMoments):
    def featurize(self, images: UInt8) -> Float32:
        features = ColourMoments.featurize(self, images)
        return features - features.mean(axis=0) if len(features) else features


@dataclass
class SortsTheBatch(ColourMoments):
    def featurize(self, images: UInt8) -> Float32:
        features = ColourMoments.featurize(self, images)
        return features[np.argsort(features[:, 0])]


@dataclass
class MutatesImages(ColourMoments):
    def featurize(self, images: UInt8) -> Float32:
        features = ColourMoments.featurize(self, images)
        if images.flags.writeable:
            images[:] = 0
        return features


@dataclass
class NeedsWritableImages(ColourMoments):
    def featurize(self, images: UInt8) -> Float32:
        images[:] = images.copy()
        return ColourMoments.featurize(self, images)


@dataclass
class NeedsContiguousImages(ColourMoments):
    def featurize(self, images: UInt8) -> Float32:
        return ColourMoments.featurize(self, np.frombuffer(images.data, np.uint8).reshape(images.shape))


@dataclass
class RandomProjection(ColourMoments):
    def featurize(self, images: UInt8) -> Float32:
        mix = np.random.default_rng().normal(size=(6, 6))
        return (ColourMoments.featurize(self, images) @ mix).astype(np.float32)


@dataclass
class SeesNothing(ColourMoments):
    def featurize(self, images: UInt8) -> Float32:
        return np.ones((len(images), 6), dtype=np.float32)


@dataclass
class NewFingerprint(ColourMoments, Fingerprinted):
    def fingerprint(self) -> str:
        return f"made at {id(self)}"


@dataclass
class CardOfAnotherWidth(WithCard):
    def card(self) -> FeaturizerCard:
        return FeaturizerCard(12, 64, 0.5, "Apache-2.0", "", True)


@dataclass
class CardIsADict(WithCard):
    def card(self) -> Any:
        return {"width": 6}


@dataclass
class SlowCard(WithCard):
    def card(self) -> FeaturizerCard:
        time.sleep(0.3)
        return WithCard.card(self)


@dataclass
class SideInWords(WithCard):
    @property
    def side(self) -> Any:
        return "32"


@dataclass
class NotItsOwnSide(WithCard):
    def featurize(self, images: UInt8) -> Float32:
        if images.shape[1] == self.side:
            raise IndexError("nothing to crop")
        return WithCard.featurize(self, images)


@dataclass
class Undescribed(ColourMoments):
    """Colours."""

    bins: int = 4


@dataclass
class MetadataInWords(ColourMoments):
    seed: int = field(default=0, metadata={"affects_result": "no"})


BROKEN = (
    (Undescribed, "options_are_described"),
    (MetadataInWords, "declarations_are_well_formed"),
    (SideInWords, "patches_of_the_side_are_featurized"),
    (NotItsOwnSide, "patches_of_the_side_are_featurized"),
    (NewFingerprint, "fingerprint_is_stable"),
    (NoWidth, "interface_is_complete"),
    (NotADataclass, "options_are_fields"),
    (RandomSeedOption, "options_round_trip"),
    (WidthUnknown, "width_is_positive"),
    (OtherWidth, "features_have_the_stated_width"),
    (Double, "features_have_the_stated_width"),
    (DividesByZero, "features_have_the_stated_width"),
    (StacksRows, "empty_batch_gives_no_rows"),
    (BatchStatistics, "row_depends_on_its_image_alone"),
    (SortsTheBatch, "rows_follow_the_images"),
    (MutatesImages, "images_are_left_alone"),
    (NeedsWritableImages, "read_only_images_are_accepted"),
    (NeedsContiguousImages, "strided_images_are_accepted"),
    (RandomProjection, "fresh_featurizer_same_features"),
    (SeesNothing, "different_images_differ"),
    (CardOfAnotherWidth, "card_states_the_width"),
    (CardIsADict, "card_states_the_width"),
    (SlowCard, "card_is_cheap"),
    (ShortText, "text_has_the_width_of_features"),
    (NoMeaning, "text_has_the_width_of_features"),
    (TextStatistics, "text_row_depends_on_its_text_alone"),
    (OneTextForAll, "text_row_depends_on_its_text_alone"),
    (NeedsSomeText, "text_row_depends_on_its_text_alone"),
)


@pytest.mark.parametrize("check", featurizer_checks(), ids=lambda check: check.__name__)
def test_correct_featurizer_passes(check: Any) -> None:
    check(ColourMoments)


@pytest.mark.parametrize("check", featurizer_checks(), ids=lambda check: check.__name__)
def test_correct_featurizer_with_a_card_passes(check: Any) -> None:
    assert isinstance(WithCard(), Described)
    check(WithCard)


@pytest.mark.parametrize(("featurizer", "check"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_broken_featurizer_is_caught(featurizer: type, check: str) -> None:
    named = next(c for c in featurizer_checks() if c.__name__ == check)
    with pytest.raises(CheckFailed):
        named(featurizer)


def test_every_check_is_proven_to_catch_something() -> None:
    assert {name for _, name in BROKEN} == {check.__name__ for check in featurizer_checks()}


def test_own_side_is_used() -> None:
    sides: set[int] = set()

    @dataclass
    class SideSeen(ColourMoments):
        def featurize(self, images: UInt8) -> Float32:
            sides.update(images.shape[1:3])
            return ColourMoments.featurize(self, images)

    for check in featurizer_checks(side=24):
        check(SideSeen)
    assert sides == {24}
