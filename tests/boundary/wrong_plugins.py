"""A plugin whose components are wrong, each in one way that its name tells, and the table of them.

A flaw is active while the environment variable WRONG_PLUGINS is "on"; else the honest method of the base class runs. So
an archive can be built by honest code that goes wrong afterwards. What is found when an engine is made is always wrong.

The table says where a flaw must be found:

- made: at once, when the engine is made, before a slide is read;
- build: in the first slide, or by the probe before it; a query that needs the component finds it too;
- search: in a search; explain: when a hit is explained;
- noted: the search succeeds on sound data and a note names the component; a build fails;
- fine: nothing is wrong, and everything must work.
"""

import functools
import inspect
import math
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from slideseek.hookspecs import hookimpl
from slideseek.interfaces import (
    Attributable,
    BatchEncoder,
    Checkpointed,
    Fingerprinted,
    NeedsFeaturizer,
    Resizing,
    Trainable,
)
from slideseek.types import Code, CodeSpec, Hit, Patches
from slideseek_components.encoders.mean import Mean
from slideseek_components.indexes.cosine import Cosine
from slideseek_components.selectors.grid import Grid

SWITCH = "WRONG_PLUGINS"
FRONT_ENDS = ("build", "search", "session", "viewer", "bench")

At = Literal["made", "build", "search", "explain", "noted", "fine"]


@dataclass(frozen=True)
class Wrong:
    """One row.

    says: what the message must match. ends: the front ends that can meet it. use: other components of the engine.
    component: the name to configure, if it differs. named: what the message names instead of the component.
    """

    name: str
    kind: str
    at: At
    says: str
    ends: tuple[str, ...]
    target: str
    options: str = ""
    use: tuple[tuple[str, str], ...] = ()
    component: str = ""
    named: str = ""

    def __str__(self) -> str:
        return self.name

    @property
    def owner(self) -> str:
        """How the message names what is wrong."""
        return self.named or f"{self.kind} '{self.name}' of slideseek-wrong 0.1.0"


TABLE: list[Wrong] = []


def armed() -> bool:
    """Return whether components are wrong now."""
    return os.environ.get(SWITCH) == "on"


def wrong(kind: str, at: At, says: str, ends: str = "", options: str = "", **use: str) -> Callable[[type], type]:
    """Add a class to the table. ends: front ends that can meet the flaw, by default all that call the component."""

    def keep(cls: type) -> type:
        if at not in ("made", "fine"):
            for name, flawed in list(vars(cls).items()):
                if not name.startswith("_") or name == "__post_init__":
                    _switch(cls, name, flawed)
        made: type = dataclass(cls)
        add(cls.__name__, kind, at, says, ends, options, f"{__name__}:{cls.__name__}", **use)
        return made

    return keep


def add(name: str, kind: str, at: At, says: str, ends: str, options: str, target: str, **use: str) -> None:
    """Add a row to the table."""
    benched = kind in ("encoder", "index") and at in ("made", "build", "search", "fine")
    usual = {"made": FRONT_ENDS[:4], "build": FRONT_ENDS[:4], "fine": FRONT_ENDS[:4], "noted": FRONT_ENDS[:4]}
    given = tuple(ends.split()) or (*usual.get(at, FRONT_ENDS[1:4]), *(("bench",) if benched else ()))
    TABLE.append(Wrong(kebab(name), kind, at, says, given, target, options, tuple(use.items())))


