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


def near_names(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return the known names a long id may stand for: those that contain it in any case, or else the most similar."""
    names, lower = list(known), name.casefold()
    inside = sorted((one for one in names if lower and lower in one.casefold()), key=lambda one: (len(one), one))
    return inside[:most] or difflib.get_close_matches(name, names, n=most, cutoff=0.6)
