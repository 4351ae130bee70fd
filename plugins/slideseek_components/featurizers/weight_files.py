"""Find a weights file and verify its content."""

from __future__ import annotations

from pathlib import Path

from slideseek.digests import sha256_file
from slideseek.errors import DamagedError, UsageError


def require_weights(weights: Path | None, featurizer: str, source: str) -> Path:
    """Return the path of an existing weights file; otherwise raise an error that explains what to download."""
    fix = f"download {source} and set weights = \"/path/to/the/file\" for featurizer '{featurizer}'"
    if weights is None or not str(weights).strip() or weights == Path():
        raise UsageError(f"featurizer '{featurizer}' needs a weights file, and none is set", fix)
    path = weights.expanduser()
    if not path.is_file():
        raise UsageError(f"weights of featurizer '{featurizer}': {path} does not exist", fix)
    return path


def check_sha256(path: Path, expected: str, fix: str) -> None:
    """Raise `DamagedError` if the file's SHA-256 is not `expected`."""
    got = sha256_file(path)
    if got != expected:
        raise DamagedError(f"{path.name}: its SHA-256 is {got[:16]}…, not {expected[:16]}…", fix)