def kebab(name: str) -> str:
    """Return the name a class is registered under."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def _switch(cls: type, name: str, flawed: Any) -> None:
    """Let a method or property be the flawed one only while flaws are active, else that of the base class."""
    if isinstance(flawed, property):

        def read(self: Any) -> Any:
            return flawed.fget(self) if armed() else getattr(super(cls, self), name)  # type: ignore[misc]

        setattr(cls, name, property(read))
    elif inspect.isfunction(flawed):

        @functools.wraps(flawed)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if armed():
                return flawed(self, *args, **kwargs)
            honest = getattr(super(cls, self), name, None)
            return honest(*args, **kwargs) if honest else None

        setattr(cls, name, call)


def boom(*_: Any, **__: Any) -> Any:
    """Fail as a plugin may."""
    raise ZeroDivisionError("kaboom")


RAISES = "ZeroDivisionError: kaboom"


class Honest:
    """What every base class shares: a revision of its own."""

    code_revision: ClassVar[int] = 1


@dataclass
class HonestFeaturizer(Honest):
    """Mean and spread of each colour."""

    @property
    def width(self):
        return 6

    def featurize(self, images):
        flat = images.reshape(len(images), -1, 3).astype(np.float32) / 255
        return np.concatenate([flat.mean(axis=1), flat.std(axis=1)], axis=1).astype(np.float32)


@dataclass
class HonestResizing(HonestFeaturizer, Resizing):
    """The same of patches that are read smaller."""

    @property
    def side(self):
        return 32


@dataclass
class HonestEncoder(Honest, Mean):
    """The mean of the features."""


@dataclass
class HonestBits(Honest):
    """The signs of the first eleven features, relative to their mean."""

    def spec(self, width):
        return CodeSpec("bits", 11)

    def encode(self, bag):
        mean = np.resize(bag.features.mean(axis=0), 11)
        return Code(bag.slide_id, np.packbits(mean > mean.mean())[None])


@dataclass
class HonestBatches(HonestEncoder, BatchEncoder):
    """The mean, in batches too."""

    def encode_many(self, bags):
        return [HonestEncoder.encode(self, bag) for bag in bags]


@dataclass
class HonestTrainable(HonestEncoder, Trainable):
    """The mean minus that of the training slides."""

    middle_: Any = field(default=None, init=False, repr=False, compare=False)

    def fit(self, bags, labels, groups):
        self.middle_ = np.mean([bags[number].features.mean(axis=0) for number in range(len(bags))], axis=0)

    def encode(self, bag):
        return Code(bag.slide_id, (bag.features.mean(axis=0) - self.middle_).astype(np.float32)[None])

    def save(self, folder):
        np.save(folder / "middle.npy", self.middle_)

    def load(self, folder):
        self.middle_ = np.load(folder / "middle.npy")


@dataclass
class HonestCheckpointed(HonestTrainable, Checkpointed):
    """The same, with a checkpoint."""

    def fit_in(self, folder, bags, labels, groups, progress=None):
        self.fit(bags, labels, groups)


@dataclass
class HonestIndex(Honest, Cosine):
    """The bundled exact cosine, with its optional protocols."""


@dataclass
class HonestSelector(Honest, Grid):
    """The bundled grid."""


@dataclass
class HonestReranker(Honest):
    """The distance of the means."""

    @property
    def depth(self):
        return 5

    def distances(self, query, candidates):
        mine = query.features.mean(axis=0)
        return np.array([float(np.abs(bag.features.mean(axis=0) - mine).sum()) for bag in candidates])


GRID = "size = 64, mpp = 1.0, min_tissue = 0.5"

# Selectors.


@wrong("selector", "build", RAISES, options=GRID)
class SelectRaises(HonestSelector):
    select = boom


@wrong("selector", "build", "SystemExit", options=GRID)
class SelectExits(HonestSelector):
    def select(self, slide):
        sys.exit("leaving")


@wrong("selector", "build", "patches of 'another' for slide", options=GRID)
class SelectsAnotherSlide(HonestSelector):
    def select(self, slide):
        return replace(super().select(slide), slide_id="another")


@wrong("selector", "build", "invalid mpp", options=GRID)
class SelectsAtNoResolution(HonestSelector):
    def select(self, slide):
        found = super().select(slide)
        return Patches(found.slide_id, found.xy, found.size, np.zeros(len(found)))


@wrong("selector", "build", "list instead of Patches", options=GRID)
class SelectsAList(HonestSelector):
    def select(self, slide):
        return [(0, 0)]


@wrong("selector", "made", RAISES, options=GRID)
class PatchUmRaises(HonestSelector):
    patch_um = property(boom)


# Featurizers.


@wrong("featurizer", "build", RAISES)
class FeaturizeRaises(HonestFeaturizer):
    featurize = boom


@wrong("featurizer", "build", "SystemExit")
class FeaturizeExits(HonestFeaturizer):
    def featurize(self, images):
        sys.exit(3)


@wrong("featurizer", "build", "not finite")
class NanFeatures(HonestFeaturizer):
    def featurize(self, images):
        return super().featurize(images) * np.float32(np.nan)


@wrong("featurizer", "build", "not finite")
class NanInOneSlide(HonestFeaturizer):
    """The toy images are noise, and the probe passes: the slide fails."""

    def featurize(self, images):
        found = super().featurize(images)
        found[np.ptp(images, axis=(1, 2, 3)) < 250] = np.nan
        return found


@wrong("featurizer", "build", "not finite")
class InfFeatures(HonestFeaturizer):
    def featurize(self, images):
        return super().featurize(images) + np.float32(np.inf)


@wrong("featurizer", "build", r"float64 \(\d+, 6\), not float32")
class WrongDtypeFeatures(HonestFeaturizer):
    def featurize(self, images):
        return super().featurize(images).astype(np.float64)


@wrong("featurizer", "build", r"float32 \(\d+, 5\), not float32 \(\d+, 6\)")
class WrongWidthFeatures(HonestFeaturizer):
    def featurize(self, images):
        return super().featurize(images)[:, 1:]


@wrong("featurizer", "build", r"returned list, not float32")
class FeaturesInAList(HonestFeaturizer):
    def featurize(self, images):
        return super().featurize(images).tolist()


@wrong("featurizer", "build", r"not float32 \(\d+, 6\)")
class FeaturesOfFewerImages(HonestFeaturizer):
    def featurize(self, images):
        return super().featurize(images)[1:]


@wrong("featurizer", "made", RAISES)
class WidthRaises(HonestFeaturizer):
    width = property(boom)


@wrong("featurizer", "made", "has width '6', not a whole number")
class WidthIsText(HonestFeaturizer):
    @property
    def width(self):
        return "6"


@wrong("featurizer", "build", RAISES)
class SideRaises(HonestResizing):
    side = property(boom)


@wrong("featurizer", "fine", "", options="side = 7")
class OptionNamedSide(HonestFeaturizer):
    """Not `Resizing`: patches of 7 pixels would give other features."""

    side: int = 3

    def featurize(self, images):
        assert images.shape[1] == 64 or len(images) == 2
        return super().featurize(images)


@wrong("featurizer", "made", RAISES)
class FingerprintRaises(HonestFeaturizer, Fingerprinted):
    fingerprint = boom


# Encoders.


@wrong("encoder", "made", RAISES)
class SpecRaises(HonestEncoder):
    spec = boom


@wrong("encoder", "made", "not a CodeSpec")
class SpecIsATuple(HonestEncoder):
    def spec(self, width):
        return ("float", width)


@wrong("encoder", "made", "not a CodeSpec with a positive width")
class SpecOfNoWidth(HonestEncoder):
    def spec(self, width):
        return CodeSpec("float", 0)


@wrong("encoder", "made", r"encode\(\) for .*" + RAISES)
class EncodeRaises(HonestEncoder):
    encode = boom


@wrong("encoder", "made", r"encode\(\) for .*SystemExit")
class EncodeExits(HonestEncoder):
    def encode(self, bag):
        sys.exit()


@wrong("encoder", "build", r"encode\(\) for .*" + RAISES)
class EncodeRaisesOnSlides(HonestEncoder):
    """The toy bag passes."""

    def encode(self, bag):
        return super().encode(bag) if bag.slide_id.startswith("toy-") else boom()


@wrong("encoder", "made", "not finite")
class NanCode(HonestEncoder):
    def encode(self, bag):
        return Code(bag.slide_id, super().encode(bag).rows * np.float32(np.nan))


@wrong("encoder", "build", "not finite")
class NanCodeOfSlides(HonestEncoder):
    def encode(self, bag):
        code = super().encode(bag)
        return code if bag.slide_id.startswith("toy-") else Code(bag.slide_id, code.rows * np.float32(np.nan))


@wrong("encoder", "made", "a code of 'another' for")
class CodeOfAnotherSlide(HonestEncoder):
    def encode(self, bag):
        return replace(super().encode(bag), slide_id="another")


@wrong("encoder", "made", "columns, the spec")
class CodeOfWrongWidth(HonestEncoder):
    def encode(self, bag):
        return Code(bag.slide_id, super().encode(bag).rows[:, 1:])


@wrong("encoder", "made", "needs exactly one")
class TwoRowsForOne(HonestEncoder):
    def encode(self, bag):
        rows = super().encode(bag).rows
        return Code(bag.slide_id, np.concatenate([rows, rows]))


@wrong("encoder", "made", "ndarray instead of a Code")
class NotACode(HonestEncoder):
    def encode(self, bag):
        return super().encode(bag).rows


@wrong("encoder", "made", "rows are uint8, the spec")
class CodeOfWrongDtype(HonestEncoder):
    def encode(self, bag):
        return Code(bag.slide_id, super().encode(bag).rows.astype(np.uint8))


@wrong("encoder", "made", "padding bits are not zero", index="hamming")
class PaddingBitsSet(HonestBits):
    def encode(self, bag):
        return Code(bag.slide_id, super().encode(bag).rows | np.uint8(1))


@wrong("encoder", "made", RAISES)
class EncodeManyRaises(HonestBatches):
    encode_many = boom


@wrong("encoder", "made", r"other codes from encode_many\(\)")
class EncodeManyLies(HonestBatches):
    def encode_many(self, bags):
        return [Code(code.slide_id, code.rows + 1) for code in super().encode_many(bags)]


@wrong("encoder", "made", r"answers from encode_many\(\) for")
class EncodeManyLosesSlides(HonestBatches):
    def encode_many(self, bags):
        return super().encode_many(bags)[1:]


@wrong("encoder", "made", r"instead of a list from encode_many\(\)")
class EncodeManyIsAGenerator(HonestBatches):
    def encode_many(self, bags):
        return (code for code in super().encode_many(bags))


@wrong("encoder", "build", r"fit\(\).*" + RAISES, "build bench")
class FitRaises(HonestTrainable):
    fit = boom


@wrong("encoder", "build", r"fit_in\(\).*" + RAISES, "build bench")
class FitInRaises(HonestCheckpointed):
    fit_in = boom


@wrong("encoder", "build", r"not finite", "build bench")
class FitsToNan(HonestTrainable):
    def fit(self, bags, labels, groups):
        super().fit(bags, labels, groups)
        self.middle_ = self.middle_ * np.nan


@wrong("encoder", "build", r"save\(\).*" + RAISES, "build")
class SaveRaises(HonestTrainable):
    save = boom


@wrong("encoder", "build", r"save\(\).*No space left", "build")
class SaveHasNoSpace(HonestTrainable):
    def save(self, folder):
        raise OSError(28, "No space left on device", "model.bin")


@wrong("encoder", "build", r"load\(\).*" + RAISES, "search session viewer")
class LoadRaises(HonestTrainable):
    load = boom


@wrong("encoder", "made", "names Trainable as a base class and lacks load, save")
class FitWithoutSave(HonestEncoder, Trainable):
    def fit(self, bags, labels, groups):
        pass


@wrong("encoder", "made", "names Trainable as a base class and lacks load")
class TrainableWithoutLoad(HonestEncoder, Trainable):
    def fit(self, bags, labels, groups):
        pass

    def save(self, folder):
        pass


@wrong("encoder", "made", r"has fit\(\) and does not name Trainable")
class FitWithoutTrainable(HonestEncoder):
    def fit(self, bags, labels, groups):
        pass


@wrong("encoder", "made", r"lacks spec of the encoder interface")
class NoSpec:
    def encode(self, bag):
        return Code(bag.slide_id, bag.features[:1])


@wrong("encoder", "made", r"cannot be called as encode\(bag\)")
class EncodeWantsMore(HonestEncoder):
    def encode(self, bag, extra):  # type: ignore[override]
        return super().encode(bag)


@wrong("encoder", "made", r"cannot be called as fit\(bags, labels, groups\)")
class FitTakesLess(HonestTrainable):
    def fit(self, bags):  # type: ignore[override]
        pass


@wrong("encoder", "made", RAISES)
class PostInitRaises(HonestEncoder):
    __post_init__ = boom


@wrong("encoder", "made", "SystemExit")
class PostInitExits(HonestEncoder):
    def __post_init__(self):
        sys.exit(1)


@wrong("encoder", "made", "option 'scale' is inf")
class InfDefault(HonestEncoder):
    scale: float = math.inf


@wrong("encoder", "made", RAISES, "build search session viewer")  # the benchmark's features are of no featurizer
class FeaturizersRaise(HonestEncoder, NeedsFeaturizer):
    featurizers = property(boom)


@wrong("encoder", "made", "code_revision is 'two', not a whole number")
class RevisionIsText(HonestEncoder):
    code_revision = "two"  # type: ignore[assignment]


@wrong("encoder", "fine", "", options="exact = true, side = 5, encode_many = 2")
class OptionsNamedLikeCapabilities(HonestEncoder):
    """Not a `BatchEncoder`, whatever its options are called."""

    exact: bool = False
    side: int = 3
    encode_many: int = 1


@wrong("encoder", "explain", r"contributions\(\).*" + RAISES)
class ContributionsRaise(HonestEncoder, Attributable):
    contributions = boom


@wrong("encoder", "explain", "contributions that add up to")
class ContributionsLie(HonestEncoder, Attributable):
    def contributions(self, bag, code):
        return super().contributions(bag, code) * 2


@wrong("encoder", "explain", "one contribution for each of")
class ContributionsOfFewerPatches(HonestEncoder, Attributable):
    def contributions(self, bag, code):
        return super().contributions(bag, code)[1:]


# Indexes.


@wrong("index", "made", RAISES)
class RefusesRaises(HonestIndex):
    refuses = boom


@wrong("index", "made", r"from refuses\(\), not text")
class RefusesWithTrue(HonestIndex):
    def refuses(self, spec):
        return True


@wrong("index", "made", r"add\(\).*" + RAISES)
class AddRaises(HonestIndex):
    add = boom


@wrong("index", "made", "slides and lists")
class LosesCodesOnAdd(HonestIndex):
    def add(self, codes):
        super().add(codes[1:])


@wrong("index", "made", "ids.*" + RAISES)
class IdsRaise(HonestIndex):
    ids = property(boom)


@wrong("index", "search", r"search\(\).*" + RAISES)
class SearchRaises(HonestIndex):
    search = boom
    search_many = boom


@wrong("index", "search", "SystemExit")
class SearchExits(HonestIndex):
    def search(self, code, k, among=None):
        sys.exit(0)

    def search_many(self, codes, k, among=None):
        sys.exit(0)


@wrong("index", "made", r"search_many\(\).*" + RAISES)
class SearchManyRaises(HonestIndex):
    search_many = boom


@wrong("index", "made", r"other hits from search_many\(\)|after -?[\d.]+ at rank|a slide that this search excludes")
class SearchManyLies(HonestIndex):
    def search_many(self, codes, k, among=None):
        return [hits[1:] for hits in super().search_many(codes, k, among)]


@wrong("index", "made", r"cannot be called as search\(code, k, among\)")
class SearchTakesLess(HonestIndex):
    def search(self, code):  # type: ignore[override]
        return []


class _WrongHits(HonestIndex):
    """Hits of both kinds of search, made wrong in one place."""

    spoil: ClassVar[Any]

    def search(self, code, k, among=None):
        return self.spoil(super().search(code, k, among), code, k)

    def search_many(self, codes, k, among=None):
        return [self.spoil(hits, code, k) for hits, code in zip(super().search_many(codes, k, among), codes)]


class _WrongHitsLater(_WrongHits):
    """The same while flaws are active: the archive is built, and the probe has passed."""

    def search(self, code, k, among=None):
        return _WrongHits.search(self, code, k, among) if armed() else HonestIndex.search(self, code, k, among)

    def search_many(self, codes, k, among=None):
        of = _WrongHits if armed() else HonestIndex
        return of.search_many(self, codes, k, among)


@wrong("index", "search", "a slide that this search excludes")
class IgnoresTheMask(HonestIndex):
    """It shows the query's own patient."""

    def search(self, code, k, among=None):
        return super().search(code, k)

    def search_many(self, codes, k, among=None):
        return super().search_many(codes, k)


