"""An engine: its components and the one-directional flow from a slide to a code.

The engine only computes; it knows nothing about archives. `slideseek.building` stores its results,
`slideseek.searching` uses them. Components are called here and nowhere else, through `slideseek.boundary`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import numpy as np

from slideseek.boundary import CheckedIndex, Owner, same_code
from slideseek.config import ComponentConfig, EngineConfig, make_component, settings
from slideseek.digests import digest
from slideseek.errors import NotAttributableError, PluginError, SlideseekError, UsageError
from slideseek.interfaces import (
    Attributable,
    BatchEncoder,
    Checkpointed,
    ChecksFocus,
    Encoder,
    EncodesText,
    Featurizer,
    Fingerprinted,
    ImportedPatches,
    KeepsSpace,
    NeedsFeaturizer,
    PatchSized,
    Progress,
    Reranker,
    Resizing,
    Selector,
    Slide,
    TissueFinder,
    Trainable,
    implements,
)
from slideseek.makers import maker_of
from slideseek.options import nested_components
from slideseek.plugins import ComponentKind, Registry
from slideseek.slides.patch_images import patch_images
from slideseek.types import Bag, Code, CodeSpec, Float32, Float64, Int64, Mask, Patches, UInt8

MOST_PATH = 4096
"""Characters above which an option is not looked up as a file."""

NO_TEXT = "neither its featurizer nor its encoder encodes text"


@dataclass(frozen=True)
class Resolved:
    """An engine's resolved configuration: enough to find its results without importing a component.

    settings: by kind, the options with their defaults and anything else that affects the output; stored with results.
    patch_um: side of a patch in µm, None if it varies. imported: its patches were selected elsewhere. makers: by kind,
    the distribution and version of the code. no_text: why it cannot be queried with text, "" if it can.
    """

    settings: Mapping[ComponentKind, Mapping[str, Any]]
    spec: CodeSpec
    trainable: bool
    patch_um: float | None = None
    imported: bool = False
    makers: Mapping[ComponentKind, str] = field(default_factory=dict, compare=False)
    no_text: str = field(default=NO_TEXT, compare=False)


@dataclass(frozen=True)
class Engine:
    """Components that fit together, created on first use.

    Created by `make_engine`, which checks that they fit, or by `recall_engine` from an earlier check's result.
    """

    config: EngineConfig
    registry: Registry
    resolved: Resolved

    @property
    def name(self) -> str:
        """The engine's name in the configuration."""
        return self.config.name

    @property
    def made(self) -> bool:
        """Whether its components were created and checked, not only recalled from a former check."""
        return "encoder" in self.__dict__

    @property
    def spec(self) -> CodeSpec:
        """The format of the engine's codes."""
        return self.resolved.spec

    @cached_property
    def selector(self) -> Selector:
        """The component that chooses patches."""
        made: Selector = self._make("selector")
        return made

    @cached_property
    def featurizer(self) -> Featurizer:
        """The component that turns patches into features."""
        made: Featurizer = self._make("featurizer")
        return made

    @cached_property
    def encoder(self) -> Encoder:
        """The component that turns a bag into a code."""
        made: Encoder = self._make("encoder")
        return made

    @cached_property
    def reranker(self) -> Reranker | None:
        """The component that orders the nearest slides again, if the engine has one."""
        made: Reranker | None = self._make("reranker") if self.config.reranker else None
        return made

    @property
    def trainable(self) -> Trainable | None:
        """The encoder, if it is trainable."""
        if not self.resolved.trainable:
            return None
        return self.encoder if implements(self.encoder, Trainable) else None

    @property
    def batches(self) -> bool:
        """Whether the encoder encodes several bags faster together."""
        return implements(self.encoder, BatchEncoder)

    def new_index(self) -> CheckedIndex:
        """Create an empty index of the configured kind."""
        return CheckedIndex(self._make("index"), self.owner("index"))

    def owner(self, kind: ComponentKind) -> Owner:
        """Return who answers for a component."""
        return self._owners[kind]

    @cached_property
    def _owners(self) -> dict[ComponentKind, Owner]:
        config = self.config
        return {kind: Owner.of(self.registry, kind, config.component(kind).use) for kind in config.kinds}

    def _make(self, kind: ComponentKind) -> Any:
        key = "rerank" if kind == "reranker" else kind
        return make_component(self.registry, self.config.component(kind), f"engine.{self.name}.{key}")

    def select(self, slide: Slide) -> Patches:
        """Choose the patches of a slide."""
        owner = self.owner("selector")
        return owner.check_patches(owner.call(f"select() for {slide.id!r}", self.selector.select, slide), slide.id)

    def find_tissue(self, slide: Slide, thumbnail: UInt8) -> Mask | None:
        """Return where a thumbnail of the slide shows tissue, bool (h, w); None if the selector does not report it."""
        selector, owner = self.selector, self.owner("selector")
        if not implements(selector, TissueFinder):
            return None
        mask = owner.call(f"find_tissue() for {slide.id!r}", selector.find_tissue, slide, thumbnail)
        return owner.check_tissue(mask, thumbnail)

    @property
    def width(self) -> int:
        """Length of one feature vector."""
        return self.owner("featurizer").read_count(self.featurizer, "width")

    @property
    def _side(self) -> int:
        """Side in pixels the featurizer resizes patches to, 0 if it takes them as they are."""
        resizes = implements(self.featurizer, Resizing)
        return self.owner("featurizer").read_count(self.featurizer, "side", least=0) if resizes else 0

    def read_side(self, patches: Patches) -> int:
        """Return the side in pixels to read patches at.

        If a featurizer resizes every patch, patches are read from the slide at that side directly. The field of view
        stays the same, but a coarser level of the pyramid is used and far fewer pixels are decoded.
        """
        side = self._side
        return side if 0 < side < patches.size else patches.size

    def features(self, images: UInt8) -> Float32:
        """Featurize images and check that the features have the promised type and shape and are finite."""
        owner = self.owner("featurizer")
        features = owner.call("featurize()", self.featurizer.featurize, images)
        checked = owner.check_features(features, len(images), self.width)
        self.__dict__["_worked"] = True
        return checked

    def blur_um(self, images: UInt8, patches: Patches, slide_mpp: float) -> Float32:
        """Return how far images of patches are out of focus, float32 (n,) in µm; 0 if the selector does not look."""
        selector, owner, mpp = self.selector, self.owner("selector"), patches.mpp * patches.size / images.shape[1]
        if not implements(selector, ChecksFocus):
            return np.zeros(len(images), np.float32)
        found = owner.call("blur_um()", selector.blur_um, images, mpp, slide_mpp)
        return owner.check_focus(found, np.float32, len(images))  # type: ignore[no-any-return]

    def in_focus(self, patches: Patches, rows: Int64, blur: Float32, mpp: float) -> tuple[Patches, Mask, list[str]]:
        """Return the patches of a slide scanned at `mpp` that are sharp enough, which of `rows` they are, and notes.

        rows: int64 (n,), the patches that were read. blur: float32 (n,), as `blur_um` returns it.
        """
        selector, owner, read = self.selector, self.owner("selector"), patches.take(rows)
        if not implements(selector, ChecksFocus) or not len(rows):
            return read, np.ones(len(rows), np.bool_), []
        seen = read.mpp * read.size / self.read_side(patches)
        sharp, notes = owner.call("in_focus()", selector.in_focus, blur, seen, mpp)
        sharp = owner.check_focus(sharp, np.bool_, len(rows))
        known = {"blur_um": f"{np.median(blur):.2f}", "blurred": f"{1 - sharp.mean():.2f}"}
        read = replace(read, measured={**read.measured, **known}, scores={**read.scores, "blur_um": blur})
        return read.take(sharp), sharp, list(notes)

    def featurize(self, slide: Slide, patches: Patches, site: str = "") -> tuple[Bag, list[str]]:
        """Read the patches and turn them into a bag, a bounded number at a time; return it with notes."""
        parts, kept, blur = [np.zeros((0, self.width), np.float32)], [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
        for rows, images in patch_images(slide, patches, self.read_side(patches)):
            parts.append(self.features(images))
            blur.append(self.blur_um(images, patches.take(rows), slide.mpp))
            kept.append(rows)
        used, sharp, notes = self.in_focus(patches, np.concatenate(kept), np.concatenate(blur), slide.mpp)
        return make_bag(np.concatenate(parts)[sharp], used, site, slide.mpp), notes

    def encode(self, bag: Bag) -> Code:
        """Encode a bag and check that the code has the promised format."""
        owner = self.owner("encoder")
        code = owner.call(f"encode() for {bag.slide_id!r}", self.encoder.encode, bag)
        return owner.check_code(code, bag, self.spec)

    def encode_text(self, text: str, name: str) -> tuple[Code, Bag]:
        """Encode text; return its code and the featurizer's view of it as a bag, empty if the encoder encodes it."""
        by_encoder = implements(self.encoder, EncodesText)
        kind: ComponentKind = "encoder" if by_encoder else "featurizer"
        owner, width = self.owner(kind), self.spec.width if by_encoder else self.width
        component = cast(EncodesText, getattr(self, kind))
        rows = owner.check_features(owner.call("encode_text()", component.encode_text, [text]), 1, width)
        features = np.zeros((0, 1), np.float32) if by_encoder else rows
        bag = Bag(name, features, np.zeros((len(features), 2), np.int32), sides=np.zeros(len(features)))
        return (Code(name, rows) if by_encoder else self.encode(bag)), bag

    def encode_many(self, bags: Sequence[Bag]) -> list[Code]:
        """Encode several bags, in one batch if the encoder can; the codes are the same as one by one."""
        encoder, owner = self.encoder, self.owner("encoder")
        if len(bags) < 2 or not implements(encoder, BatchEncoder):
            return [self.encode(bag) for bag in bags]
        codes = owner.check_batch(owner.call("encode_many()", encoder.encode_many, bags), len(bags), "encode_many")
        checked = [owner.check_code(code, bag, self.spec) for code, bag in zip(codes, bags)]
        one = crc32(bags[0].slide_id.encode()) % len(bags)  # any of them, and always the same
        if not same_code(checked[one], self.encode(bags[one])):
            raise owner.wrong("returned other codes from encode_many() than from encode()")
        return checked

    def fit(
        self,
        bags: Sequence[Bag],
        labels: Sequence[str],
        groups: Sequence[str],
        folder: Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Fit the encoder and check what it then encodes. folder: for checkpoints, if the encoder writes any."""
        encoder, owner = self.encoder, self.owner("encoder")
        if folder is not None and implements(encoder, Checkpointed):
            owner.call("fit_in()", encoder.fit_in, folder, bags, labels, groups, progress)
        elif implements(encoder, Trainable):
            owner.call("fit()", encoder.fit, bags, labels, groups)
        self.probe_codes([bags[number] for number in range(min(3, len(bags)))])

    def check_saved(self, load: Callable[[Trainable], None], bag: Bag) -> None:
        """Raise `PluginError` unless a fresh encoder that `load` restores encodes a bag as the fitted one does."""
        owner, config = self.owner("encoder"), self.config
        fresh = make_component(self.registry, config.encoder, f"engine.{config.name}.encoder")
        owner.call("load()", load, fresh)
        try:
            code = owner.check_code(owner.call("encode() after load()", fresh.encode, bag), bag, self.spec)
        except PluginError:
            raise
        except SlideseekError as error:  # it encoded this bag before
            raise owner.wrong(f"does not encode after load() ({error.cause})") from error
        if not same_code(code, self.encode(bag)):
            raise owner.wrong("gives other codes after save() and load() than before")

    def contributions(self, bag: Bag, code: Code) -> Float64 | None:
        """Split the similarity of a bag to a code over its patches; None if the encoder cannot."""
        encoder, owner = self.encoder, self.owner("encoder")
        if not implements(encoder, Attributable):
            return None
        try:
            parts = owner.call(f"contributions() for {bag.slide_id!r}", encoder.contributions, bag, code)
        except NotAttributableError:  # an encoder made of others can only if all of them can
            return None
        return owner.check_contributions(parts, len(bag))

    def ready_featurizer(self) -> None:
        """Featurize no images, once: a network is loaded while the first slide is read, or says what it lacks."""
        side, before = self._side or 224, self.__dict__.get("_ready")
        self.__dict__["_ready"] = True
        try:
            _ = before or self.featurizer.featurize(np.zeros((0, side, side, 3), np.uint8))
        except SlideseekError:
            raise
        except (Exception, SystemExit):  # it need not take an empty batch: the first images try it
            pass

    def probe_features(self) -> None:
        """Featurize two toy images if none was featurized yet: a network that cannot work is one error, not many."""
        side = self._side or 224
        if not self.__dict__.get("_worked"):
            self.features(np.random.default_rng(0).integers(0, 256, (2, side, side, 3), dtype=np.uint8))

    def probe_codes(self, bags: Sequence[Bag] = ()) -> None:
        """Encode bags, by default toy ones, one by one and in a batch, and search an index of their codes.

        A wrong format, a batch that differs, or an index that does not find a code itself is a `PluginError`. An
        encoder may refuse toy bags with an error of its own.
        """
        bags = bags or toy_bags(self.width)
        try:
            alone = [self.encode(bag) for bag in bags]
            if not same_code(alone[0], self.encode(bags[0])):
                raise self.owner("encoder").wrong("gives another code each time it encodes the same patches")
            together = self.encode_many(bags)
        except UsageError:
            raise
        except SlideseekError:
            return
        if not all(same_code(one, other) for one, other in zip(alone, together)):
            raise self.owner("encoder").wrong("returned other codes from encode_many() than from encode()")
        self.new_index().probe(alone)

    def probe_reranker(self) -> None:
        """Compare toy bags; a reranker may refuse them with an error of its own."""
        if self.reranker is None:
            return
        query, *others = toy_bags(self.width)
        owner = self.owner("reranker")
        try:
            distances = owner.call("distances()", self.reranker.distances, query, others)
        except UsageError:
            raise
        except SlideseekError:
            return
        owner.check_distances(distances, len(others))

    @cached_property
    def select_digest(self) -> str:
        """Digest of the selector's settings."""
        return digest(self.resolved.settings["selector"])

    @cached_property
    def feature_digest(self) -> str:
        """Digest of the settings that affect the features: selector and featurizer."""
        return digest_features(self.select_digest, self.resolved.settings["featurizer"])

    @cached_property
    def encoder_digest(self) -> str:
        """Digest of the settings that affect the model: everything up to the encoder."""
        return digest([self.feature_digest, self.resolved.settings["encoder"]])

    @cached_property
    def index_digest(self) -> str:
        """Digest of the index's settings."""
        return digest(self.resolved.settings["index"])


def digest_features(select_digest: str, featurizer: Mapping[str, Any]) -> str:
    """Return the digest that identifies features: of the selector's digest and the featurizer's resolved settings."""
    return digest([select_digest, featurizer])


def make_bag(features: Float32, patches: Patches, site: str, slide_mpp: float) -> Bag:
    """Return the bag of patches and their features, float32 (n, width)."""
    return Bag(patches.slide_id, features, patches.xy, site, patches.size * patches.mpp / slide_mpp, slide_mpp)


def toy_bags(width: int) -> list[Bag]:
    """Return three small bags of random features, to try components with."""
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.arange(3), np.arange(2)), axis=-1).reshape(-1, 2).astype(np.int32) * 512
    sides = np.full(len(grid), 512.0)
    return [
        Bag(f"toy-{number}", rng.normal(size=(len(grid), width)).astype(np.float32), grid, "toy", sides, 0.5)
        for number in range(3)
    ]


