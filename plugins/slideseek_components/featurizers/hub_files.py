"""Files of a hub model: from the local cache, or downloaded at a pinned commit; absent ones are reported quickly."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from slideseek.errors import SlideseekError, one_line
from slideseek_components.featurizers.extras import require_module

FOLDER_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
CONFIG = "config.json"

SECONDS = 1.5
"""How long the hub may take to accept a connection. Its own client tries for 20 seconds and reports every attempt."""


def cached(repository: str, revision: str, files: Sequence[str] = FOLDER_WEIGHTS) -> bool:
    """Return whether the weights of a hub model were downloaded before."""
    return any(_in_cache(repository, file, revision) for file in files)


def fetch(
    repository: str,
    revision: str,
    files: Sequence[str] = FOLDER_WEIGHTS,
    with_config: bool = True,
    terms: bool | None = None,
) -> tuple[Path, Path | None]:
    """Return the weights and the configuration of a hub model from the local cache, downloading what is missing.

    files: the names the weights may have, the preferred one first. with_config: whether a config.json is needed.
    terms: whether the model has terms to accept, None if unknown.
    """
    errors = require_module("huggingface_hub.errors", "timm")
    try:
        config = _file(repository, CONFIG, revision) if with_config else None
        return _weights(repository, revision, files, errors.EntryNotFoundError), config
    except (OSError, errors.EntryNotFoundError) as error:
        needed = f"{CONFIG} and " * with_config + " or ".join(files)
        accept = {True: "accept its terms", None: "accept its terms if it has any", False: ""}[terms]
        steps = (f"open huggingface.co/{repository}/tree/{revision} on a connected machine", accept)
        raise SlideseekError(
            f"{repository}@{revision[:8]} cannot be fetched from the hub ({one_line(error, 160)})",
            f"{', '.join(filter(None, steps))}, download {needed} into one folder and set weights to that folder",
        ) from error


def in_folder(folder: Path, names: Sequence[str] = FOLDER_WEIGHTS) -> Path | None:
    """Return the first of the files that the folder has."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _weights(repository: str, revision: str, files: Sequence[str], absent: type[Exception]) -> Path:
    for file in files:
        if found := _in_cache(repository, file, revision):
            return found
    for file in files[:-1]:
        try:
            return _file(repository, file, revision)
        except absent as error:  # older models have only the pickled form; only tensors are read from it
            if isinstance(error, OSError):  # the hub could not be asked
                raise
    return _file(repository, files[-1], revision)


def _in_cache(repository: str, file: str, revision: str) -> Path | None:
    hub = require_module("huggingface_hub", "timm")
    path = hub.try_to_load_from_cache(repository, file, revision=revision)
    return Path(path) if isinstance(path, str) else None


def _file(repository: str, file: str, revision: str) -> Path:
    hub = require_module("huggingface_hub", "timm")
    if found := _in_cache(repository, file, revision):
        return found
    if not hub.constants.HF_HUB_OFFLINE:
        reach(hub.constants.ENDPOINT)
    return Path(hub.hf_hub_download(repository, file, revision=revision))


def reach(endpoint: str) -> None:
    """Raise OSError if the hub does not accept a connection. Behind a proxy only its client can find out."""
    if getproxies():
        return
    address = urlsplit(endpoint)
    port = address.port or (80 if address.scheme == "http" else 443)
    socket.create_connection((address.hostname or "", port), SECONDS).close()
