"""Failures outside slideseek as messages with a fix: disks, permissions, a damaged catalogue, memory."""

from __future__ import annotations

import errno
import sqlite3

from slideseek.archive.catalog import unusable
from slideseek.errors import SlideseekError, message

_RIGHTS = "check the write permissions there, or choose another folder"
_SPACE = "free some space, then run the same command again"

_OS_FIXES = {
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: _RIGHTS,
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path: one part of it is a file",
    errno.EISDIR: "give a file, not a folder",
    errno.EMFILE: "raise the limit on open files ('ulimit -n'), or use fewer --workers",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def explain(error: Exception) -> SlideseekError | None:
    """Return a system, catalogue or memory error as an error with a fix; None for a bug."""
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        fix = _OS_FIXES.get(error.errno or 0, "check the disk or the network share, then run the same command again")
        return SlideseekError(f"{where}{error.strerror or message(error)}", fix)
    if isinstance(error, sqlite3.DatabaseError):
        return unusable("catalog.sqlite", error)
    if isinstance(error, MemoryError):
        return SlideseekError("there is not enough memory", "use fewer --workers or smaller patches")
    return None
