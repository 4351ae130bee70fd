"""Write an image as a tiled pyramid that OpenSlide reads like a scanner's file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import tifffile

from slideseek.types import UInt8

TILE = 256
QUALITY = 90
SHRINK = 4
"""Each level is this many times smaller than the one before, as in the files of scanners."""


def write_slide(path: Path | str, rgb: UInt8, mpp: float = 0.5) -> None:
    """Write RGB uint8 (h, w, 3) of `mpp` µm per pixel as a pyramidal tiled JPEG TIFF with Aperio's description.

    The file appears under its name only when it is complete; the same image gives the same bytes.
    """
    target = Path(path)
    if rgb.dtype != np.uint8 or rgb.ndim != 3 or rgb.shape[2] != 3:
        raise ValueError(f"rgb: uint8 (h, w, 3), not {rgb.dtype} {rgb.shape}")
    if not mpp > 0:
        raise ValueError(f"mpp: more than 0, not {mpp}")
    levels = [rgb]
    while max(levels[-1].shape[:2]) > 2 * TILE and min(levels[-1].shape[:2]) >= SHRINK:
        levels.append(_shrink(levels[-1]))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with tifffile.TiffWriter(temporary) as file:
            for number, level in enumerate(levels):
                file.write(
                    level,
                    photometric="rgb",
                    compression="jpeg",
                    compressionargs={"level": QUALITY},
                    tile=(TILE, TILE),
                    resolution=(1e4 / (mpp * SHRINK**number),) * 2,
                    resolutionunit="CENTIMETER",
                    description=_description(rgb.shape, level.shape, mpp),
                    subfiletype=1 if number else 0,
                    metadata=None,
                    software=False,
                )
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _shrink(rgb: UInt8) -> UInt8:
    """Average blocks of SHRINK x SHRINK pixels; a remainder at the right and bottom is dropped."""
    height, width = rgb.shape[0] // SHRINK, rgb.shape[1] // SHRINK
    blocks = rgb[: height * SHRINK, : width * SHRINK].reshape(height, SHRINK, width, SHRINK, 3)
    return np.asarray(blocks.mean(axis=(1, 3), dtype=np.float32) + np.float32(0.5), dtype=np.uint8)


def _description(base: tuple[int, ...], level: tuple[int, ...], mpp: float) -> str:
    """Return a description like Aperio's; OpenSlide reads vendor, resolution and magnification from the first level."""
    size = f"{base[1]}x{base[0]}" + ("" if level == base else f" -> {level[1]}x{level[0]}")
    facts = f"{size} ({TILE}x{TILE}) JPEG/RGB Q={QUALITY}|AppMag = {10 / mpp:g}|MPP = {mpp:g}"
    return f"Aperio Image Library (slideseek)\r\n{facts}"
