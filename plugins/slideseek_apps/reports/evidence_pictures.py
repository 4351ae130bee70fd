"""Pictures of evidence: two heat maps side by side, and the patches that matter most."""

from __future__ import annotations

from collections.abc import Sequence

from slideseek.searching.evidence import strongest
from slideseek_apps.reports.explained_match import Explained, PatchPicture, Side, patch_pictures
from slideseek_apps.reports.heat_colours import HeatScale
from slideseek_apps.reports.heat_map import LEGEND_HEIGHT, SMALL, draw_legend, draw_titled_heat
from slideseek_apps.reports.page_images import length_label, scale_bar
from slideseek_apps.reports.picture_sheet import INK, PAPER, PRINT_DPI, SOFT, Box, Picture, Sheet, Words
from slideseek_apps.reports.picture_text import clipped

MARGIN, GAP = 24, 28
HEADING = 84
PATCH, NARROW = 128, 8
"""Width of a patch, and the gap between patches that belong together."""

PANEL, LARGER = 848, 1228
"""Width of what is in a panel, 7 inches with its margins, and of heat maps alone, 10 inches."""

SHOWN = 12
"""Number of pairs, or of patches per side, in a panel."""

SIDE_COLOURS = {"query": "#0b6e75", "hit": "#8a3ffc"}
"""Patches that are ranked for each slide alone have the colour of their slide, as in the viewer."""


def heat_map(found: Explained, engine: str, dpi: int = PRINT_DPI) -> Sheet:
    """Draw both slides with their patches coloured by contribution. engine: its name."""
    sheet = _headed(found, engine, LARGER, dpi)
    _draw_heats(sheet, found, LARGER)
    return sheet


def evidence_panel(found: Explained, engine: str, shown: int = SHOWN, dpi: int = PRINT_DPI) -> Sheet:
    """Draw the heat maps and below them the patches that matter most. engine: its name."""
    sheet = _headed(found, engine, PANEL, dpi)
    _draw_heats(sheet, found, PANEL)
    if found.evidence.kind == "pairs":
        _draw_pairs(sheet, found, shown)
    else:
        _draw_rankings(sheet, found, shown)
    return sheet


def _headed(found: Explained, engine: str, width: float, dpi: int) -> Sheet:
    """Begin a sheet with the slides, the result and the engine. Its height grows with what is drawn on it."""
    evidence = found.evidence
    distance = f"distance {evidence.value:.6g}" + (f" ({evidence.measure})" if evidence.measure else "")
    said = {
        "pairs": f"{distance}, from the pairs of {len(evidence.pairs)} patches of the query",
        "contributions": f"similarity {evidence.value:.4f}, the sum of the contributions of each slide's patches",
        "removals": f"{distance}; shown is by how much it grows without a patch",
    }[evidence.kind]
    sheet = Sheet(width + 2 * MARGIN, HEADING, dpi)
    sheet.items += [
        Words(MARGIN, 38, clipped(f"{found.query.title}  and  {found.hit.title}", 24, width), 24),
        Words(MARGIN, 63, clipped(f"Engine {engine}: {said}", 15, width), 15, SOFT),
    ]
    return sheet


def _draw_heats(sheet: Sheet, found: Explained, width: float) -> None:
    size = (width - GAP) / 2
    heat = HeatScale.over(*(side.parts for side in found.sides))
    heights = [
        draw_titled_heat(sheet, (MARGIN + column * (size + GAP), sheet.height), size, found.evidence, side, heat)
        for column, side in enumerate(found.sides)
    ]
    sheet.height += max(heights)
    draw_legend(sheet, (MARGIN, sheet.height), width, found.evidence.kind, heat)
    sheet.height += LEGEND_HEIGHT + MARGIN