@wrong("index", "made", "does not find a code itself")
class NegatedDistances(_WrongHits):
    def spoil(self, hits, code, k):
        return [Hit(hit.slide_id, -hit.distance) for hit in reversed(hits)]


@wrong("index", "search", r"at rank \d+, after")
class UnsortedDistances(_WrongHitsLater):
    def spoil(self, hits, code, k):
        return hits[::-1]


@wrong("index", "search", "the distance nan at rank")
class NanDistance(_WrongHitsLater):
    def spoil(self, hits, code, k):
        return [replace(hit, distance=math.nan) for hit in hits]


@wrong("index", "search", "the distance '0.5' at rank")
class DistanceIsText(_WrongHitsLater):
    def spoil(self, hits, code, k):
        return [replace(hit, distance="0.5") for hit in hits]


@wrong("index", "search", r"the distance np.float32\(.*not a finite float")
class DistanceIsFloat32(_WrongHitsLater):
    """It cannot be written as JSON."""

    def spoil(self, hits, code, k):
        return [replace(hit, distance=np.float32(hit.distance)) for hit in hits]


@wrong("index", "search", "twice|hits for k")
class DuplicateHits(_WrongHitsLater):
    def spoil(self, hits, code, k):
        return [hits[0], *hits[:-1]]


@wrong("index", "search", r"returned \d+ hits for k = ")
class MoreHitsThanAsked(_WrongHitsLater):
    def spoil(self, hits, code, k):
        return [*hits, *hits][: k + 1]


