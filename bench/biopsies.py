"""Slides of small specimens, drawn: needle cores, endoscopic fragments, punches, shaves and curettings on glass.

The tissue is that of the demo's painted slides, at 2 µm per pixel; only its outline matters here. Outlines are drawn on
every fourth pixel and enlarged. Nothing is random beyond the seed, so every run measures the same slides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from scipy import ndimage

from slideseek.types import Mask, UInt8
from slideseek_apps.demo.histology import demo_slides, paint
from slideseek_components.pixels.array_slide import ArraySlide

MPP = 2.0
"""µm per pixel of the drawn slides."""

STEP = 4
"""Pixels between the points at which outlines are drawn."""

GLASS = 243.0

Outline = Callable[[np.random.Generator, tuple[int, int]], Mask]


def cores(rng: np.random.Generator, shape: tuple[int, int]) -> Mask:
    """Three needle cores of 0.6 to 1.1 mm, bent, 6 to 14 mm long, one of them broken."""
    rows, columns = np.mgrid[: shape[0] : STEP, : shape[1] : STEP]
    mask = np.zeros(rows.shape, dtype=np.bool_)
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
    rows, columns = np.mgrid[: shape[0] : STEP, : shape[1] : STEP]
    half, deep = 2_000 / MPP, rng.uniform(3_000, 5_000) / MPP
    top = shape[0] * 0.2 + 40 * np.sin(columns / 70)
    mask = (
        (np.abs(columns - shape[1] / 2) < half * (1 - 0.2 * (rows - top) / deep)) & (rows > top) & (rows < top + deep)
    )
    gaps = ndimage.gaussian_filter(rng.normal(size=rows.shape), 18 / STEP)
    loose = (gaps > 1.1 * gaps.std()) & (rows > top + deep / 3)
    return _rough(rng, mask & ~loose, 40)


def shave(rng: np.random.Generator, shape: tuple[int, int]) -> Mask:
    """A shave biopsy: a strip of 0.25 to 0.5 mm, 8 mm long."""
    rows, columns = np.mgrid[: shape[0] : STEP, : shape[1] : STEP]
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


def biopsies(
    each: int = 3, kinds: dict[str, Outline] | None = None, millimetres: tuple[int, int] = (16, 9)
) -> Iterator[tuple[ArraySlide, Mask]]:
    """Yield `each` slides of every kind, with the outline of the tissue, bool (h, w) of all pixels."""
    shape = int(1_000 * millimetres[1] / MPP), int(1_000 * millimetres[0] / MPP)
    for name, outline in (kinds or KINDS).items():
        for number in range(each):
            rng = np.random.default_rng([number, *name.encode()])
            mask = outline(rng, shape)
            yield ArraySlide(_stain(rng, mask), MPP, f"{name}-{number + 1}"), mask


def _blobs(rng: np.random.Generator, shape: tuple[int, int], count: int, radii: tuple[float, float]) -> Mask:
    rows, columns = np.ogrid[: shape[0] : STEP, : shape[1] : STEP]
    mask = np.zeros((len(rows), columns.shape[1]), dtype=np.bool_)
    for _ in range(count):
        across, down = rng.uniform(*radii, 2) / MPP
        x, y = rng.uniform(0.1, 0.9) * shape[1], rng.uniform(0.15, 0.85) * shape[0]
        mask |= ((columns - x) / across) ** 2 + ((rows - y) / down) ** 2 < 1
    return _rough(rng, mask, 60)


def _rough(rng: np.random.Generator, mask: Mask, amplitude: float) -> Mask:
    """Return a mask of all pixels with an uneven rim: moved in or out by about `amplitude` µm."""
    depth = STEP * (ndimage.distance_transform_edt(mask) - ndimage.distance_transform_edt(~mask))
    coarse = [-(-length // 4) for length in mask.shape]
    noise = ndimage.zoom(ndimage.gaussian_filter(rng.normal(size=coarse), 2), 4, order=1)
    noise = noise[: mask.shape[0], : mask.shape[1]]
    moved = depth + noise / noise.std() * amplitude / MPP
    return np.asarray(ndimage.zoom(moved.astype(np.float32), STEP, order=1) > 0, dtype=np.bool_)


def _stain(rng: np.random.Generator, mask: Mask) -> UInt8:
    """Return RGB uint8 (h, w, 3): painted tissue inside the mask, glass with some grain outside."""
    tissue = _painted(int(rng.integers(len(demo_slides(2)))))
    pattern = np.concatenate([tissue, tissue[::-1]])
    pattern = np.concatenate([pattern, pattern[:, ::-1]], axis=1)
    again = [-(-length // side) for length, side in zip(mask.shape, pattern.shape)]
    tiled = np.tile(pattern, (*again, 1))[: mask.shape[0], : mask.shape[1]]
    glass = np.clip(rng.normal(GLASS, 1.5, (*mask.shape, 1)), 0, 255).astype(np.uint8)
    return np.where(mask[..., None], tiled, glass).astype(np.uint8)


@cache
def _painted(number: int) -> UInt8:
    """Return a part of a painted slide without its rim, at 2 µm per pixel."""
    return paint(demo_slides(2)[number], 1024)[256:768:4, 256:768:4]