def make_engine(config: EngineConfig, registry: Registry, probe: bool = True) -> Engine:
    """Create an engine's components and check that they fit together, before any slide is opened.

    probe: also try the components on toy data, so that a plugin that breaks its protocol is named now.
    """
    parts: dict[ComponentKind, Any] = {}
    owners: dict[ComponentKind, Owner] = {}
    for kind in config.kinds:
        key = "rerank" if kind == "reranker" else kind
        parts[kind] = make_component(registry, config.component(kind), f"engine.{config.name}.{key}")
        owners[kind] = Owner.of(registry, kind, config.component(kind).use)
        owners[kind].check_signatures(parts[kind])
    featurizer, encoder, selector = parts["featurizer"], parts["encoder"], parts["selector"]
    owner = owners["encoder"]
    check_parts(encoder, featurizer_names(config), owner, f"engine.{config.name}.encoder")
    width = owners["featurizer"].read_count(featurizer, "width")
    spec = owner.check_spec(owner.call("spec()", encoder.spec, width))
    if reason := owners["index"].refuses(parts["index"], spec):
        raise UsageError(
            f"engine.{config.name}.index: index {config.index.use!r} does not accept the codes of encoder"
            f" {config.encoder.use!r} ({spec}): {reason}",
            "choose another index: 'slideseek plugins list'",
        )
    found = Resolved(
        {kind: resolved_settings(part, config.component(kind), registry) for kind, part in parts.items()},
        spec,
        trainable=implements(encoder, Trainable),
        patch_um=owners["selector"].read(selector, "patch_um") if implements(selector, PatchSized) else None,
        imported=implements(selector, ImportedPatches),
        makers={
            kind: str(maker_of(registry.find(kind, config.component(kind).use), part)) for kind, part in parts.items()
        },
        no_text=_no_text(parts, spec, owner),
    )
    engine = Engine(config, registry, found)
    for kind in ("selector", "featurizer", "encoder", "reranker"):
        engine.__dict__[kind] = parts.get(kind)  # already created: `cached_property` would create it again
    if probe and not found.trainable:
        engine.probe_codes()
    if probe:
        engine.probe_reranker()
    return engine


