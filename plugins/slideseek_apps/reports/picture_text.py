"""Text on pictures, in the font that comes with Pillow, so pictures look the same everywhere."""

from __future__ import annotations

from functools import cache

from PIL import ImageDraw, ImageFont

INK, SOFT = (31, 27, 38), (95, 88, 107)


@cache
def lettering(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return the font at a size in pixels."""
    return ImageFont.load_default(size)


def clipped(
    pen: ImageDraw.ImageDraw, text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: float
) -> str:
    """Shorten text in the middle to at most `width` pixels. Both ends of a slide's name identify it."""
    if pen.textlength(text, font=font) <= width:
        return text
    keep = len(text)
    while keep > 3:
        keep -= 1
        short = f"{text[: (keep + 1) // 2]}...{text[len(text) - keep // 2 :]}"
        if pen.textlength(short, font=font) <= width:
            return short
    return text[:1]
