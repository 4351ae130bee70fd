"""Opaque names for slides in addresses: a digest of the id, never a path or the id itself."""

from __future__ import annotations

import base64
import hashlib

KEY_PATTERN = "^[a-z2-7]{24}$"
"""What a key looks like: 120 bits in lower-case base 32."""


def slide_key(slide_id: str) -> str:
    """Name a slide for addresses. The same id has the same key on every start, so permalinks stay good."""
    digest = hashlib.sha256(b"slideseek slide\0" + slide_id.encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(digest[:15]).decode("ascii").lower()
