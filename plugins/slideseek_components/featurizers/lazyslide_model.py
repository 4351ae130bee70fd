"""Patch encoders of the package lazyslide-models, and those that encode text too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from slideseek.errors import SlideseekError
from slideseek.interfaces import Described, EncodesText, Featurizer
from slideseek.types import FeaturizerCard, Float32, UInt8
from slideseek_components.featurizers.lazyslide_facts import PATCH_MODELS, TEXT_MODELS, Facts
from slideseek_components.featurizers.lazyslide_zoo import PACKAGE, ZooModel
from slideseek_components.featurizers.pixels import check_images


@dataclass
class LazySlideFeaturizer(ZooModel, Featurizer, Described):
    """Describe a patch by a patch encoder of lazyslide-models, with the package's own preprocessing."""

    known: ClassVar[Mapping[str, Facts]] = {**PATCH_MODELS, **TEXT_MODELS}
    width_: int = field(default=0, init=False, repr=False, compare=False)

    @property
    def width(self) -> int:
        """Length of one feature vector; the network is loaded if the package does not state it."""
        self._allowed()
        return self.facts.width or self.width_ or self.featurize(np.zeros((1, 224, 224, 3), np.uint8)).shape[1]

    def featurize(self, images: UInt8) -> Float32:
        """Turn RGB uint8 (n, s, s, 3) into float32 (n, width)."""
        check_images(images)
        model = self.network()  # before torch is imported: what is missing is said at once
        import torch

        from slideseek_components.featurizers.torch_batches import choose_device, run

        transform: Callable[[UInt8], torch.Tensor] | None = model.get_transform()

        def prepare(image: UInt8) -> Any:
            """Return the image as the model takes it, (3, height, width); as it is if the model resizes it itself."""
            whole = np.ascontiguousarray(image)
            return whole.transpose(2, 0, 1) if transform is None else transform(whole).numpy()

        def encode(pixels: torch.Tensor) -> torch.Tensor:
            return torch.as_tensor(model.encode_image(pixels)).reshape(len(pixels), -1)

        device = choose_device(self.device)
        if not self.width_:
            with torch.inference_mode():
                self.width_ = self._checked(encode(torch.as_tensor(prepare(_BLANK)[None]).to(device)).shape[1])
        return run(encode, images, prepare, self.width_, device, self.batch)

    def card(self) -> FeaturizerCard:
        """Return what the model expects and whether it can run."""
        if self.model not in self.known:
            source = f"a model of {PACKAGE}: {', '.join(self.known)}"
            return FeaturizerCard(None, 224, 0.5, "of the model", source, False)
        facts = self.facts
        present = find_spec("lazyslide_models") is not None and self._in_place(facts)
        source = f"huggingface.co/{facts.hub}" + (", terms to accept" if facts.gated else "")
        return FeaturizerCard(self.width_ or facts.width, facts.side, 0.5, facts.licence, source, present)

    def _in_place(self, facts: Facts) -> bool:
        from slideseek_components.featurizers.pinned_hub import in_cache

        if self.weights is not None:
            return self.weights.expanduser().exists()
        return bool(self.revision) and in_cache(facts.hub, self.revision, facts.files)

    def _checked(self, width: int) -> int:
        """Return the width of the loaded network, which must be the one that was stated before it was loaded."""
        stated = self.facts.width
        if stated not in (None, width):
            raise SlideseekError(
                f"{PACKAGE} model {self.model!r} has features of {width} values, not {stated}",
                "check that the weights are of this model",
            )
        return width


@dataclass
class LazySlideText(LazySlideFeaturizer, EncodesText):
    """Describe a patch by an image-text model of lazyslide-models, which encodes text into the same space.

    unit: divide each feature by its length, as these models do before they compare an image with text.
    """

    known: ClassVar[Mapping[str, Facts]] = TEXT_MODELS
    what: ClassVar[str] = "image-text model"

    unit: bool = True

    def featurize(self, images: UInt8) -> Float32:
        """Turn RGB uint8 (n, s, s, 3) into float32 (n, width), of length 1 if `unit`."""
        features = super().featurize(images)
        if self.unit:
            features = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), np.float32(1e-12))
        return features

    def encode_text(self, texts: Sequence[str]) -> Float32:
        """Turn texts into float32 (n, width) of length 1."""
        import torch

        model, rows = self.network(), np.zeros((len(texts), self.width), np.float32)
        for number, text in enumerate(texts):  # one by one: a row must not depend on the padding of others
            rows[number] = torch.as_tensor(model.encode_text([text])).float().cpu().numpy().reshape(-1)
        return rows


_BLANK = np.zeros((224, 224, 3), np.uint8)
