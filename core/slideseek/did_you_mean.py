"""Help with an unknown name: suggest the most similar known name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the known name most similar to `name`, or "" if none reaches `cutoff` (a similarity from 0 to 1)."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return found[0] if found else ""


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the hint for an unknown name: the nearest known one as a question, else `otherwise`."""
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else otherwise
