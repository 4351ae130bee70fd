"""Help with a name that is not known: the known name most like it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the known name most like `name`, or "" when none is close (likeness from 0 to 1, at least `cutoff`)."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return found[0] if found else ""


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the hint for a name that is not known: the nearest known one as a question, else `otherwise`."""
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else otherwise