@wrong("index", "search", "did not return a list of hits")
class HitsAreTuples(_WrongHitsLater):
    def spoil(self, hits, code, k):
        return [(hit.slide_id, hit.distance) for hit in hits]


@wrong("index", "search", "did not return a list of hits")
class HitsAreNone(_WrongHitsLater):
    def spoil(self, hits, code, k):
        return None


@wrong("index", "search", "'nowhere' at rank 1: a slide it does not hold")
class UnknownSlideInHits(_WrongHitsLater):
    def spoil(self, hits, code, k):
        return [replace(hits[0], slide_id="nowhere"), *hits[1:]]


@wrong("index", "build", r"save\(\).*" + RAISES, "build")
class IndexSaveRaises(HonestIndex):
    save = boom


@wrong("index", "build", r"save\(\).*No space left", "build")
class IndexSaveHasNoSpace(HonestIndex):
    def save(self, folder):
        raise OSError(28, "No space left on device")


@wrong("index", "build", "nbytes.*" + RAISES, "build bench")
class NbytesRaises(HonestIndex):
    nbytes = property(boom)


@wrong("index", "noted", r"load\(\).*" + RAISES)
class IndexLoadRaises(HonestIndex):
    load = boom


@wrong("index", "noted", r"lists 7 slides after load\(\), and was saved with 8")
class LosesCodesOnLoad(HonestIndex):
    def load(self, folder):
        super().load(folder)
        super().remove([self.ids[0]])


