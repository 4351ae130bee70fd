"""How much a file may make slideseek decode: limits against decompression bombs, hostile files and wrong units."""

from __future__ import annotations

MAX_PLAIN_PIXELS = 178_956_970
"""Pixels of an image that must be decoded whole: the limit Pillow sets against decompression bombs, 0.5 GiB of RGB."""

MAX_OUTPUT_PIXELS = 2**26
"""Pixels one call of a slide's `read` or `thumbnail` may return (8192 x 8192)."""

MAX_SOURCE_PIXELS = 2**28
"""Pixels one `read` may decode (16384 x 16384): beyond it a patch is a mistake of units, not a patch."""

MAX_GEOJSON_BYTES = 64 * 2**20
"""Largest annotation file read; a finely outlined slide takes some 5 MiB."""
