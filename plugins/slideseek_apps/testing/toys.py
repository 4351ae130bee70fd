"""Small seeded inputs for checks and for a plugin's own tests: bags, images, slides and codes.

The same arguments give the same bytes. Arrays are read-only, like those of a memory-mapped archive.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from slideseek.types import Bag, Code, CodeSpec, Float32, UInt8
from slideseek_apps.testing.toy_slides import ToySlide

if TYPE_CHECKING:
    from slideseek.interfaces import Slide

_Array = TypeVar("_Array", bound=NDArray[Any])

_STAINS = np.array([[214, 132, 178], [168, 92, 160], [226, 168, 190], [128, 74, 142]], dtype=np.float64)
_BLOCK = 16
"""Side of the flat squares that make up a toy slide, in level-0 pixels."""


class ToyBags(NamedTuple):
    """Bags with one label and one patient each: `encoder.fit(*toy_bags())` trains on them."""

    bags: tuple[Bag, ...]
    labels: tuple[str, ...]
    groups: tuple[str, ...]


def toy_bags(
    seed: int = 0,
    count: int = 12,
    width: int = 16,
    sites: Sequence[str] = ("kidney", "liver"),
    patches: int = 8,
    pool: Float32 | None = None,
) -> ToyBags:
    """Make `count` bags of `patches` to `2 * patches - 1` Gaussian features of `width` values, read-only.

    The label shifts the mean of a bag's features, so there is something to learn. Sites alternate, each patient has two
    consecutive slides, and every site has both labels. Patches are 256 µm wide; every third slide is at 0.25 µm per
    pixel, the others at 0.5. pool: float32 (m, width), features to draw from instead, the first half for one label.
    """
    width = width if pool is None else pool.shape[1]
    rng = np.random.default_rng([seed, count, width])
    directions = rng.normal(size=(2, width))
    bags: list[Bag] = []
    labels: list[str] = []
    for number in range(count):
        label = number // len(sites) % 2
        n = int(rng.integers(patches, 2 * patches))
        features = rng.normal(size=(n, width)) + directions[label] + 0.5
        cells = rng.permutation(64)[:n] if n <= 64 else np.arange(n)
        if pool is not None:
            features = pool[rng.integers(len(pool) // 2, size=n) + label * (len(pool) // 2)]
        side = 1024 if number % 3 == 2 else 512
        xy = frozen((np.stack([cells % 8, cells // 8], axis=1) * side).astype(np.int32))
        sides = frozen(np.full(n, float(side)))
        site = sites[number % len(sites)]
        bags.append(Bag(f"toy-{number:02d}", frozen(features.astype(np.float32)), xy, site, sides, 256 / side))
        labels.append(("calm", "busy")[label])
    return ToyBags(tuple(bags), tuple(labels), tuple(f"patient-{n // 2}" for n in range(count)))


def toy_images(seed: int = 0, count: int = 6, side: int = 64) -> UInt8:
    """Make RGB uint8 (count, side, side, 3) patches that differ in colour and grain, read-only."""
    rng = np.random.default_rng([seed, count, side])
    stain = rng.uniform(60, 220, size=(count, 1, 1, 3))
    grain = rng.normal(size=(count, side, side, 1)) * np.linspace(5, 40, count).reshape(-1, 1, 1, 1)
    return frozen(np.clip(stain + grain, 0, 255).astype(np.uint8))


def toy_slide(
    seed: int = 0,
    width: int = 4096,
    height: int = 3072,
    mpp: float = 0.5,
    tissue: bool = True,
    glass: int = 255,
    slide_id: str = "toy-slide",
    centre: float = 0.0,
    scan_mpp: float | None = None,
) -> Slide:
    """Make an in-memory slide: a stained ellipse over three quarters of it, or only glass without `tissue`.

    width, height: level-0 pixels. mpp: µm per level-0 pixel. glass: grey level of the background; below 255 it
    is grainy, like scanned glass. centre: place of the ellipse, 0 in the middle, 1 at the lower right corner, so that
    the tissue touches the border. scan_mpp: the same glass scanned at another resolution, `mpp` times a power of 2.
    """
    pixels, scan = _slide_pixels(seed, width, height, tissue, glass, centre), scan_mpp or mpp
    if scan < mpp:
        pixels = frozen(pixels.repeat(round(mpp / scan), axis=0).repeat(round(mpp / scan), axis=1))
    elif scan > mpp:
        pixels = frozen(np.ascontiguousarray(pixels[:: round(scan / mpp), :: round(scan / mpp)]))
    return ToySlide(pixels, scan, slide_id)


def toy_codes(spec: CodeSpec, seed: int = 0, n: int = 20, space: str = "", prefix: str = "slide") -> tuple[Code, ...]:
    """Make `n` codes of format `spec`, named `{prefix}-00` and so on; float rows have unit length.

    A set has two to five rows. A sparse row has about a fifth of its values set.
    """
    rng = np.random.default_rng([seed, n, spec.width, ("float", "bits", "sparse").index(spec.kind)])
    codes = []
    for number in range(n):
        rows = int(rng.integers(2, 6)) if spec.many else 1
        codes.append(Code(f"{prefix}-{number:02d}", frozen(_rows(rng, spec, rows)), space))
    return tuple(codes)


def _rows(rng: np.random.Generator, spec: CodeSpec, n: int) -> NDArray[Any]:
    if spec.kind == "bits":
        return np.packbits(rng.random((n, spec.width)) < 0.5, axis=1)
    values = rng.normal(size=(n, spec.width))
    if spec.kind == "sparse":
        kept = rng.random(values.shape) < 0.2
        kept[np.arange(n), rng.integers(spec.width, size=n)] = True
        values = np.where(kept, values, 0.0)
    unit: NDArray[np.float64] = values / np.linalg.norm(values, axis=1, keepdims=True)
    return unit.astype(np.float32)


@functools.lru_cache(maxsize=8)  # the selector checks use the same few slides repeatedly
def _slide_pixels(seed: int, width: int, height: int, tissue: bool, glass: int, centre: float) -> UInt8:
    rng = np.random.default_rng([seed, width, height])
    rows, columns = -(-height // _BLOCK), -(-width // _BLOCK)
    small = np.full((rows, columns, 3), float(glass))
    if glass < 255:
        small += rng.normal(scale=2.0, size=small.shape)
    if tissue:
        y, x = np.ogrid[-1 : 1 : rows * 1j, -1 : 1 : columns * 1j]
        colours = _STAINS[rng.integers(2, size=(rows, columns)) + np.where(x < 0, 0, 2)]
        colours += rng.normal(scale=8.0, size=(rows, columns, 1))
        small = np.where(((x - centre) ** 2 + (y - centre) ** 2 < 0.95)[..., None], colours, small)
    large = np.clip(small, 0, 255).astype(np.uint8).repeat(_BLOCK, axis=0).repeat(_BLOCK, axis=1)
    return frozen(np.ascontiguousarray(large[:height, :width]))


def frozen(array: _Array) -> _Array:
    """Return the array itself, read-only."""
    array.setflags(write=False)
    return array
