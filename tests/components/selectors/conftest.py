"""Grids and slides with colours known cell by cell."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from slideseek.types import Mask, UInt8
from slideseek_components.pixels.array_slide import ArraySlide
from slideseek_components.selectors import tissue as tissue_module
from slideseek_components.selectors.tissue_grid import TissueGrid

CELL = 8
"""Side of a cell in thumbnail pixels."""

MakeGrid = Callable[..., TissueGrid]
MakeSlide = Callable[..., ArraySlide]


def paint(colours: UInt8) -> UInt8:
    """Turn one colour a cell, uint8 (rows, cols, 3), into an image of plain squares."""
    return colours.repeat(CELL, axis=0).repeat(CELL, axis=1)


@pytest.fixture
def make_grid() -> MakeGrid:
    """Make a grid from the colours of its cells, uint8 (rows, cols, 3), and which are tissue, bool (rows, cols)."""

    def make(colours: UInt8, tissue: Mask | None = None) -> TissueGrid:
        rows, cols = colours.shape[:2]
        row, col = np.nonzero(np.ones((rows, cols), dtype=np.bool_) if tissue is None else tissue)
        return TissueGrid(
            slide_id="s",
            dimensions=(cols * 1000, rows * 1000),
            size=1000,
            mpp=0.5,
            extent=1000.0,
            xy=np.stack([col, row], axis=1).astype(np.int32) * np.int32(1000),
            row=row.astype(np.int32),
            col=col.astype(np.int32),
            cover=np.ones(len(row)),
            thumbnail=paint(colours),
        )

    return make


@pytest.fixture
def make_slide(monkeypatch: pytest.MonkeyPatch) -> MakeSlide:
    """Make a slide of 2 µm/px from the colours of its cells of 8 pixels; every pixel that is not white is tissue."""

    def mask(rgb: UInt8, **options: object) -> Mask:
        return np.asarray((rgb < 255).any(axis=2))

    monkeypatch.setattr(tissue_module, "tissue_mask", mask)

    def make(colours: UInt8) -> ArraySlide:
        return ArraySlide(paint(colours), mpp=2.0, slide_id="s")

    return make


def stained(rows: int, cols: int, seed: int = 0) -> UInt8:
    """Colours of cells: patches of five stains with some spread, none of them white."""
    rng = np.random.default_rng(seed)
    stains = np.array([(225, 180, 205), (190, 110, 165), (120, 80, 150), (235, 205, 215), (150, 40, 60)])
    zones = rng.integers(0, 5, (-(-rows // 4), -(-cols // 4))).repeat(4, axis=0).repeat(4, axis=1)[:rows, :cols]
    return np.clip(stains[zones] + rng.normal(0, 6, (rows, cols, 3)), 0, 254).astype(np.uint8)


@pytest.fixture(name="stained")
def stained_fixture() -> Callable[..., UInt8]:
    """Give `stained(rows, cols, seed)`: random but tissue-like colours of cells."""
    return stained