@wrong("index", "noted", r"remove\(\).*" + RAISES)
class RemoveRaises(HonestIndex):
    remove = boom


@wrong("index", "noted", "asked to remove 1 slides and still lists")
class KeepsRemovedSlides(HonestIndex):
    def remove(self, slide_ids):
        pass


@wrong("index", "explain", r"row_distances\(\).*" + RAISES)
class RowDistancesRaise(HonestIndex):
    row_distances = boom


@wrong("index", "explain", "measures a distance of|between rows and shows")
class RowDistancesLie(HonestIndex):
    def row_distances(self, query, target):
        return super().row_distances(query, target) + 0.5


@wrong("index", "explain", r"1 x 1 finite distances from row_distances\(\)")
class RowDistancesOfWrongShape(HonestIndex):
    def row_distances(self, query, target):
        return super().row_distances(query, target)[0]


@wrong("index", "explain", "distance_name.*" + RAISES)
class DistanceNameRaises(HonestIndex):
    distance_name = property(boom)


@wrong("index", "fine", "", options="exact = false")
class OptionNamedExact(Honest):
    """The least an index can be: it has no capability, whatever its options are called."""

    exact: bool = True
    search_many: int = 0
    codes_: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def refuses(self, spec):
        return "" if spec.kind == "float" else "only floats"

    @property
    def ids(self):
        return list(self.codes_)

    @property
    def nbytes(self):
        return sum(code.nbytes for code in self.codes_.values())

    def add(self, codes):
        self.codes_ |= {code.slide_id: code for code in codes}

    def remove(self, slide_ids):
        for slide_id in slide_ids:
            del self.codes_[slide_id]

    def search(self, code, k, among=None):
        kept = [one for row, one in enumerate(self.codes_.values()) if among is None or among[row]]
        hits = [Hit(one.slide_id, float(np.abs(one.rows - code.rows).sum())) for one in kept]
        return sorted(hits, key=lambda hit: (hit.distance, hit.slide_id))[:k]

    def save(self, folder):
        np.savez(folder / "codes.npz", **{name: code.rows for name, code in self.codes_.items()})

    def load(self, folder):
        self.codes_ = {name: Code(name, rows) for name, rows in np.load(folder / "codes.npz").items()}


