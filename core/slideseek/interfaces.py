"""The protocols that components implement. Every capability is one of these protocols.

Every component is a dataclass whose fields are its options; learnt state is
`field(init=False, repr=False, compare=False)` with a trailing underscore. A component has the capabilities it names as
base classes, and no others: nothing is guessed from the name of a method or an option. The kit checks that
a component follows its protocols.

A component may declare `code_revision: ClassVar[int]`, a number its author raises when the same options give other
results. Results of another revision are computed again. Without it, every version of its distribution counts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, TypeGuard, TypeVar, runtime_checkable

from slideseek.errors import RegionError
from slideseek.types import (
    Bag,
    Code,
    CodeSpec,
    FeaturizerCard,
    Filter,
    Float32,
    Float64,
    Hit,
    Int32,
    Mask,
    Patches,
    SlideFacts,
    SlideRecord,
    UInt8,
)

Capability = TypeVar("Capability")


def implements(component: object, protocol: type[Capability]) -> TypeGuard[Capability]:
    """Return whether a component, or a component class, names a protocol among its base classes."""
    return protocol in (component if isinstance(component, type) else type(component)).__mro__


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
        exactly `mpp`. Pixels outside the slide are white."""
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
    """A slide that may have an outline of the tissue to use."""

    @property
    def contours(self) -> Path | None:
        """GeoJSON file of polygons in level-0 pixels, or None if the selector has to find the tissue."""
        ...


@runtime_checkable
class OpenedSlide(Slide, Outlined, Protocol):
    """A slide as a reader opens it; `slideseek_components.pixels.pyramid.PyramidSlide` implements it.

    notes: for the user. unreadable: regions that could not be decoded so far. filled: pixels read so far that show the
    background because they lie outside the slide or are transparent in it. owner: answers for the slide's errors.
    read_by: what counts of the reader's code, "" for a bundled one.
    """

    contours: Path | None
    unreadable: int
    filled: int
    owner: Any
    read_by: str

    @property
    def notes(self) -> tuple[str, ...]: ...

    @property
    def facts(self) -> SlideFacts: ...

    def add_notes(self, notes: Sequence[str]) -> None:
        """Add notes on how the slide was opened."""
        ...

    def interrupt(self) -> None:
        """Make reads in progress fail, where the reader can; others go on to their end."""
        ...

    def close(self) -> None:
        """Release the file; reading afterwards raises `SlideError`."""
        ...

    def __enter__(self) -> Self: ...


@runtime_checkable
class Pyramidal(Protocol):
    """A slide that is stored at several resolutions."""

    def nearest_side(self, side: int) -> int:
        """Return the side near `side`, at least 0.8 of it, at which a thumbnail needs the fewest pixels decoded."""
        ...


@runtime_checkable
class ReadsMany(Protocol):
    """A slide that reads many squares faster together than one by one."""

    def read_many(self, xy: Int32, size: int, mpp: Float64) -> tuple[UInt8, dict[int, RegionError]]:
        """Return the squares that can be decoded, in order, and by its number why another cannot.

        xy: int32 (n, 2), mpp: float64 (n,), each as in `Slide.read`. Squares: uint8 (at most n, size, size, 3)."""
        ...


@runtime_checkable
class Selector(Protocol):
    """Choose the patches that represent a slide."""

    def select(self, slide: Slide) -> Patches:
        """Return the chosen patches; none if the slide shows no tissue. Deterministic for a slide and options."""
        ...


@runtime_checkable
class TissueFinder(Selector, Protocol):
    """A selector that finds tissue and can report where."""

    def find_tissue(self, slide: Slide, thumbnail: UInt8) -> Mask:
        """Return bool (h, w), true where the selector finds tissue on `thumbnail`, RGB uint8 (h, w, 3) of `slide`."""
        ...


@runtime_checkable
class OffersPatches(Selector, Protocol):
    """A selector that chooses from patches it can list."""

    def offered(self, slide: Slide) -> Patches:
        """Return all patches that `select` chooses from; tissue in none of them is not represented."""
        ...


@runtime_checkable
class PatchSized(Selector, Protocol):
    """A selector that knows the physical size of its patches before a slide is opened."""

    @property
    def patch_um(self) -> float | None:
        """Side of a patch in µm; None if these options give patches of several sizes."""
        ...