def _no_text(parts: Mapping[ComponentKind, Any], spec: CodeSpec, owner: Owner) -> str:
    """Return why text cannot be compared with the codes of these components, "" if it can. owner: of the encoder."""
    encoder = parts["encoder"]
    if implements(encoder, EncodesText):
        if spec.kind != "float":
            return f"its encoder encodes text, but its codes are {spec}"
        return "its reranker compares patches, and its encoder encodes text as a slide" if "reranker" in parts else ""
    if not implements(parts["featurizer"], EncodesText):
        return NO_TEXT
    if not implements(encoder, KeepsSpace) or not owner.read(encoder, "in_feature_space"):
        return "its featurizer encodes text, but the codes of its encoder are not in the space of the features"
    return ""


def featurizer_names(config: EngineConfig) -> tuple[str, ...]:
    """Return the names that an engine's features go by: the featurizer's, its model's, or an imported set's."""
    use, options = config.featurizer.use, config.featurizer.options
    stated = [options.get(name, "") for name in ("set", "model", "preset")]
    return tuple(dict.fromkeys([use, use.rpartition(":")[2], *map(str, filter(None, stated))]))


def check_parts(encoder: Any, features: Collection[str], owner: Owner, where: str) -> None:
    """Raise an error if an encoder, or one it is made of, cannot work in an engine.

    features: the names of the featurizer, or of the set, that the features go by; none if they are unknown. where: the
    encoder's place in a configuration.
    """
    if implements(encoder, NeedsFeaturizer) and features:
        needed = owner.read(encoder, "featurizers")
        if not set(features) & set(needed):
            raise UsageError(
                f"{where}: the encoder needs features of {' or '.join(needed)}, not of {next(iter(features))!r}",
                f"use the featurizer or model {needed[0]!r}, or import a set of features of that name",
            )
    for name, part in nested_components(encoder):
        if implements(part, Trainable) and not implements(encoder, Trainable):
            raise UsageError(
                f"{where}.{name}: {type(part).__name__} has to be fitted, and {owner} does not fit it",
                "use an encoder there that learns nothing, or name Trainable as a base class and fit it in fit()",
            )
        check_parts(part, features, owner, f"{where}.{name}")


