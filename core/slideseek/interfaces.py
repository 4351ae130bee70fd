"""The protocols a component implements. A capability is one of these protocols or it does not exist.

Every component is a dataclass whose fields are its options; learnt state is
`field(init=False, repr=False, compare=False)` with a trailing underscore. `slideseek.testing` checks that a
component honours its protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeAlias, runtime_checkable

from slideseek.types import Bag, Code, CodeSpec, FeaturizerCard, Float32, Float64, Hit, Mask, Patches, UInt8


@runtime_checkable
class Slide(Protocol):
    """Pixels of one whole-slide image (or plain image) with a known physical resolution.

    dimensions: (width, height) in level-0 pixels. mpp: µm per level-0 pixel.
    """

    @property
    def id(self) -> str: ...

    @property
    def dimensions(self) -> tuple[int, int]: ...

    @property
    def mpp(self) -> float: ...

    def read(self, xy: tuple[int, int], size: int, mpp: float) -> UInt8:
        """Return RGB uint8 (size, size, 3) of the square whose top-left is `xy` (level-0 pixels), resampled to
        exactly `mpp`. What lies outside the slide is white."""
        ...

    def thumbnail(self, side: int) -> UInt8:
        """Return RGB uint8 (h, w, 3) of the whole slide, the longer side at most `side` pixels."""
        ...

    def __enter__(self) -> Slide: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class Outlined(Protocol):
    """A slide that may come with an outline of the tissue to use."""

    @property
    def contours(self) -> Path | None:
        """GeoJSON file of polygons in level-0 pixels, or None: find the tissue yourself."""
        ...


@runtime_checkable
class Selector(Protocol):
    """Choose the patches that stand for a slide."""

    def select(self, slide: Slide) -> Patches:
        """Return the chosen patches; none when the slide shows no tissue. Same slide, same options, same patches."""
        ...


@runtime_checkable
class TissueFinder(Selector, Protocol):
    """A selector that chooses among tissue and can show which tissue it found."""

    def find_tissue(self, slide: Slide, thumbnail: UInt8) -> Mask:
        """Return bool (h, w), true where the selector sees tissue on `thumbnail`, RGB uint8 (h, w, 3) of `slide`."""
        ...


@runtime_checkable
class PatchSized(Selector, Protocol):
    """A selector whose patches all have one physical size, known before a slide is opened."""

    @property
    def patch_um(self) -> float:
        """Side of a patch in µm."""
        ...


@runtime_checkable
class ImportedPatches(Selector, Protocol):
    """A selector that stands for patches chosen elsewhere: its results are named by their own content."""

    @property
    def imported_set(self) -> str:
        """Name of the imported set."""
        ...


@runtime_checkable
class Featurizer(Protocol):
    """Turn patch images into feature vectors."""

    @property
    def width(self) -> int:
        """Length of one feature vector."""
        ...

    def featurize(self, images: UInt8) -> Float32:
        """Turn RGB uint8 (n, side, side, 3) into float32 (n, width); row i depends on image i alone."""
        ...


@runtime_checkable
class Resizing(Protocol):
    """A featurizer that brings every patch to one side anyway: patches are then read at that side straight away."""

    @property
    def side(self) -> int:
        """Side in pixels the featurizer resizes patches to; 0 when it takes them as they are."""
        ...


@runtime_checkable
class Described(Protocol):
    """A featurizer that can say what it expects and whether it could run."""

    def card(self) -> FeaturizerCard:
        """Return the card; cheap: no weights are read, no network is built."""
        ...


@runtime_checkable
class Encoder(Protocol):
    """Turn the set of features of a slide into one code, whatever the order of the patches."""

    def spec(self, width: int) -> CodeSpec:
        """Say what codes of bags with `width` features look like, before any slide is opened."""
        ...

    def encode(self, bag: Bag) -> Code:
        """Encode one bag; an empty bag raises `EmptyBagError`."""
        ...


@runtime_checkable
class Trainable(Encoder, Protocol):
    """An encoder that learns from bags before it can encode."""

    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        """Learn from training slides.

        bags: loaded one at a time when indexed, so do not hold them all. labels: one a bag, "" when unknown.
        groups: the patient of each bag, so that a validation split can keep a patient on one side.
        """
        ...

    def save(self, folder: Path) -> None:
        """Write the learnt state into the existing empty `folder` (safetensors and JSON, never pickle)."""
        ...

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote; the encoder then encodes exactly as the saved one."""
        ...


