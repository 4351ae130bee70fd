"""What went wrong outside of slideseek, in words a person can act on: disks, rights, a damaged catalogue, memory."""

from __future__ import annotations

import errno
import sqlite3

from slideseek.errors import SlideseekError, message

_RIGHTS = "check who may write there, or choose another folder"
_SPACE = "free some space, then run the same command again"

_OS_FIXES = {
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: _RIGHTS,
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path: a part of it is a file",
    errno.EISDIR: "name a file, not a folder",
    errno.EMFILE: "raise the limit of open files ('ulimit -n'), or use fewer --workers",
    errno.ENAMETOOLONG: "choose a shorter name",
}
_RESTORE = "bring catalog.sqlite back from a backup, or make the archive anew: features are computed again"
_SQL_FIXES = (
    ("locked", "wait until the other program is done with the archive, then run the same command again"),
    ("readonly", _RIGHTS),
    ("unable to open", _RIGHTS),
    ("full", _SPACE),
    ("malformed", _RESTORE),
    (
        "not a database",
        _RESTORE,
    ),
)


def explain(error: Exception) -> SlideseekError | None:
    """Return an error of the system, the catalogue or memory as one with a fix; None for what is a bug."""
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        fix = _OS_FIXES.get(error.errno or 0, "check the disk or the network share, then run the same command again")
        return SlideseekError(f"{where}{error.strerror or message(error)}", fix)
    if isinstance(error, sqlite3.DatabaseError):
        text = message(error)
        fix = next((fix for part, fix in _SQL_FIXES if part in text), "check the disk that holds the archive")
        return SlideseekError(f"the archive's catalogue cannot be used ({text})", fix)
    if isinstance(error, MemoryError):
        return SlideseekError("there is not enough memory", "use fewer --workers or smaller patches")
    return None