def resolved_settings(component: Any, config: ComponentConfig, registry: Registry) -> dict[str, Any]:
    """Return a component's options with their defaults, and anything else that affects its output."""
    owner = Owner.of(registry, config.kind, config.use)
    resolved = settings(component, config, lambda part, inner: resolved_settings(part, inner, registry), str(owner))
    if implements(component, Fingerprinted):
        resolved["fingerprint"] = owner.call("fingerprint()", component.fingerprint)
    if identity := maker_of(registry.find(config.kind, config.use), component).identity:
        resolved["made_by"] = identity
    return resolved


def make_engines(configs: Sequence[EngineConfig], registry: Registry) -> list[Engine]:
    """Create several engines; all are checked before work begins."""
    return [make_engine(config, registry) for config in configs]


def signature(config: EngineConfig, registry: Registry) -> str:
    """Return a digest of a configuration, the versions of its plugins and the files it names, without importing any.

    It is "" if only making the components shows more: one is being edited, or an option is not a finite number.
    """
    parts: list[Any] = []
    for kind in config.kinds:
        component = config.component(kind)
        try:
            entry = registry.find(kind, component.use)
        except PluginError as error:
            raise PluginError(f"engine.{config.name}.{kind}: {error.cause}", error.fix) from error
        entries = [entry, *(one for name in _nested(component.options) for one in registry.named(name))]
        if any(one.editable for one in entries):
            return ""
        parts.append([kind, component.use, dict(component.options), [[one.target, one.owner] for one in entries]])
        parts.append([[name, *stamp] for name, stamp in _files(component.options)])
    try:
        return digest(parts)
    except ValueError:  # a number that is not finite: making the component says which
        return ""


