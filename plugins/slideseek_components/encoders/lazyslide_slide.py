"""Slide encoders of the package lazyslide-models, and those whose codes are in the space of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from slideseek.errors import SlideError, SlideseekError, UsageError
from slideseek.interfaces import EncodesText, NeedsFeaturizer
from slideseek.types import Bag, Code, CodeSpec, Float32
from slideseek_components.encoders.bags import canonical_order, finite_features
from slideseek_components.featurizers.lazyslide_facts import SLIDE_MODELS, Facts
from slideseek_components.featurizers.lazyslide_zoo import PACKAGE, ZooModel

if TYPE_CHECKING:
    import torch

PLACED = ("titan", "moozy")
"""Models that need to know where patches are."""

ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "conch_v1.5": ("conch-v1.5", "conch_v15", "conch_v1_5", "conchv1_5"),
    "virchow2": ("virchow2-cls",),
    "chief": ("chief-ctp",),
    "conch-madeleine": ("conch_v1",),
}
"""Other names of patch encoders: of presets, and of the sets that other tools export."""


@dataclass
class LazySlideEncoder(ZooModel, NeedsFeaturizer):
    """Encode a slide by a slide encoder of lazyslide-models: features, places and the side of a patch are passed on.

    The features must be those of the patch encoder that the model was trained on.
    """

    known: ClassVar[Mapping[str, Facts]] = SLIDE_MODELS
    what: ClassVar[str] = "slide encoder"

    @property
    def featurizers(self) -> Sequence[str]:
        """Names of the patch encoder that the model was trained on."""
        return (self.facts.of, *ELSEWHERE.get(self.facts.of, ()))

    def spec(self, width: int) -> CodeSpec:
        """Return one row of floats."""
        self._allowed()
        stated = self.facts.width
        if stated is None:
            raise SlideseekError(f"the width of {PACKAGE} model {self.model!r} is unknown", "use another model")
        return CodeSpec("float", stated)

    def encode(self, bag: Bag) -> Code:
        """Return the slide's vector as float32 (1, width)."""
        row = self._finished(self._embedded(bag)).detach().float().cpu().numpy().reshape(1, -1)
        stated = self.spec(bag.width).width
        if row.shape[1] != stated:
            raise SlideseekError(
                f"{PACKAGE} model {self.model!r} gave {row.shape[1]} values for {bag.slide_id!r}, not {stated}",
                "check that the weights are of this model",
            )
        return Code(bag.slide_id, np.ascontiguousarray(row, np.float32))

    def _finished(self, embedding: torch.Tensor) -> torch.Tensor:
        """Return what is stored of the slide's vector, (1, width)."""
        return embedding

    def _embedded(self, bag: Bag) -> torch.Tensor:
        """Return the model's vector of a bag, (1, width)."""
        features, facts, model = finite_features(bag), self.facts, self.network()
        import torch  # after what is missing was said

        from slideseek_components.featurizers.torch_batches import choose_device

        rows = canonical_order(features)
        rows = rows[np.lexsort((bag.xy[rows, 0], bag.xy[rows, 1]))]  # the same for any order of the patches
        device = choose_device(self.device)
        places: dict[str, Any] = {}
        if self.model in PLACED:
            side = _one_side(bag)
            places = {"coords": torch.from_numpy(bag.xy[rows].astype(np.int64))[None].to(device)}
            places |= {"base_tile_size": side} if self.model == "titan" else {"patch_sizes": float(side)}
        given = torch.from_numpy(np.ascontiguousarray(features[rows, : facts.inputs or None]))[None].to(device)
        try:
            with torch.inference_mode():
                found = model.encode_slide(given, **places)["embeddings"]
        except RuntimeError as error:
            cause = f"{PACKAGE} model {self.model!r} cannot encode {bag.slide_id!r} with features of {bag.width} values"
            raise SlideError(f"{cause} ({str(error).splitlines()[0][:200]})", f"use features of {facts.of}") from error
        return torch.as_tensor(found).reshape(1, -1)


@dataclass
class LazySlideTextEncoder(LazySlideEncoder, EncodesText):
    """Encode a slide, or text, into the space that a slide encoder of lazyslide-models compares both in.

    The vector of a slide is projected into that space first (`titan`, `prism`): unprojected vectors, as other tools
    store them, cannot be compared with text.
    """

    known: ClassVar[Mapping[str, Facts]] = {name: SLIDE_MODELS[name] for name in ("titan", "prism")}
    what: ClassVar[str] = "slide encoder with text"
    width_: int = field(default=0, init=False, repr=False, compare=False)

    def spec(self, width: int) -> CodeSpec:
        """Return one row of floats; the network is loaded, since only it says how many."""
        if not self.width_:
            import torch

            stated = super().spec(width).width
            self.width_ = int(self._finished(torch.ones(1, stated)).shape[1])
        return CodeSpec("float", self.width_)

    def encode_text(self, texts: Sequence[str]) -> Float32:
        """Turn texts into float32 (n, width) of length 1."""
        import torch

        rows = np.zeros((len(texts), self.spec(1).width), np.float32)
        for number, text in enumerate(texts):  # one by one: a row must not depend on the padding of others
            with torch.inference_mode():
                found = torch.nn.functional.normalize(self._text(text).float().reshape(1, -1), dim=-1)
            rows[number] = found.cpu().numpy()[0]
        return rows

    def _text(self, text: str) -> torch.Tensor:
        import torch

        model = self.network()
        if self.model == "titan":
            return torch.as_tensor(model.encode_text([text]))
        inner = model.model
        tokens = inner.tokenize([text])[:, :-1].to(inner.device)
        unused = torch.empty((1, 1, inner.text_decoder.context_dim), device=inner.device)
        found: torch.Tensor = inner.text_to_latents(inner.text_decoder(tokens, unused)["text_embedding"])
        return found

    def _finished(self, embedding: torch.Tensor) -> torch.Tensor:
        import torch

        inner = self.network().model
        with torch.inference_mode():
            if self.model == "titan":
                place = inner.vision_encoder.proj
                found = embedding.to(place.device, place.dtype) @ place
            else:
                found = inner.img_to_latents(embedding.to(inner.device))
            return torch.nn.functional.normalize(found.float(), dim=-1)


def _one_side(bag: Bag) -> int:
    """Return the side of a patch in level-0 pixels, which has to be known and the same for all."""
    if bag.sides is None:
        raise SlideError(
            f"the size of the patches of slide {bag.slide_id!r} is unknown, and this encoder needs it",
            "import the features with the size of a patch, or use another encoder",
        )
    sides = np.unique(np.rint(bag.sides).astype(np.int64))
    if len(sides) != 1:
        raise UsageError(
            f"slide {bag.slide_id!r} has patches of {len(sides)} sizes, and this encoder takes one",
            "use a selector with one magnification",
        )
    return int(sides[0])
