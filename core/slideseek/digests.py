"""Content-and-settings keys: the names under which results are kept and found again."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> str:
    """Write plain data as JSON with one spelling: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """Return the SHA-256 (64 hex digits) of plain data: strings, numbers, lists, dictionaries."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def digest_bytes(*parts: bytes | memoryview) -> str:
    """Return the SHA-256 (64 hex digits) of bytes laid end to end."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.hexdigest()
