"""Slides of small specimens, drawn: needle cores, endoscopic fragments, punches and curettings on glass.

The tissue is that of the demo's painted slides, at 2 µm per pixel; only its outline matters here. Nothing is random
beyond the seed, so every run measures the same slides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy import ndimage

from slideseek.slides.array_slide import ArraySlide
from slideseek.types import Mask, UInt8
from slideseek_apps.demo.histology import demo_slides, paint

MPP = 2.0
"""µm per pixel of the drawn slides."""

GLASS = 243.0

Outline = Callable[[np.random.Generator, tuple[int, int]], Mask]


def cores(rng: np.random.Generator, shape: tuple[int, int]) -> Mask:
    """Three needle cores of 0.6 to 1.1 mm, bent, 6 to 14 mm long, one of them broken."""
    mask = np.zeros(shape, dtype=np.bool_)
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    for number in range(3):
        half = rng.uniform(300, 550) / MPP
        length = rng.uniform(6_000, 14_000) / MPP
        middle = shape[0] * (number + 1) / 4 + rng.uniform(0.01, 0.05) * shape[0] * np.sin(
            columns / rng.uniform(500, 900)
        )
        core = (np.abs(rows - middle) < half) & (np.abs(columns - shape[1] / 2) < length / 2)
        if number == 1:
            core &= np.abs(columns - shape[1] * 0.55) > 120 / MPP
        mask |= core
    return _rough(rng, mask, 60)


def fragments(rng: np.random.Generator, shape: tuple[int, int]) -> Mask:
    """Endoscopic fragments of 0.7 to 2.5 mm."""
    return _blobs(rng, shape, 7, (350, 1_250))


def curettings(rng: np.random.Generator, shape: tuple[int, int]) -> Mask:
    """Many fragments of 0.25 to 1 mm."""
    return _blobs(rng, shape, 60, (125, 500))


def punch(rng: np.random.Generator, shape: tuple[int, int]) -> Mask:
    """A skin punch cut lengthwise: 4 mm wide, 3 to 5 mm deep, with a wavy surface and loose dermis."""
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    half, deep = 2_000 / MPP, rng.uniform(3_000, 5_000) / MPP
    top = shape[0] * 0.2 + 40 * np.sin(columns / 70)
    mask = (
        (np.abs(columns - shape[1] / 2) < half * (1 - 0.2 * (rows - top) / deep)) & (rows > top) & (rows < top + deep)
    )
    gaps = ndimage.gaussian_filter(rng.normal(size=shape), 18)
    loose = (gaps > 1.1 * gaps.std()) & (rows > top + deep / 3)
    return _rough(rng, mask & ~loose, 40)


def shave(rng: np.random.Generator, shape: tuple[int, int]) -> Mask:
    """A shave biopsy: a strip of 0.25 to 0.5 mm, 8 mm long."""
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    half = (125 + 125 * np.abs(np.sin(columns / 300))) / MPP
    middle = shape[0] / 2 + 150 * np.sin(columns / 600)
    return _rough(rng, (np.abs(rows - middle) < half) & (np.abs(columns - shape[1] / 2) < 4_000 / MPP), 30)


KINDS: dict[str, Outline] = {
    "cores": cores,
    "fragments": fragments,
    "curettings": curettings,
    "punch": punch,
    "shave": shave,
}


def biopsies(each: int = 3, kinds: dict[str, Outline] | None = None) -> Iterator[ArraySlide]:
    """Yield `each` slides of every kind, 16 x 9 mm."""
    shape = int(9_000 / MPP), int(16_000 / MPP)
    for name, outline in (kinds or KINDS).items():
        for number in range(each):
            rng = np.random.default_rng([number, *name.encode()])
            yield ArraySlide(_stain(rng, outline(rng, shape)), MPP, f"{name}-{number + 1}")


def _blobs(rng: np.random.Generator, shape: tuple[int, int], count: int, radii: tuple[float, float]) -> Mask:
    mask = np.zeros(shape, dtype=np.bool_)
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    for _ in range(count):
        across, down = rng.uniform(*radii, 2) / MPP
        x, y = rng.uniform(0.1, 0.9) * shape[1], rng.uniform(0.15, 0.85) * shape[0]
        mask |= ((columns - x) / across) ** 2 + ((rows - y) / down) ** 2 < 1
    return _rough(rng, mask, 60)


def _rough(rng: np.random.Generator, mask: Mask, amplitude: float) -> Mask:
    """Return a mask with an uneven rim: moved in or out by about `amplitude` µm."""
    depth = ndimage.distance_transform_edt(mask) - ndimage.distance_transform_edt(~mask)
    coarse = [-(-length // 16) for length in mask.shape]
    noise = ndimage.zoom(ndimage.gaussian_filter(rng.normal(size=coarse), 2), 16, order=1)
    noise = noise[: mask.shape[0], : mask.shape[1]]
    return np.asarray(depth + noise / noise.std() * amplitude / MPP > 0, dtype=np.bool_)


def _stain(rng: np.random.Generator, mask: Mask) -> UInt8:
    """Return RGB uint8 (h, w, 3): painted tissue inside the mask, glass with some grain outside."""
    plan = demo_slides(2)
    tissue = paint(plan[int(rng.integers(len(plan)))], 1024)[256:768:4, 256:768:4]
    pattern = np.concatenate([tissue, tissue[::-1]])
    pattern = np.concatenate([pattern, pattern[:, ::-1]], axis=1)
    again = [-(-length // side) for length, side in zip(mask.shape, pattern.shape)]
    tiled = np.tile(pattern, (*again, 1))[: mask.shape[0], : mask.shape[1]]
    glass = np.clip(rng.normal(GLASS, 1.5, (*mask.shape, 1)), 0, 255).astype(np.uint8)
    return np.where(mask[..., None], tiled, glass).astype(np.uint8)