# Rerankers.


@wrong("reranker", "search", r"distances\(\).*" + RAISES)
class DistancesRaise(HonestReranker):
    distances = boom


@wrong("reranker", "search", "distances that are not finite")
class NanReranking(HonestReranker):
    def distances(self, query, candidates):
        return super().distances(query, candidates) * np.nan


@wrong("reranker", "search", r"did not return \d+ distances")
class RerankingLosesSlides(HonestReranker):
    def distances(self, query, candidates):
        return super().distances(query, candidates)[1:]


@wrong("reranker", "search", "depth.*" + RAISES)
class DepthRaises(HonestReranker):
    depth = property(boom)


@wrong("reranker", "search", "has depth 0, not a whole number")
class NoDepth(HonestReranker):
    @property
    def depth(self):
        return 0


@dataclass
class WithAScale(HonestEncoder):
    """An honest encoder with an option."""

    scale: float = 1.0


# Wrong when they are imported; the classes are in modules of their own.

for _name, _at, _says in (
    ("prints", "fine", ""),
    ("exits", "made", "cannot be imported from .*SystemExit"),
    ("raises", "made", "cannot be imported from .*" + RAISES),
    ("lacks", "made", "cannot be imported from .*no_such_library"),
    ("hangs", "made", "did not finish importing in 1 s"),
):
    add(f"import-{_name}", "encoder", _at, _says, "", "", f"on_import.{_name}:Encoder")  # type: ignore[arg-type]

