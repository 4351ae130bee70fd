"""Pictures of evidence: two heat maps side by side, and the patches that matter most."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from slideseek.archive.files import replacing
from slideseek.errors import UsageError
from slideseek.searching.evidence import strongest
from slideseek.types import UInt8
from slideseek_apps.reports.explained_match import Explained, Side, patch_pictures
from slideseek_apps.reports.heat_map import LEGEND_HEIGHT, draw_legend, titled_heat
from slideseek_apps.reports.picture_text import INK, SOFT, clipped, lettering

MARGIN, GAP = 24, 28
PATCH = 128
HALF = (3 * (2 * PATCH + 8) + GAP) // 2
"""Width of each of the two heat maps. Together they are as wide as three pairs."""

SHOWN = 12
"""Number of pairs, or of patches per side, in a panel."""


def heat_map(found: Explained, size: int = 760) -> UInt8:
    """Draw both slides with their patches coloured by contribution: RGB uint8 (h, w, 3)."""
    return np.asarray(_framed(found, [_heats(found, size)]))


def evidence_panel(found: Explained, shown: int = SHOWN) -> UInt8:
    """Draw the heat maps and below them the patches that matter most, query next to hit: RGB uint8 (h, w, 3)."""
    patches = _pairs(found, shown) if found.evidence.kind == "pairs" else _strongest(found, shown)
    return np.asarray(_framed(found, [_heats(found, HALF), patches]))


def require_png(path: Path) -> None:
    """Reject a file name that does not end in .png. Called before the work, not after it."""
    if path.suffix.lower() != ".png":
        raise UsageError(f"the picture is a PNG file, but its name is {path.name!r}", "end the name in .png")


def save_png(picture: UInt8, path: Path) -> None:
    """Write a picture as PNG, whole or not at all."""
    with replacing(path) as temporary:
        Image.fromarray(picture).save(temporary, format="PNG")


def _framed(found: Explained, rows: list[Image.Image]) -> Image.Image:
    """Put rows below a heading with the slides and the result."""
    evidence = found.evidence
    width = max(row.width for row in rows)
    said = (
        f"distance {evidence.value:.6g}, from the pairs of {len(evidence.pairs)} patches of the query"
        if evidence.kind == "pairs"
        else f"similarity {evidence.value:.4f}, the sum of the contributions of each slide's patches"
    )
    height = 62 + sum(row.height + GAP for row in rows)
    sheet = Image.new("RGB", (width + 2 * MARGIN, height + MARGIN), "white")
    pen = ImageDraw.Draw(sheet)
    title = clipped(pen, f"{found.query.title}  and  {found.hit.title}", lettering(24), width)
    pen.text((MARGIN, MARGIN - 6), title, fill=INK, font=lettering(24))
    pen.text((MARGIN, MARGIN + 26), clipped(pen, said, lettering(15), width), fill=SOFT, font=lettering(15))
    top = MARGIN + 60
    for row in rows:
        sheet.paste(row, (MARGIN, top))
        top += row.height + GAP
    return sheet.crop((0, 0, sheet.width, top))


def _heats(found: Explained, size: int) -> Image.Image:
    sides = [found.query, found.hit]
    heats = [titled_heat(found.evidence, side, size) for side in sides]
    sheet = Image.new("RGB", (2 * size + GAP, max(heat.height for heat in heats) + 10 + LEGEND_HEIGHT), "white")
    for column, (side, heat) in enumerate(zip(sides, heats)):
        left = column * (size + GAP)
        sheet.paste(heat, (left, 0))
        low, high = float(side.parts.min()), float(side.parts.max())
        sheet.paste(draw_legend(found.evidence.kind, low, high, size), (left, sheet.height - LEGEND_HEIGHT))
    return sheet


def _pairs(found: Explained, shown: int) -> Image.Image:
    """Draw pairs three in a row, the nearest first: query patch, hit patch, their distance."""
    pairs = found.evidence.pairs[:shown]
    queries = patch_pictures(found.query, [pair.query for pair in pairs], PATCH)
    hits = patch_pictures(found.hit, [pair.hit for pair in pairs], PATCH)
    cells = []
    for rank, pair in enumerate(pairs, start=1):
        text = f"{rank}.  distance {pair.distance:.6g}  (patches {pair.query} and {pair.hit})"
        cells.append(_cell([queries[pair.query], hits[pair.hit]], text))
    return _grid(cells, "Nearest pairs: a patch of the query, and the patch of the hit most like it", 3)


def _strongest(found: Explained, shown: int) -> Image.Image:
    """Draw the patches of each side with the largest contributions, in two blocks side by side."""
    blocks = [_block(found, side, shown) for side in (found.query, found.hit)]
    sheet = Image.new("RGB", (2 * HALF + GAP, max(block.height for block in blocks)), "white")
    sheet.paste(blocks[0], (0, 0))
    sheet.paste(blocks[1], (HALF + GAP, 0))
    return sheet


def _block(found: Explained, side: Side, shown: int) -> Image.Image:
    numbers = strongest(side.parts, shown)
    pictures = patch_pictures(side, numbers, PATCH)
    cells = []
    for rank, number in enumerate(numbers, start=1):
        part = float(side.parts[number])
        cells.append(_cell([pictures[number]], f"{rank}.  {part:+.4f}  {found.evidence.share(part)}"))
    return _grid(cells, f"{side.name.capitalize()} patches with the largest contributions", 3, gap=8)


def _cell(pictures: list[UInt8], text: str) -> Image.Image:
    width = len(pictures) * PATCH + 8 * (len(pictures) - 1)
    cell = Image.new("RGB", (width, PATCH + 24), "white")
    for column, picture in enumerate(pictures):
        cell.paste(Image.fromarray(picture), (column * (PATCH + 8), 0))
    pen = ImageDraw.Draw(cell)
    pen.text((0, PATCH + 4), clipped(pen, text, lettering(13), width), fill=INK, font=lettering(13))
    return cell


def _grid(cells: list[Image.Image], title: str, columns: int, gap: int = GAP) -> Image.Image:
    wide, high = cells[0].size
    rows = -(-len(cells) // columns)
    sheet = Image.new("RGB", (columns * wide + (columns - 1) * gap, 30 + rows * (high + 12)), "white")
    pen = ImageDraw.Draw(sheet)
    pen.text((0, 2), clipped(pen, title, lettering(16), sheet.width), fill=INK, font=lettering(16))
    for number, cell in enumerate(cells):
        sheet.paste(cell, ((number % columns) * (wide + gap), 30 + (number // columns) * (high + 12)))
    return sheet
