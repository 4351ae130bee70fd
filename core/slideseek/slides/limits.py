"""Limits on what is decoded: against decompression bombs, hostile files and wrong units."""

from __future__ import annotations

from contextvars import ContextVar

MAX_OUTPUT_PIXELS = 2**26
"""Most pixels that one `read` or `thumbnail` of a slide may return (8192 x 8192)."""

MAX_SOURCE_PIXELS = 2**28
"""Most pixels one `read` may decode (16384 x 16384): a larger patch is a mistake in units."""

MAX_GEOJSON_BYTES = 64 * 2**20
"""Largest annotation file to read; a finely outlined slide takes about 5 MiB."""

MAX_GEOJSON_POINTS = 500_000
"""Most points in an annotation file: filling polygons takes time with their number."""

READ_SECONDS: ContextVar[float] = ContextVar("READ_SECONDS", default=600.0)
"""Most seconds of processor time to open a slide, or for one `read` or `thumbnail`, if the reader can limit it."""
