"""An engine: four components and the one-directional flow from a slide to a code.

The engine only computes; it knows nothing about archives. `slideseek.building` stores its results,
`slideseek.searching` uses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slideseek.config import EngineConfig, make_component, settings
from slideseek.digests import digest
from slideseek.errors import PluginError, UsageError
from slideseek.interfaces import (
    BatchEncoder,
    Encoder,
    Featurizer,
    Fingerprinted,
    ImportedPatches,
    Index,
    PatchSized,
    Resizing,
    Selector,
    Slide,
    Trainable,
)
from slideseek.plugins import COMPONENT_KINDS, ComponentKind, Registry
from slideseek.slides.patch_images import patch_images
from slideseek.types import Bag, Code, CodeSpec, Float32, Patches, UInt8


@dataclass(frozen=True)
class Resolved:
    """An engine's resolved configuration: enough to find its results without importing a component.

    settings: by kind, the options with their defaults and anything else that affects the output; stored with results.
    patch_um: side of a patch in µm, None if it varies. imported: its patches were selected elsewhere.
    """

    settings: Mapping[ComponentKind, Mapping[str, Any]]
    spec: CodeSpec
    trainable: bool
    patch_um: float | None = None
    imported: bool = False


@dataclass(frozen=True)
class Engine:
    """Four components that fit together, created on first use.

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

    @property
    def trainable(self) -> Trainable | None:
        """The encoder, if it is trainable."""
        if not self.resolved.trainable:
            return None
        return self.encoder if isinstance(self.encoder, Trainable) else None

    def new_index(self) -> Index:
        """Create an empty index of the configured kind."""
        made: Index = self._make("index")
        return made

    def _make(self, kind: ComponentKind) -> Any:
        return make_component(self.registry, self.config.component(kind), f"engine.{self.name}.{kind}")

    def select(self, slide: Slide) -> Patches:
        """Choose the patches of a slide."""
        patches = self.selector.select(slide)
        if patches.slide_id != slide.id:
            raise PluginError(
                f"selector {self.config.selector.use!r} returned patches of {patches.slide_id!r} for slide {slide.id!r}"
            )
        return patches

    def read_side(self, patches: Patches) -> int:
        """Return the side in pixels to read patches at.

        If a featurizer resizes every patch, patches are read from the slide at that side directly. The field of view
        stays the same, but a coarser level of the pyramid is used and far fewer pixels are decoded.
        """
        side = self.featurizer.side if isinstance(self.featurizer, Resizing) else 0
        return side if 0 < side < patches.size else patches.size

    def features(self, images: UInt8) -> Float32:
        """Featurize images and check that the features have the promised type and shape."""
        features = self.featurizer.featurize(images)
        if features.shape != (len(images), self.featurizer.width) or features.dtype != np.float32:
            raise PluginError(
                f"featurizer {self.config.featurizer.use!r} returned {features.dtype} {features.shape},"
                f" not float32 ({len(images)}, {self.featurizer.width})"
            )
        return features

    def featurize(self, slide: Slide, patches: Patches, site: str = "") -> Bag:
        """Read the patches and turn them into a bag, a bounded number of patches at a time."""
        parts = [np.zeros((0, self.featurizer.width), np.float32)]
        places = [np.zeros((0, 2), np.int32)]
        for rows, images in patch_images(slide, patches, self.read_side(patches)):
            parts.append(self.features(images))
            places.append(patches.xy[rows])
        return Bag(slide.id, np.concatenate(parts), np.concatenate(places), site)

    def encode(self, bag: Bag) -> Code:
        """Encode a bag and check that the code has the promised format."""
        return self._checked(self.encoder.encode(bag), bag)

    def encode_many(self, bags: Sequence[Bag]) -> list[Code]:
        """Encode several bags, in one batch if the encoder can; the codes are the same as one by one."""
        if len(bags) < 2 or not isinstance(self.encoder, BatchEncoder):
            return [self.encode(bag) for bag in bags]
        codes = self.encoder.encode_many(bags)
        if len(codes) != len(bags):
            raise PluginError(
                f"encoder {self.config.encoder.use!r} returned {len(codes)} codes for {len(bags)} bags",
                "update the plugin",
            )
        return [self._checked(code, bag) for code, bag in zip(codes, bags)]

    def _checked(self, code: Code, bag: Bag) -> Code:
        if wrong := code.mismatch(self.spec):
            raise PluginError(
                f"encoder {self.config.encoder.use!r} returned a wrong code for {bag.slide_id!r}: {wrong}"
            )
        if code.slide_id != bag.slide_id:
            raise PluginError(
                f"encoder {self.config.encoder.use!r} returned a code of {code.slide_id!r} for {bag.slide_id!r}"
            )
        return code

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