def _files(value: Any) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the files that options name, such as weights, each with its size and the time of its last change in ns."""
    if isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _files(inner)
    elif isinstance(value, str) and value and len(value) < MOST_PATH and "\0" not in value:
        with suppress(OSError, RuntimeError):  # not a file, or a home folder that does not exist
            path = Path(value).expanduser()
            if path.is_file():
                stat = path.stat()
                yield value, (stat.st_size, stat.st_mtime_ns)


def _nested(value: Any) -> Iterator[str]:
    """Yield the names of components that options contain as tables."""
    if isinstance(value, Mapping):
        if isinstance(value.get("use"), str):
            yield value["use"]
        for inner in value.values():
            yield from _nested(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _nested(inner)


def pack_resolved(resolved: Resolved) -> dict[str, Any]:
    """Return the resolved configuration as plain data."""
    return asdict(resolved)


def recall_engine(config: EngineConfig, registry: Registry, packed: Mapping[str, Any]) -> Engine:
    """Return an engine from its resolved configuration; its components are imported only when used."""
    return Engine(config, registry, unpack_resolved(packed))


def unpack_resolved(packed: Mapping[str, Any]) -> Resolved:
    """Return the resolved configuration from the output of `pack_resolved`, also of a version without makers."""
    return Resolved(**{**packed, "spec": CodeSpec(**packed["spec"])})
