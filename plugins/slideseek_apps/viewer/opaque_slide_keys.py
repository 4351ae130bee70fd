"""Opaque slide keys for addresses: a digest of the id, never a path or the id itself."""

from __future__ import annotations

import base64
import hashlib

KEY_PATTERN = "^[a-z2-7]{24}$"
"""Format of a key: 120 bits in lower-case base 32."""


def slide_key(slide_id: str) -> str:
    """Return the key of a slide. It is the same on every start, so permalinks stay valid."""
    digest = hashlib.sha256(b"slideseek slide\0" + slide_id.encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(digest[:15]).decode("ascii").lower()