Progress: TypeAlias = Callable[[Mapping[str, float]], None]
"""Called once an epoch with `epoch`, `epochs` and the epoch's losses."""


@runtime_checkable
class Checkpointed(Trainable, Protocol):
    """A trainable encoder whose training survives being killed."""

    def fit_in(
        self,
        folder: Path,
        bags: Sequence[Bag],
        labels: Sequence[str],
        groups: Sequence[str],
        progress: Progress | None = None,
    ) -> None:
        """Learn as `fit` does, keeping a checkpoint in the existing `folder` after every epoch.

        A checkpoint of the same options and the same training slides that is already there is continued, with
        the same result to the last bit as if training had never stopped; one of others is an error. The
        training log stays in `folder`.
        """
        ...


@runtime_checkable
class Attributable(Encoder, Protocol):
    """An encoder that can say which patches make a slide similar to another."""

    def contributions(self, bag: Bag, code: Code) -> Float64:
        """Split the similarity of `bag` to `code` over the patches of `bag`: float64 (n,), in patch order.

        The parts add up to the similarity of `encode(bag)` and `code`: their cosine for floats, the share of equal
        bits for bits. A part is negative where a patch makes the slides less alike.
        """
        ...


@runtime_checkable
class BatchEncoder(Encoder, Protocol):
    """An encoder that codes many small bags faster together than one by one."""

    def encode_many(self, bags: Sequence[Bag]) -> list[Code]:
        """Return exactly `[encode(bag) for bag in bags]`."""
        ...


@runtime_checkable
class Index(Protocol):
    """Find the nearest codes. An index never sees metadata: filters arrive as a mask over `ids`."""

    def refuses(self, spec: CodeSpec) -> str:
        """Return "" when codes of this spec fit, else the reason, in words."""
        ...

    @property
    def ids(self) -> Sequence[str]:
        """Slide ids held, in the order masks are given in."""
        ...

    def add(self, codes: Sequence[Code]) -> None:
        """Add codes; a slide id that is already there is an error."""
        ...

    def remove(self, slide_ids: Sequence[str]) -> None:
        """Remove slides; an id that is not there is an error and nothing is removed."""
        ...

    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        """Return at most k hits, nearest first, equal distances by slide id.

        among: bool (len(ids),), only slides whose entry is true are candidates. Codes of another `space` than
        the query's are never candidates.
        """
        ...

    @property
    def nbytes(self) -> int:
        """Bytes the stored codes take."""
        ...

    def save(self, folder: Path) -> None:
        """Write the index into the existing empty `folder`."""
        ...

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote; may map files instead of reading them."""
        ...


@runtime_checkable
class SetIndex(Index, Protocol):
    """An index that compares sets of rows and can say how the distance of two sets follows from their rows."""

    def set_distance(self, between: Float64) -> float:
        """Return the distance of a query set to a target set, as `search` gives it.

        between: float64 (query rows, target rows), the distance of every query row to every target row.
        """
        ...


@runtime_checkable
class BatchIndex(Index, Protocol):
    """An index that answers many queries at once, faster than one by one and with the same hits."""

    def search_many(self, codes: Sequence[Code], k: int, among: Mask | None = None) -> list[list[Hit]]:
        """Return `search(code, k, among)` of every code, in order."""
        ...


@runtime_checkable
class StatesExactness(Index, Protocol):
    """An index that says whether its hits are always the nearest codes. One that does not say counts as approximate."""

    @property
    def exact(self) -> bool:
        """Whether every search compares all candidates; false for an approximate index."""
        ...


@runtime_checkable
class Fingerprinted(Protocol):
    """A component whose output depends on more than its options."""

    def fingerprint(self) -> str:
        """Name what else decides the output: the SHA-256 of weights, the revision of an algorithm.

        It enters the key under which results are kept: when it changes, they are computed again.
        """
        ...
