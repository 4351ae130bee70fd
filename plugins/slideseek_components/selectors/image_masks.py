"""What a thumbnail shows, each mask found once: a selection needs them for tissue, and again for artefacts."""

from __future__ import annotations

from functools import cached_property

from slideseek.types import Mask, UInt8
from slideseek_components.selectors.pen_and_debris import black_debris, pen_ink
from slideseek_components.selectors.pixel_colours import Hsv, hsv
from slideseek_components.selectors.tissue_threshold import stained


class ImageMasks:
    """Masks of an image, RGB uint8 (h, w, 3), which must not change: each is bool (h, w)."""

    def __init__(self, rgb: UInt8) -> None:
        self.rgb = rgb

    @cached_property
    def hsv(self) -> Hsv:
        """Hue, saturation and value of every pixel."""
        return hsv(self.rgb)

    @cached_property
    def ink(self) -> Mask:
        """Where a marker was used."""
        return pen_ink(self.rgb, self.hsv)

    @cached_property
    def debris(self) -> Mask:
        """Where something is black or grey without colour."""
        return black_debris(self.rgb, self.hsv)

    @cached_property
    def stained(self) -> Mask:
        """Where the image is more coloured or darker than its glass."""
        return stained(self.rgb)