@runtime_checkable
class ChecksFocus(Selector, Protocol):
    """A selector that looks at the pixels of the patches it chose, once they are read for the featurizer."""

    def blur_um(self, images: UInt8, mpp: Float64, slide_mpp: float) -> Float32:
        """Return how far RGB uint8 (n, s, s, 3) are out of focus: float32 (n,) in µm, inf where nothing is sharp.

        mpp: float64 (n,), µm per pixel of each image. slide_mpp: µm per pixel of the scan."""
        ...

    def in_focus(self, blur_um: Float32, mpp: Float64, slide_mpp: float) -> tuple[Mask, Sequence[str]]:
        """Return which patches of a slide to use, bool (n,), and notes; a `SlideError` if all are too blurred."""
        ...


@runtime_checkable
class ImportedPatches(Selector, Protocol):
    """A selector that stands for patches selected elsewhere: their keys depend on their own content."""

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
    """A featurizer that resizes every patch to one side: patches are then read at that side directly."""

    @property
    def side(self) -> int:
        """Side in pixels the featurizer resizes patches to; 0 if it takes them as they are."""
        ...


@runtime_checkable
class Described(Protocol):
    """A featurizer that reports what it expects and whether it can run."""

    def card(self) -> FeaturizerCard:
        """Return the card; cheap: no weights are read, no network is built."""
        ...


@runtime_checkable
class EncodesText(Protocol):
    """A featurizer or an encoder that also encodes text, as vectors that compare with those of images by their cosine.

    Many models project an image before they compare it with text: features and codes must be what is projected.
    """

    def encode_text(self, texts: Sequence[str]) -> Float32:
        """Return float32 (n, width), a row per text, as wide as a featurizer's features or an encoder's float codes."""
        ...


@runtime_checkable
class Encoder(Protocol):
    """Turn the set of features of a slide into one code, independent of the order of the patches."""

    def spec(self, width: int) -> CodeSpec:
        """Return the format of codes for bags with `width` features, before any slide is opened."""
        ...

    def encode(self, bag: Bag) -> Code:
        """Encode one bag; an empty bag raises `EmptyBagError`."""
        ...


@runtime_checkable
class KeepsSpace(Encoder, Protocol):
    """An encoder whose codes lie in the space of the features, so that text of a featurizer compares with them."""

    @property
    def in_feature_space(self) -> bool:
        """Whether the code of one patch points where its features do, with these options."""
        ...


@runtime_checkable
class NeedsFeaturizer(Encoder, Protocol):
    """An encoder that understands the features of certain featurizers only."""

    @property
    def featurizers(self) -> Sequence[str]:
        """Names of the featurizers, or of sets of imported features, that it can encode; checked before any work."""
        ...


@runtime_checkable
class Trainable(Encoder, Protocol):
    """An encoder that learns from bags before it can encode."""

    def fit(self, bags: Sequence[Bag], labels: Sequence[str], groups: Sequence[str]) -> None:
        """Learn from training slides.

        bags: loaded one at a time when indexed, so do not hold them all. labels: one per bag, "" if unknown.
        groups: the patient of each bag; a validation split should keep each patient on one side.
        """
        ...

    def save(self, folder: Path) -> None:
        """Write the learnt state into the existing empty `folder` (safetensors and JSON, never pickle)."""
        ...

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote; the encoder then encodes exactly like the saved one."""
        ...


Progress: TypeAlias = Callable[[Mapping[str, float]], None]
"""Called once per epoch with `epoch`, `epochs` and the epoch's losses."""


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
        """Learn like `fit`, with a checkpoint in the existing `folder` after every epoch.

        An existing checkpoint of the same options and training slides is continued, with a result identical to the
        last bit to uninterrupted training; any other checkpoint is an error. The training log stays in `folder`.
        """
        ...


@runtime_checkable
class Attributable(Encoder, Protocol):
    """An encoder that can attribute the similarity of two slides to patches."""

    def contributions(self, bag: Bag, code: Code) -> Float64:
        """Split the similarity of `bag` to `code` over the patches of `bag`: float64 (n,), in patch order.

        The parts add up to the similarity of `encode(bag)` and `code`: their cosine for floats, the share of equal
        bits for bits. A part is negative if the patch makes the slides less similar. An encoder made of others raises
        `NotAttributableError` if one of them is not `Attributable`; a hit is then explained by leaving out patches.
        """
        ...


@runtime_checkable
class BatchEncoder(Encoder, Protocol):
    """An encoder that encodes many small bags faster in one batch than one by one."""

    def encode_many(self, bags: Sequence[Bag]) -> list[Code]:
        """Return exactly `[encode(bag) for bag in bags]`."""
        ...


