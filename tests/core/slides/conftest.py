"""Slides written for the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from slideseek.types import UInt8

WriteTiff = Callable[..., Path]


@pytest.fixture
def write_tiff(tmp_path: Path) -> WriteTiff:
    """Return a function that writes a tiled TIFF OpenSlide opens, optionally with an Aperio description."""

    def write(
        name: str = "slide.tif",
        image: UInt8 | None = None,
        *,
        aperio: str | None = None,
        resolution: tuple[Any, Any] | None = None,
        unit: str | None = None,
        compression: str | None = "zlib",
        levels: int = 1,
        tile: int = 64,
        **options: Any,
    ) -> Path:
        pixels = np.full((64, 96, 3), 200, np.uint8) if image is None else image
        height, width = pixels.shape[:2]
        description = None
        if aperio is not None:
            head = (
                f"Aperio Image Library v11.2.1\r\n{width}x{height} [0,0 {width}x{height}] ({tile}x{tile}) JPEG/RGB Q=90"
            )
            description = f"{head}|{aperio}" if aperio else head
        path = tmp_path / name
        with tifffile.TiffWriter(path) as tiff:
            for level in range(levels):
                scale = 2**level
                size = (max(1, width // scale), max(1, height // scale))
                shrunk = Image.fromarray(pixels).resize(
                    size, Image.Resampling.BOX, box=(0, 0, size[0] * scale, size[1] * scale)
                )
                tiff.write(
                    np.asarray(shrunk),
                    tile=(tile, tile),
                    photometric="rgb",
                    compression=compression,
                    description=description,
                    metadata=None,
                    subfiletype=0 if level == 0 else 1,
                    resolution=resolution,
                    resolutionunit=unit,
                    **options,
                )
        return path

    return write
