"""Sixel graphics: bands of six pixel rows, one colour after another, run-length encoded."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from PIL import Image

from slideseek.types import UInt8

COLOURS = 64
_BITS = 1 << np.arange(6)


def sixel_text(picture: UInt8) -> str:
    """Return a picture, RGB uint8 (h, w, 3), as sixel text with its own palette."""
    image = Image.fromarray(picture).quantize(COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    numbers = np.asarray(image)
    height, width = numbers.shape
    palette = np.array(image.getpalette() or [], dtype=np.int64).reshape(-1, 3)
    parts = [f'\x1bPq"1;1;{width};{height}']
    used = sorted({int(number) for number in np.unique(numbers)})
    parts += [f"#{n};2;" + ";".join(str(round(100 * int(v) / 255)) for v in palette[n]) for n in used]
    for top in range(0, height, 6):
        band = numbers[top : top + 6]
        lines = []
        for colour in np.unique(band):
            sixes = ((band == colour) * _BITS[: len(band), None]).sum(axis=0)
            lines.append(
                f"#{colour}" + "".join(_run(chr(63 + six), len(list(run))) for six, run in groupby(sixes.tolist()))
            )
        parts.append("$".join(lines) + "-")
    return "".join(parts) + "\x1b\\"


def _run(letter: str, count: int) -> str:
    return f"!{count}{letter}" if count > 3 else letter * count
