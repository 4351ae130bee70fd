"""The stain of a slide, by the colours of its tissue on the thumbnail.

Rules on hues, set with real H&E and IHC and with H&E remixed to other stains; `bench/stains.py` prints how often they
are right. A manifest that states the stain of a slide overrides them.
"""

from __future__ import annotations

import numpy as np

from slideseek.types import Mask, UInt8
from slideseek_components.selectors.pixel_colours import Hsv, hsv

HUES = {"brown": (8, 60), "green": (60, 190), "blue": (190, 265), "purple": (265, 310), "pink": (310, 345)}
"""Hues in degrees, from and up to; red is what is left, from 345 over 0 to 8."""

_COLOURED = 0.08
"""Least saturation of a pixel whose hue counts."""

_DARK = 60
"""Grey level below which the background of a slide is that of fluorescence."""

_FEW = 200
"""Pixels of tissue below which nothing is said."""


def is_dark(rgb: UInt8) -> bool:
    """Return whether uint8 (h, w, 3) is bright on dark, as fluorescence is: most of its border is nearly black."""
    rim = np.concatenate([rgb[0], rgb[-1], rgb[:, 0], rgb[:, -1]]).max(axis=1)
    return bool(np.median(rim) < _DARK and np.median(rgb.max(axis=2)) < 2 * _DARK)


def stain_kind(rgb: UInt8, tissue: Mask, colours: Hsv | None = None) -> str:
    """Return `he`, `ihc` (DAB), `ihc-red`, `special` or `fluorescence`; "" if the colours do not tell.

    rgb: a thumbnail, uint8 (h, w, 3). tissue: bool (h, w). colours: of `hsv`, if they are known. DAB is brown on a blue
    counterstain, red chromogens are red on blue without the purple that eosin over haematoxylin gives. Blue alone is
    the pale counterstain of a negative IHC, or a special stain if it is strong. Dark without colour is a silver stain.
    """
    if is_dark(rgb):
        return "fluorescence"
    hue, saturation, value = (part[tissue] for part in colours or hsv(rgb))
    if hue.size < _FEW:
        return ""
    coloured = saturation > _COLOURED
    if np.mean(coloured) < 0.05:
        return "special" if np.median(value) < 0.75 else ""
    hue, strength = hue[coloured], float(np.median(saturation[coloured]))
    share = {name: float(np.mean((hue >= low) & (hue < high))) for name, (low, high) in HUES.items()}
    red = share["pink"] + 1 - sum(share.values())
    if share["brown"] > 0.04 and share["purple"] < 0.25 and share["brown"] > share["pink"]:
        return "ihc"
    if share["green"] > 0.15:
        return "special"
    if share["blue"] > 0.15 and red > 0.05 and share["purple"] < 0.5 * min(share["blue"], red):
        return "ihc-red" if strength < 0.3 else "special"
    if share["blue"] > 0.7:
        return "ihc" if strength < 0.14 else "special"
    return "he" if share["purple"] + red > 0.5 and share["brown"] < 0.2 else ""