@runtime_checkable
class Index(Protocol):
    """Find the nearest codes. Filters arrive as a mask over `ids`; only a `FiltersRows` index sees metadata."""

    def refuses(self, spec: CodeSpec) -> str:
        """Return "" if codes of this spec are accepted, else the reason."""
        ...

    @property
    def ids(self) -> Sequence[str]:
        """Slide ids in the index; masks follow this order."""
        ...

    def add(self, codes: Sequence[Code]) -> None:
        """Add codes; a slide id already in the index is an error."""
        ...

    def remove(self, slide_ids: Sequence[str]) -> None:
        """Remove slides; an unknown id is an error and nothing is removed."""
        ...

    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        """Return at most k hits, nearest first, equal distances by slide id.

        among: bool (len(ids),), only slides whose entry is true are candidates. Codes with a different `space` from
        the query's are never candidates.
        """
        ...

    @property
    def nbytes(self) -> int:
        """Bytes used by the stored codes."""
        ...

    def save(self, folder: Path) -> None:
        """Write the index into the existing empty `folder`."""
        ...

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote; files may be memory-mapped instead of read."""
        ...


@runtime_checkable
class MeasuresRows(Protocol):
    """An index or reranker that names its distance and measures it between single rows, so that it can be explained."""

    @property
    def distance_name(self) -> str:
        """What a distance is, for people: "differing bits", "1 - cosine"."""
        ...

    def row_distances(self, query: UInt8 | Float32, target: UInt8 | Float32) -> Float64:
        """Return float64 (n, m): the distance of each of n query rows to each of m target rows.

        Rows are as in `Code.rows` for an index, features for a reranker. For codes of one row this is the distance
        that `search` returns, up to rounding.
        """
        ...


@runtime_checkable
class MeasuresSets(MeasuresRows, Protocol):
    """An index or reranker that compares sets of rows and computes the distance of two sets from that of their rows."""

    def set_distance(self, between: Float64) -> float:
        """Return the distance of a query set to a target set, as a search shows it.

        between: float64 (query rows, target rows), the distance of every query row to every target row.
        """
        ...


@runtime_checkable
class ShiftsDistances(Protocol):
    """An index that adds something to the distance of a slide whatever the query, for instance to prevent hubs."""

    def shift(self, slide_id: str) -> float:
        """Return what a search adds to the distance of rows or sets; 0 for nothing."""
        ...


@runtime_checkable
class BatchIndex(Index, Protocol):
    """An index that answers many queries in one batch, faster than one by one and with the same hits."""

    def search_many(self, codes: Sequence[Code], k: int, among: Mask | None = None) -> list[list[Hit]]:
        """Return `search(code, k, among)` for every code, in order."""
        ...


@runtime_checkable
class StatesExactness(Index, Protocol):
    """An index that says whether its hits are always the nearest codes. One that does not say counts as approximate."""

    @property
    def exact(self) -> bool:
        """Whether every search compares all candidates; false for an approximate index."""
        ...


@runtime_checkable
class KeptElsewhere(Index, Protocol):
    """An index that saves its codes on a server: its folder only says where. Only `save` writes there, and what the
    save before wrote stays readable. A server out of reach is an `UnavailableError`, other content a `DamagedError`."""

    def settle(self, name: str) -> None:
        """Name the place where `save` writes: small letters, digits and underscores, the same for the same codes."""
        ...

    @property
    def damaged(self) -> Sequence[str]:
        """Slides whose codes `load` found damaged: they are removed and added again from the catalogue."""
        ...

    def discard(self, folder: Path) -> None:
        """Delete what the saved `folder` names, if this archive wrote it and it is not where `save` wrote last."""
        ...


@runtime_checkable
class FiltersRows(Index, Protocol):
    """An index that saves the records of its slides beside the codes, and so takes filters instead of a mask."""

    def describe(self, records: Mapping[str, SlideRecord], version: int) -> None:
        """Take the records of all its slides, by id, to be saved by the next `save`. version: of all records."""
        ...

    @property
    def described(self) -> int:
        """Version of the records that were saved with the loaded codes; -1 if slides were added or removed since."""
        ...

    def search_where(self, code: Code, k: int, where: Sequence[Filter]) -> list[Hit]:
        """Return `search` among the slides whose record passes all filters; called only if `described` is current."""
        ...

    def count_where(self, where: Sequence[Filter]) -> int:
        """Return how many slides pass all filters."""
        ...


@runtime_checkable
class Reranker(Protocol):
    """Compare the patches of the query with those of the nearest slides, and order these again."""

    @property
    def depth(self) -> int:
        """How many of the index's nearest slides to compare."""
        ...

    def distances(self, query: Bag, candidates: Sequence[Bag]) -> Float64:
        """Return float64 (candidates,), smaller is more similar; each depends on the query and that bag alone.

        candidates: loaded one at a time when indexed, so do not hold them all.
        """
        ...


