"""Turn a patch image into the input of a network: resize, then normalise; one image at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from PIL import Image

from slideseek.types import Float32, UInt8

Rgb: TypeAlias = tuple[float, float, float]

IMAGENET_MEAN: Rgb = (0.485, 0.456, 0.406)
IMAGENET_STD: Rgb = (0.229, 0.224, 0.225)


def check_images(images: UInt8) -> None:
    """Raise ValueError unless the images are RGB uint8 (n, side, side, 3)."""
    square = images.ndim == 4 and images.shape[1] == images.shape[2] >= 1 and images.shape[3] == 3
    if images.dtype != np.uint8 or not square:
        raise ValueError(f"images must be uint8 (n, side, side, 3), not {images.dtype} {images.shape}")


Filter: TypeAlias = Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]


def resize(image: UInt8, side: int, resample: Filter = "bicubic") -> UInt8:
    """Resample RGB uint8 (s, s, 3) to (side, side, 3); an image of that side is returned unchanged.

    Pillow's filters widen with the reduction, so every source pixel counts (no aliasing), and they work in
    fixed point: the result is the same on every machine and for any number of threads.
    """
    if image.shape[0] == side:
        return image
    return np.array(Image.fromarray(image).resize((side, side), Image.Resampling[resample.upper()]))


@dataclass(frozen=True, slots=True)
class Preparation:
    """Resize to `side` (0: keep the side) and return `(pixel - mean) / std`, with pixels from 0 to 255."""

    side: int
    mean: Rgb
    std: Rgb
    resample: Filter = "bicubic"

    def __call__(self, image: UInt8) -> Float32:
        """Turn RGB uint8 (s, s, 3) into float32 (3, side, side), a view of channels-last memory."""
        pixels = resize(image, self.side or image.shape[0], self.resample).astype(np.float32)
        pixels -= np.asarray(self.mean, dtype=np.float32)
        pixels /= np.asarray(self.std, dtype=np.float32)
        return pixels.transpose(2, 0, 1)

    @classmethod
    def unit(cls, side: int, mean: Rgb, std: Rgb, resample: Filter = "bicubic") -> Preparation:
        """Create a preparation whose mean and std are given for pixels from 0 to 1."""
        scaled_mean, scaled_std = ((values[0] * 255, values[1] * 255, values[2] * 255) for values in (mean, std))
        return cls(side, scaled_mean, scaled_std, resample)


@dataclass(frozen=True, slots=True)
class CardPreparation:
    """Resize to `resize`, use the centre of `side` pixels, and return `(pixel / 255 - mean) / std`.

    mean and std are for pixels from 0 to 1. The order of the operations is torchvision's, so the result is that of the
    transform on a model card to the last bit.
    """

    side: int
    resize: int
    mean: Rgb
    std: Rgb
    resample: Filter = "bicubic"

    def __call__(self, image: UInt8) -> Float32:
        """Turn RGB uint8 (s, s, 3) into float32 (3, side, side), a view of channels-last memory."""
        start = round((self.resize - self.side) / 2)
        kept = slice(start, start + self.side)
        pixels = resize(image, self.resize, self.resample)[kept, kept].astype(np.float32)
        pixels /= np.float32(255)
        pixels -= np.asarray(self.mean, dtype=np.float32)
        pixels /= np.asarray(self.std, dtype=np.float32)
        return pixels.transpose(2, 0, 1)
