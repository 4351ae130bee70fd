"""One commit of a hub repository, for loaders that ask for whatever is newest: from the local cache, and no other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from slideseek.errors import SlideseekError, one_line
from slideseek_components.featurizers.extras import require_module
from slideseek_components.featurizers.hub_files import reach

_ONE_AT_A_TIME = threading.Lock()


def snapshot(repository: str, revision: str, files: str = "*", extra: str = "timm") -> Path:
    """Return the folder of a commit in the local cache, downloaded if it is not there; what fails does so quickly.

    files: a pattern of the files that are needed. extra: the extra of slideseek that brings the hub's client.
    """
    hub, errors = require_module("huggingface_hub", extra), require_module("huggingface_hub.errors", extra)
    if in_cache(repository, revision, files):
        return _place(repository) / "snapshots" / revision
    try:
        if hub.constants.HF_HUB_OFFLINE:
            raise OSError("HF_HUB_OFFLINE is set")
        reach(hub.constants.ENDPOINT)
        return Path(hub.snapshot_download(repository, revision=revision, allow_patterns=files))
    except (OSError, errors.HfHubHTTPError) as error:
        raise SlideseekError(
            f"{repository}@{revision[:8]} is not in the hub's cache and cannot be fetched ({one_line(error, 160)})",
            f"on a connected machine that may have it run 'hf download {repository} --revision {revision}', then copy "
            f"its cache to {hub.constants.HF_HUB_CACHE}",
        ) from error


def in_cache(repository: str, revision: str, files: str = "*") -> bool:
    """Return whether the local cache has files of a commit."""
    return any((_place(repository) / "snapshots" / revision).glob(files))


def newest_cached(repository: str, extra: str = "timm") -> str:
    """Return the commit that the local cache has as the newest of a repository, "" if it has none."""
    require_module("huggingface_hub", extra)
    main = _place(repository) / "refs" / "main"
    return main.read_text().strip() if main.is_file() else ""


@contextmanager
def pinned(repository: str, revision: str) -> Iterator[None]:
    """Let loaders find this commit as the newest of its repository, and others as they are cached; none is downloaded.

    A loader that names no commit takes the one that `refs/main` of the cache names, so it gets a cache of links where
    that is `revision`. The hub's client reads the place of its cache and whether it is offline at every call.
    """
    constants: Any = require_module("huggingface_hub.constants", "lazyslide")
    place = _place(repository)
    with _ONE_AT_A_TIME, TemporaryDirectory(prefix="slideseek-hub-") as folder:
        mine = Path(folder) / place.name
        for name in ("refs", "snapshots"):
            (mine / name).mkdir(parents=True)
        (mine / "refs" / "main").write_text(revision)
        (mine / "snapshots" / revision).symlink_to(place / "snapshots" / revision)
        for other in place.parent.glob("models--*"):
            if other.name != place.name:
                (mine.parent / other.name).symlink_to(other)
        before = constants.HF_HUB_CACHE, constants.HF_HUB_OFFLINE
        constants.HF_HUB_CACHE, constants.HF_HUB_OFFLINE = folder, True
        try:
            yield
        finally:
            constants.HF_HUB_CACHE, constants.HF_HUB_OFFLINE = before


@contextmanager
def offline() -> Iterator[None]:
    """Keep loaders from downloading anything."""
    constants: Any = require_module("huggingface_hub.constants", "lazyslide")
    with _ONE_AT_A_TIME:
        before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
        try:
            yield
        finally:
            constants.HF_HUB_OFFLINE = before


def _place(repository: str) -> Path:
    """Return the folder of a repository in the hub's cache."""
    constants = require_module("huggingface_hub.constants", "timm")
    return Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}"
