"""Find slides that lie elsewhere, and look up their versions, through the readers that are `Remote`."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from slideseek.boundary import Owner
from slideseek.errors import SlideError
from slideseek.interfaces import Remote, implements
from slideseek.slides.reader import claiming
from slideseek.slides.remote_path import RemotePath
from slideseek.slides.slide_errors import GoneError
from slideseek.types import SlideRecord

LOOK_UP_SECONDS = 10.0
"""How long to wait for the versions of remote slides; those not known by then count as unreachable."""

_AT_ONCE = 16


def find_remote(path: Path, where: Sequence[str] = ()) -> Sequence[SlideRecord]:
    """Return the slides that a URL names: see `Remote.find`."""
    owner, reader = _reached(path)
    return owner.call(f"find({str(path)!r})", reader.find, path, where)


def look_up(path: Path) -> tuple[int, int, str]:
    """Return the bytes, a number of the version (kept as `mtime_ns`) and the fingerprint of a remote slide.

    The content is not read: the fingerprint is of the URL, the size and the version that its store states. Raises
    `GoneError` if there is nothing at the URL, another `SlideError` if it cannot be reached.
    """
    owner, reader = _reached(path)
    found = owner.call(f"look_up({str(path)!r})", reader.look_up, path)
    if found is None:
        raise GoneError(f"nothing is at {path}", "check the URL")
    digest = hashlib.sha256(f"{path}\n{found[0]}\n{found[1]}".encode())
    return found[0], int.from_bytes(digest.digest()[:7]), f"object-sha256:{digest.hexdigest()}"


def look_up_all(paths: Collection[str], seconds: float = LOOK_UP_SECONDS) -> dict[str, tuple[int, int] | None]:
    """Return the bytes and the version of remote slides, None if gone; those out of reach are left out."""
    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="slideseek-look-up")
    asked = {path: pool.submit(look_up, RemotePath(path)) for path in paths}
    done, _ = wait(asked.values(), seconds)
    pool.shutdown(wait=False, cancel_futures=True)
    found = {path: future for path, future in asked.items() if future in done}
    gone = [path for path, future in found.items() if isinstance(future.exception(), GoneError)]
    seen = {path: future.result()[:2] for path, future in found.items() if not future.exception()}
    return {**dict.fromkeys(gone), **seen}


def _reached(path: Path) -> tuple[Owner, Remote]:
    """Return the reader that reaches a URL, and its owner."""
    for owner, reader, _ in claiming(path):
        if implements(reader, Remote):
            return owner, reader
    raise SlideError(f"no installed reader reaches {path}", "check the scheme, such as s3:// or https://")