@runtime_checkable
class Reader(Protocol):
    """Open slide files of some formats. A reader is made once per process and used by several threads."""

    @property
    def rank(self) -> int:
        """Readers are asked in the order of their ranks. The bundled ones have 100, 200 and 1000 (plain images)."""
        ...

    def claims(self, path: Path, head: bytes) -> bool:
        """Return whether to open a file, by its name and its first bytes (up to 512). Cheap: every slide is asked."""
        ...

    def open(self, path: Path, slide_id: str, mpp: float | None) -> Slide:
        """Return the slide, an `OpenedSlide`. mpp: µm per pixel stated by the user, or None.

        Raise `SlideError` for a file that cannot be read. Raise `slideseek.slides.slide_errors.DeclinedError` for a
        file of another format: the next reader is asked.
        """
        ...


@runtime_checkable
class Remote(Reader, Protocol):
    """A reader of slides elsewhere. `claims` and `open` get a `slides.remote_path.RemotePath`, whose text is a URL."""

    def find(self, path: Path, where: Sequence[str]) -> Sequence[SlideRecord]:
        """Return the slides that a URL names: itself, those of a folder, those of a catalogue. None is downloaded.

        where: conditions on slides of a catalogue, as text. A record has its URL as path, and whatever is known about
        the slide; without an id, it is named by its file.
        """
        ...

    def look_up(self, path: Path) -> tuple[int, str] | None:
        """Return the size in bytes and the version of a slide, from one request; None if there is none at the URL.

        Raise `SlideError` if the URL cannot be reached.
        """
        ...


@runtime_checkable
class Work(Protocol):
    """A piece of work that a build gives to an executor: a slide whose features are missing."""

    @property
    def slide_id(self) -> str: ...

    def read(self) -> Iterator[Any]:
        """Open the slide and yield what `compute` takes. It may run in another thread, ahead of time."""
        ...

    def compute(self, read: Iterator[Any]) -> Iterator[Any]:
        """Do the work, given the items of `read`; yield each result once it is stored."""
        ...


@runtime_checkable
class Executor(Protocol):
    """Run the work of a build: in this process, or in others."""

    def run(self, works: Iterable[Work]) -> Generator[tuple[Work, Iterable[Any]], None, None]:
        """Yield each work with its results, once and in any order. Closing the generator ends what is running.

        works: an iterator of any length, to be read as far as there is something to do it. Iterating the results
        raises `SlideError` for work that cannot be done, and the build goes on with the others.
        """
        ...


@runtime_checkable
class FitsElsewhere(Executor, Protocol):
    """An executor that may also fit encoders in another process."""

    def fit(self, work: Any, progress: Progress) -> Any:
        """Do `work.run(progress)` elsewhere and return its result, which JSON can hold; None: do it here."""
        ...


@runtime_checkable
class Fingerprinted(Protocol):
    """A component whose output depends on more than its options."""

    def fingerprint(self) -> str:
        """Return what else affects the output: the SHA-256 of weights, the revision of an algorithm.

        It is part of the key of stored results: if it changes, they are computed again.
        """
        ...


KIND_PROTOCOLS: Mapping[str, type[Any]] = {
    "selector": Selector,
    "featurizer": Featurizer,
    "encoder": Encoder,
    "index": Index,
    "reranker": Reranker,
    "reader": Reader,
    "executor": Executor,
}
"""The protocol that every component of a kind follows; it need not be named as a base class."""

CAPABILITIES: Mapping[str, tuple[type[Any], ...]] = {
    "selector": (TissueFinder, OffersPatches, PatchSized, ChecksFocus, ImportedPatches, Fingerprinted),
    "featurizer": (Resizing, Described, EncodesText, Fingerprinted),
    "encoder": (
        KeepsSpace,
        EncodesText,
        NeedsFeaturizer,
        Trainable,
        Checkpointed,
        Attributable,
        BatchEncoder,
        Fingerprinted,
    ),
    "index": (
        ShiftsDistances,
        MeasuresRows,
        MeasuresSets,
        BatchIndex,
        StatesExactness,
        KeptElsewhere,
        FiltersRows,
        Fingerprinted,
    ),
    "reranker": (MeasuresRows, MeasuresSets, Fingerprinted),
    "reader": (Remote,),
    "executor": (FitsElsewhere,),
}
"""The optional protocols of each kind, those with the fewest members first."""