def _draw_pairs(sheet: Sheet, found: Explained, shown: int) -> None:
    """Draw pairs three in a row, the nearest first: query patch, hit patch, their distance."""
    pairs = found.evidence.pairs[:shown]
    drawn = found.query in found.sides
    size = sheet.pixels_of(PATCH)
    queries = patch_pictures(found.query, [pair.query for pair in pairs], size) if drawn else {}
    hits = patch_pictures(found.hit, [pair.hit for pair in pairs], size)
    cells = [
        (
            [*([queries[pair.query]] if drawn else []), hits[pair.hit]],
            f"{rank}.  distance {pair.distance:.6g}  (patches {pair.query} and {pair.hit})"
            if drawn
            else f"{rank}.  distance {pair.distance:.6g}",
        )
        for rank, pair in enumerate(pairs, start=1)
    ]
    title = "Nearest pairs: a patch of the query, and the patch of the hit most like it"
    bar = _bar_length([*queries.values(), *hits.values()])
    sheet.height += (
        _draw_cells(
            sheet,
            (MARGIN, sheet.height),
            cells,
            title if drawn else "The patch of the hit most like the text",
            GAP,
            bar,
        )
        + MARGIN
        - 12
    )


def _draw_rankings(sheet: Sheet, found: Explained, shown: int) -> None:
    """Draw the patches of each side with the largest contributions: two rankings, each in the colour of its slide."""
    half = (PANEL - GAP) / 2
    numbers = [strongest(side.parts, shown) for side in found.sides]
    pictures = [patch_pictures(side, chosen, sheet.pixels_of(PATCH)) for side, chosen in zip(found.sides, numbers)]
    bar = _bar_length([picture for some in pictures for picture in some.values()])
    heights = []
    for column, side in enumerate(found.sides):
        left = MARGIN + column * (half + GAP)
        cells = [
            ([pictures[column][number]], _ranked(found, side, rank, number))
            for rank, number in enumerate(numbers[column], 1)
        ]
        title = f"{side.name.capitalize()} patches, ranked for this slide alone"
        sheet.items.append(Box(left, sheet.height, half, 3, SIDE_COLOURS[side.name]))
        heights.append(_draw_cells(sheet, (left, sheet.height + 8), cells, title, NARROW, bar))
    sheet.height += max(heights) + MARGIN - 4


def _ranked(found: Explained, side: Side, rank: int, number: int) -> str:
    part = float(side.parts[number])
    return f"{side.name[0].upper()}{rank}   {part:+z.4f}   {found.evidence.share(part)}".rstrip()


def _draw_cells(
    sheet: Sheet,
    at: tuple[float, float],
    cells: Sequence[tuple[list[PatchPicture], str]],
    title: str,
    gap: float,
    bar: float | None,
) -> float:
    """Draw pictures with a line of text below, three cells in a row, below a title; return the height.

    bar: length of the scale bar on each picture in µm, None where the resolution is unknown.
    """
    x, y = at
    wide = max((len(pictures) for pictures, _ in cells), default=1) * (PATCH + NARROW) - NARROW
    room = 3 * wide + 2 * gap
    scale = f"; bars: {length_label(bar)}" if bar else ""
    sheet.items.append(Words(x, y + 16, clipped(title + scale, 15, room), 15))
    for number, (pictures, text) in enumerate(cells):
        left, top = x + number % 3 * (wide + gap), y + 30 + number // 3 * (PATCH + 36)
        for column, picture in enumerate(pictures):
            _draw_patch(sheet, left + column * (PATCH + NARROW), top, picture, bar)
        sheet.items.append(Words(left, top + PATCH + 15, clipped(text, SMALL, wide), SMALL))
    return 30 + -(-len(cells) // 3) * (PATCH + 36)


def _draw_patch(sheet: Sheet, x: float, y: float, picture: PatchPicture, bar: float | None) -> None:
    sheet.items.append(Picture(x, y, PATCH, PATCH, picture.pixels))
    if bar and picture.extent:
        units = bar / picture.extent * PATCH
        sheet.items += [Box(x + 5, y + PATCH - 11, units + 4, 7, PAPER), Box(x + 7, y + PATCH - 9, units, 3, INK)]


def _bar_length(pictures: Sequence[PatchPicture]) -> float | None:
    """Choose one length in µm for the bars of all patches: it fits the smallest."""
    extents = [picture.extent for picture in pictures if picture.extent]
    return scale_bar(min(extents) / PATCH, PATCH)[0] if extents else None
