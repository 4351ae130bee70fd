"""Text on pictures, in the font that comes with Pillow, so pictures look the same everywhere."""

from __future__ import annotations

from functools import cache

import numpy as np
from PIL import ImageDraw, ImageFont

Font = ImageFont.FreeTypeFont


@cache
def lettering(size: float) -> Font:
    """Return the font at a size in pixels."""
    font = ImageFont.load_default(size)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise RuntimeError("Pillow was built without FreeType, which draws the text of pictures")
    return font


def text_width(text: str, size: float) -> float:
    """Return the width of text in pixels."""
    return float(lettering(size).getlength(text.replace("µ", "u")))


def clipped(text: str, size: float, width: float) -> str:
    """Shorten text in the middle to at most `width` pixels. Both ends of a slide's name identify it."""
    if text_width(text, size) <= width:
        return text
    keep = len(text)
    while keep > 3:
        keep -= 1
        short = f"{text[: (keep + 1) // 2]}...{text[len(text) - keep // 2 :]}"
        if text_width(short, size) <= width:
            return short
    return text[:1]


def write(pen: ImageDraw.ImageDraw, at: tuple[float, float], text: str, size: float, colour: str) -> None:
    """Write text from a point on its baseline. The font has no µ, so it is drawn as a u with a long stem."""
    font = lettering(size)
    x, baseline = at
    pen.text((x, baseline), text.replace("µ", "u"), fill=colour, font=font, anchor="ls")
    (stem_left, stem_right), depth = _solid(font, "l"), font.getbbox("p", anchor="ls")[3]
    for place, letter in enumerate(text):
        if letter == "µ":
            left = round(x + text_width(text[:place], size)) + _solid(font, "u")[0]
            middle = baseline - size / 6
            pen.rectangle([left, middle, left + stem_right - stem_left, baseline + depth - 1], fill=colour)


def _solid(font: Font, letter: str) -> tuple[int, int]:
    """Return the first and the last column of a letter that is not merely smoothing."""
    mask = font.getmask(letter)
    columns = (np.asarray(mask, np.uint8).reshape(mask.size[::-1]).max(axis=0) >= 128).nonzero()[0]
    return (int(columns[0]), int(columns[-1])) if len(columns) else (0, 0)
