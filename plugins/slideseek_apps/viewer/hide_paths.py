"""Prevent path leakage: messages may name files, but responses must not contain their folders."""

from __future__ import annotations

import re

# A root (`/`, `C:\`, `\\host`) outside a word, folders, and the last part, which is kept.
_PART = r"[^\s'\",;:()\\/]+"
_ABSOLUTE = re.compile(rf"(?<![\w.:/\\])(?:[A-Za-z]:[\\/]|/|\\\\)(?:{_PART}[\\/])*({_PART})")


def without_paths(text: str, *known: str) -> str:
    """Return a message with every absolute path reduced to its last part.

    known: paths that may occur in it. They are replaced first, because a pattern cannot find paths with spaces.
    """
    for path in known:
        if path:
            text = text.replace(path, re.split(r"[\\/]", path.rstrip("\\/"))[-1])
    return _ABSOLUTE.sub(lambda match: match.group(1), text)
