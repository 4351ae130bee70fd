"""Write a sheet as a file for a paper: PNG and TIFF in pixels, SVG, and PDF made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image

from slideseek.archive.files import replacing, write_text
from slideseek.errors import SlideseekError, UsageError
from slideseek_apps.reports.picture_sheet import Sheet

RASTER = {".png": "PNG", ".tif": "TIFF", ".tiff": "TIFF"}


def require_format(path: Path) -> None:
    """Reject a file that cannot be written. Called before the work, not after it."""
    ending = path.suffix.lower()
    if ending not in {*RASTER, ".svg", ".pdf"}:
        raise UsageError(f"no picture can be written as {path.name!r}", "end the name in .png, .tif, .svg or .pdf")
    if ending == ".pdf":
        _cairosvg()


def save_picture(sheet: Sheet, path: Path) -> None:
    """Write a sheet in the format of the file's name, whole or not at all."""
    ending = path.suffix.lower()
    if ending == ".svg":
        write_text(path, sheet.svg())
        return
    with replacing(path) as temporary:
        if ending == ".pdf":
            temporary.write_bytes(_cairosvg().svg2pdf(bytestring=sheet.svg().encode()))
            return
        look = {"compression": "tiff_lzw"} if RASTER[ending] == "TIFF" else {}
        image = Image.fromarray(sheet.pixels())
        image.save(temporary, format=RASTER[ending], dpi=(sheet.dpi, sheet.dpi), **look)


def _cairosvg() -> Any:
    try:
        import cairosvg
    except ModuleNotFoundError:
        raise SlideseekError("a PDF needs CairoSVG", "run: pip install 'slideseek[figures]', or write .svg") from None
    except OSError:  # cairocffi loads the library when it is imported
        raise SlideseekError(
            "a PDF needs the library cairo", "install it (package libcairo2 on Debian), or write .svg"
        ) from None
    return cairosvg
