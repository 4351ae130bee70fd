"""What a query or a hit is made of: a bag of features together with the squares its patches were read from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slideseek.archive.archive import Archive
from slideseek.archive.slide_table import SlideRow
from slideseek.building.ledger import Ledger
from slideseek.engine import Engine
from slideseek.errors import DamagedError, SlideError
from slideseek.fields import Fields, read_fields
from slideseek.interfaces import Slide
from slideseek.slides.patch_images import patch_images
from slideseek.types import Bag, Patches


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """A bag and the squares of its patches, row for row."""

    bag: Bag
    fields: Fields

    def __post_init__(self) -> None:
        if len(self.bag) != len(self.fields):
            raise ValueError(f"Material: {len(self.bag)} features and {len(self.fields)} squares")

    @classmethod
    def joined(cls, slide_id: str, site: str, parts: Sequence[Material]) -> Material:
        """Return the bags of several slides as one."""
        fields = Fields.joined([(part.bag.slide_id, part.fields) for part in parts])
        return cls(Bag(slide_id, np.concatenate([part.bag.features for part in parts]), fields.xy, site), fields)


def stored_material(archive: Archive, engine: Engine, ledger: Ledger, slide: SlideRow) -> Material:
    """Read the features and squares an engine keeps of a slide of the archive."""
    key = ledger.key(engine, "featurize", slide)
    bag = archive.bag(key, slide.record)
    payload = archive.catalog.payload(key)
    if payload is None or payload.file is None:
        raise DamagedError(f"the features of slide {slide.id!r} are missing", "run 'slideseek build'")
    return Material(bag, read_fields(archive.root / payload.file))


def fresh_material(engine: Engine, slide: Slide, patches: Patches, site: str) -> Material:
    """Read and featurize patches of a slide now. A patch that cannot be decoded is left out of both."""
    features, rows = [], []
    for numbers, images in patch_images(slide, patches, engine.read_side(patches)):
        features.append(engine.features(images))
        rows.append(numbers)
    if not rows:
        raise SlideError(f"no patch of slide {slide.id!r} could be read", "copy the slide again from its source")
    kept = np.concatenate(rows)
    read = replace(patches, xy=patches.xy[kept], mpp=patches.mpp[kept])
    return Material(Bag(slide.id, np.concatenate(features), read.xy, site), Fields.of(read, slide.mpp))
