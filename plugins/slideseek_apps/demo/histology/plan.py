"""The slides of the demo and the functions that paint them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from slideseek.types import SlideRecord, UInt8
from slideseek_apps.demo.histology.breast import ductal_carcinoma, lobular_carcinoma
from slideseek_apps.demo.histology.canvas import STEP, Canvas
from slideseek_apps.demo.histology.colon import adenocarcinoma, normal_mucosa
from slideseek_apps.demo.histology.stain import Stain

Painter: TypeAlias = Callable[[np.random.Generator, int], Canvas]

SUBTYPES: dict[tuple[str, str], tuple[str, Painter]] = {
    ("colon", "adenocarcinoma"): ("colon-ade", adenocarcinoma),
    ("colon", "normal mucosa"): ("colon-nor", normal_mucosa),
    ("breast", "ductal carcinoma"): ("breast-duc", ductal_carcinoma),
    ("breast", "lobular carcinoma"): ("breast-lob", lobular_carcinoma),
}
"""By (site, label): the prefix of the slide ids and the function that paints the tissue."""

CENTERS = ("centre-a", "centre-b", "centre-c")


@dataclass(frozen=True, slots=True)
class DemoSlide:
    """One slide to paint: its row in the manifest, and the seed that determines every pixel."""

    record: SlideRecord
    seed: int


def demo_slides(patients: int = 6, seed: int = 0) -> tuple[DemoSlide, ...]:
    """Plan the slides: two sites, two subtypes each, `patients` patients per subtype, one slide per patient."""
    if patients < 1:
        raise ValueError(f"patients: at least 1, not {patients}")
    return tuple(
        DemoSlide(
            SlideRecord(
                id=f"{stem}-{number:02d}",
                path=f"{stem}-{number:02d}.svs",
                patient=f"P-{kind * patients + number:03d}",
                site=site,
                label=label,
                center=CENTERS[(number + kind) % len(CENTERS)],
            ),
            seed=int(np.random.SeedSequence([seed, kind, number]).generate_state(1)[0]),
        )
        for kind, ((site, label), (stem, _)) in enumerate(SUBTYPES.items())
        for number in range(1, patients + 1)
    )


def paint(slide: DemoSlide, side: int = 2048) -> UInt8:
    """Paint a slide: RGB uint8 (side, side, 3) at 0.5 µm per pixel. The result is deterministic."""
    if side < 256 or side % (2 * STEP):
        raise ValueError(f"side: at least 256 and a multiple of {2 * STEP}, not {side}")
    _, painter = SUBTYPES[slide.record.site, slide.record.label]
    canvas = painter(np.random.default_rng([slide.seed, 0]), side)
    center = np.random.default_rng(list(slide.record.center.encode()))
    stain = Stain.draw(center, np.random.default_rng([slide.seed, 1]))
    return stain.develop(canvas.haematoxylin, canvas.eosin, np.random.default_rng([slide.seed, 2]))
