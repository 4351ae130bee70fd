"""The figures of a report as files for a paper: SVG, and PDF and PNG made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from slideseek.archive.files import replacing, write_text
from slideseek_apps.bench.report.chart_style import PAPER
from slideseek_apps.bench.report.figures import Figure

DPI = 300
_CSS_DPI = 96
"""Pixels of an SVG per inch, as browsers and CairoSVG define them."""


def standalone_svg(figure: Figure) -> str:
    """Return a figure as an SVG document on white paper."""
    start, _, rest = figure.svg.partition(">")
    return f'{start}><rect width="100%" height="100%" fill="{PAPER}"/>{rest}\n'


def write_figures(figures: Sequence[Figure], folder: Path, on_note: Callable[[str], None]) -> list[Path]:
    """Write each figure as SVG and, where CairoSVG is installed, as PDF and as PNG of 300 dpi; return the files.

    on_note: called with what could not be written and how to get it.
    """
    renderer = _renderer(on_note) if figures else None
    written = []
    for number, figure in enumerate(figures, 1):
        path = folder / f"figure-{number}-{figure.key}.svg"
        svg = standalone_svg(figure)
        write_text(path, svg)
        written.append(path)
        if renderer is not None:
            pdf, png = path.with_suffix(".pdf"), path.with_suffix(".png")
            with replacing(pdf) as temporary:
                temporary.write_bytes(renderer.svg2pdf(bytestring=svg.encode()))
            with replacing(png) as temporary:
                temporary.write_bytes(renderer.svg2png(bytestring=svg.encode(), scale=DPI / _CSS_DPI))
            written += [pdf, png]
    return written


def _renderer(on_note: Callable[[str], None]) -> Any | None:
    try:
        import cairosvg
    except ModuleNotFoundError:
        on_note("figures are written as SVG alone: PDF and PNG need pip install 'slideseek[figures]'")
    except OSError:  # cairocffi loads the library when it is imported
        on_note("figures are written as SVG alone: PDF and PNG need the library cairo (package libcairo2 on Debian)")
    else:
        return cairosvg
    return None
