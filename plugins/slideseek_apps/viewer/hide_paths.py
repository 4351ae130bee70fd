"""Keep places on the disk out of what is sent: messages name files, answers must not tell where they lie."""

from __future__ import annotations

import re

# A root (`/`, `C:\`, `\\host`) that does not stand within a word, folders, and the last part, which is kept.
_PART = r"[^\s'\",;:()\\/]+"
_ABSOLUTE = re.compile(rf"(?<![\w.:/\\])(?:[A-Za-z]:[\\/]|/|\\\\)(?:{_PART}[\\/])*({_PART})")


def without_paths(text: str, *known: str) -> str:
    """Return a message with every absolute path cut down to its last part.

    known: paths that are surely in it, cut first: they may hold blanks, which no pattern can tell from the text's own.
    """
    for path in known:
        if path:
            text = text.replace(path, re.split(r"[\\/]", path.rstrip("\\/"))[-1])
    return _ABSOLUTE.sub(lambda match: match.group(1), text)