def make_engine(config: EngineConfig, registry: Registry) -> Engine:
    """Create an engine's components and check that they fit together, before any slide is opened."""
    parts: dict[ComponentKind, Any] = {
        kind: make_component(registry, config.component(kind), f"engine.{config.name}.{kind}")
        for kind in COMPONENT_KINDS
    }
    spec = parts["encoder"].spec(parts["featurizer"].width)
    if reason := parts["index"].refuses(spec):
        raise UsageError(
            f"engine.{config.name}.index: index {config.index.use!r} does not accept the codes of encoder"
            f" {config.encoder.use!r} ({spec}): {reason}",
            "choose another index: 'slideseek plugins list'",
        )
    resolved: dict[ComponentKind, dict[str, Any]] = {}
    for kind, component in parts.items():
        resolved[kind] = resolved_settings(component, config.component(kind).use)
    selector = parts["selector"]
    found = Resolved(
        resolved,
        spec,
        trainable=isinstance(parts["encoder"], Trainable),
        patch_um=selector.patch_um if isinstance(selector, PatchSized) else None,
        imported=isinstance(selector, ImportedPatches),
    )
    engine = Engine(config, registry, found)
    for kind in ("selector", "featurizer", "encoder"):
        engine.__dict__[kind] = parts[kind]  # already created: `cached_property` would create it again
    return engine


def resolved_settings(component: Any, use: str) -> dict[str, Any]:
    """Return a component's options with their defaults, and anything else that affects its output."""
    resolved = settings(component, use)
    if isinstance(component, Fingerprinted):
        resolved["fingerprint"] = component.fingerprint()
    return resolved


def make_engines(configs: Sequence[EngineConfig], registry: Registry) -> list[Engine]:
    """Create several engines; all are checked before work begins."""
    return [make_engine(config, registry) for config in configs]


def signature(config: EngineConfig, registry: Registry) -> str:
    """Return a digest of a configuration and the versions of its plugins, without importing any."""
    parts = []
    for kind in COMPONENT_KINDS:
        component = config.component(kind)
        try:
            owner = registry.find(kind, component.use)
        except PluginError as error:
            raise PluginError(f"engine.{config.name}.{kind}: {error.cause}", error.fix) from error
        parts.append([kind, component.use, dict(component.options), owner.target, owner.owner])
    return digest(parts)


def pack_resolved(resolved: Resolved) -> dict[str, Any]:
    """Return the resolved configuration as plain data."""
    return {
        "settings": resolved.settings,
        "spec": asdict(resolved.spec),
        "trainable": resolved.trainable,
        "patch_um": resolved.patch_um,
        "imported": resolved.imported,
    }


def recall_engine(config: EngineConfig, registry: Registry, packed: Mapping[str, Any]) -> Engine:
    """Return an engine from its resolved configuration; its components are imported only when used."""
    spec, others = CodeSpec(**packed["spec"]), {name: packed[name] for name in ("trainable", "patch_um", "imported")}
    return Engine(config, registry, Resolved(packed["settings"], spec, **others))
