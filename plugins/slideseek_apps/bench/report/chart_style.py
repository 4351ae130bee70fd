"""The look of charts as literal SVG attributes, so that every program that reads SVG draws the same picture.

Inkscape, LaTeX and rsvg-convert know neither CSS variables nor the fonts of a browser. A page may override what stands
here with its own style sheet, by the same class names, since CSS outranks attributes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"
"""Faces with the same widths on every system: Liberation Sans is the metric twin of Arial and Helvetica."""

INK, FAINT, RULE, PAPER = "#1b2129", "#4b5563", "#e8ebef", "#ffffff"
COLOURS = ("#0072b2", "#d55e00", "#00825f", "#b5578f", "#a67400", "#3a8fc7", "#6b4fa3", "#4a4a4a")
"""Distinguishable for colour-blind readers and in grey."""

HALO = ("level-name", "value")
"""Text that may stand on a line: it is drawn twice, first as a broad outline in the colour of the paper."""

_TEXT = {"font-family": FONT, "font-size": "12.5", "fill": INK}
_RULES: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("grid", {"stroke": RULE}),
    ("base", {"stroke": FAINT}),
    ("mark", {"stroke": FAINT}),
    ("level", {"stroke": FAINT, "stroke-dasharray": "6 4", "stroke-width": "1.4"}),
    ("line", {"fill": "none", "stroke-width": "2"}),
    ("trace", {"fill": "none", "stroke-width": "1.1", "stroke-linejoin": "round", "opacity": "0.9"}),
    ("whisker", {"stroke-width": "1.6"}),
    ("dot", {"stroke": PAPER, "stroke-width": "1.2"}),
    ("tick", {"fill": FAINT, "font-size": "12"}),
    ("axis", {"text-anchor": "middle"}),
    ("x", {"text-anchor": "middle"}),
    ("y", {"text-anchor": "end"}),
    ("level-name", {"text-anchor": "end", "fill": FAINT}),
    ("row-name", {"text-anchor": "end"}),
    ("value", {"fill": FAINT}),
    *((f"s{i}", {"stroke": colour}) for i, colour in enumerate(COLOURS)),
    ("other", {"stroke": COLOURS[7], "stroke-width": "2"}),
    ("best", {"stroke": COLOURS[0], "stroke-width": "2.6"}),
)


def with_attributes(svg: str) -> str:
    """Return chart elements, each `<tag class="names" ...>`, with their look as attributes beside the classes."""
    haloed = "|".join(HALO)
    svg = re.sub(rf'<text class="((?:{haloed})[^"]*)"(.*?</text>)', r'<text class="halo \1"\2<text class="\1"\2', svg)
    return re.sub(r'<(\w+) class="([^"]+)"', lambda found: f"{found[0]}{_attributes(found[1], found[2].split())}", svg)


def _attributes(tag: str, names: list[str]) -> str:
    look: dict[str, str] = dict(_TEXT) if tag == "text" else {}
    for name, rule in _RULES:
        if name in names:
            look |= rule
    if tag == "text":
        look = _text_look(names, look)
    elif "dot" in names:  # markers are filled with what lines are drawn with
        look = look | {"fill": look["stroke"], "stroke": PAPER, "stroke-width": "1.2"}
    return "".join(f' {name}="{value}"' for name, value in look.items())


def _text_look(names: list[str], look: dict[str, str]) -> dict[str, str]:
    """Return the look of text: a colour of lines is not its outline, and the best is bold."""
    plain = {name: value for name, value in look.items() if name not in ("stroke", "stroke-width")}
    if names == ["axis", "y"]:
        plain["text-anchor"] = "middle"
    if "best" in names:
        plain |= {"font-weight": "700"} | ({"fill": COLOURS[0]} if "value" in names else {})
    if "halo" in names:
        plain |= {"fill": PAPER, "stroke": PAPER, "stroke-width": "3", "stroke-linejoin": "round"}
    return plain