COMPONENTS = tuple(TABLE)
"""The rows that this module registers under its own name."""


def _register(kind: str) -> Callable[..., None]:
    def hook(register: Any) -> None:
        for row in COMPONENTS:
            if row.kind == kind:
                register(row.name, row.target, "wrong")
        if kind == "encoder":
            register("with-a-scale", f"{__name__}:WithAScale", "honest")

    return hookimpl(hook)


register_selectors, register_featurizers, register_encoders, register_indexes, register_rerankers = (
    _register(kind) for kind in ("selector", "featurizer", "encoder", "index", "reranker")
)


class Plugin:
    """A plugin that offers one honest encoder, to be spoilt."""

    def __init__(self, name: str, **attributes: Any) -> None:
        vars(self).update(attributes)
        self._name = name

    @hookimpl
    def register_encoders(self, register: Any) -> None:
        register(self._name, f"{__name__}:HonestEncoder", "honest")


class NewerHook(Plugin):
    """It implements a hook of a later slideseek too."""

    @hookimpl
    def register_viewers(self, register: Any) -> None:
        raise AssertionError("nobody calls it")


FUTURE = Plugin("of-the-future", slideseek_api=99)
ANCIENT = Plugin("of-the-past", slideseek_api=0)
NEWER_HOOK = NewerHook("beside-an-unknown-hook")
TWICE = Plugin("claimed-twice")

# Wrong as plugins, or in the configuration; the components themselves are honest.

PLUGINS = {
    "slideseek-future 9.0": "FUTURE",
    "slideseek-ancient 0.0.1": "ANCIENT",
    "slideseek-newer 1.5": "NEWER_HOOK",
    "slideseek-one 1.0": "TWICE",
    "slideseek-two 2.0": "TWICE",
}
"""By distribution and version, the plugin of this module that it registers."""

for _name, _says, _named in (
    ("of-the-future", "API version 99.*serves 1: update slideseek", "slideseek-future 9.0"),
    ("of-the-past", "API version 0.*serves 1: update the plugin", "slideseek-ancient 0.0.1"),
    ("claimed-twice", "write 'slideseek-one:claimed-twice' or", "by slideseek-one 1.0 and by slideseek-two 2.0"),
):
    TABLE.append(Wrong(_name, "encoder", "made", _says, FRONT_ENDS, "", named=_named))
TABLE += [
    Wrong("beside-an-unknown-hook", "encoder", "fine", "", FRONT_ENDS, ""),
    Wrong("claimed-by-one", "encoder", "fine", "", FRONT_ENDS, "", component="slideseek-one:claimed-twice"),
    Wrong(
        "inf-option",
        "encoder",
        "made",
        "must be a finite number, not inf",
        FRONT_ENDS,
        "",
        options="scale = inf",
        component="with-a-scale",
        named="engine.inf-option.encoder.scale",
    ),
]
