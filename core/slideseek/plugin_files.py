"""Plugins in single Python files, named in an archive's configuration: `plugins = ["my_encoder.py"]`.

Such a file runs code, and an archive may come from somebody else. A file is therefore used only if the user lists it,
or a folder that contains it, in the environment variable SLIDESEEK_TRUST. It must lie inside the archive's folder.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from slideseek.digests import sha256_file
from slideseek.errors import SlideseekError
from slideseek.plugins import COMPONENT_KINDS, HOOKS

TRUST_VARIABLE = "SLIDESEEK_TRUST"
USED = [HOOKS[kind] for kind in COMPONENT_KINDS]


def plugin_files(root: Path, names: Sequence[str]) -> Iterator[tuple[str, str, Callable[[], object]]]:
    """Yield the name, the version (of its content) and the loader of each plugin file of an archive."""
    for name in names:
        file = (root / name).resolve()
        try:
            version = sha256_file(file)[:12]
        except OSError as error:
            yield name, "-", _failing(f"{file} cannot be read ({error.strerror}): copy it there first")
            continue
        if not file.is_relative_to(root.resolve()):
            yield name, version, _failing(f"{file} lies outside the archive's folder: move it there")
        elif not _is_trusted(file):
            fix = f"read it, then set {TRUST_VARIABLE}={root.resolve()}"
            yield name, version, _failing(f"{file} runs code and is not trusted: {fix}")
        else:
            yield name, version, lambda file=file, version=version: _load(file, version)  # type: ignore[misc]


def _is_trusted(file: Path) -> bool:
    listed = [Path(text).resolve() for text in os.environ.get(TRUST_VARIABLE, "").split(os.pathsep) if text.strip()]
    return any(file.is_relative_to(path) for path in listed)


def _failing(reason: str) -> Callable[[], object]:
    def load() -> object:
        raise SlideseekError(reason)

    return load


def _load(file: Path, version: str) -> object:
    """Import a file under a name of its content, so that an edited file is another module."""
    name = f"slideseek_file_{file.stem}_{version}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise SlideseekError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: its dataclasses look up their module
    try:
        spec.loader.exec_module(module)
        # Readers, commands and kinds of data are the same for every archive, and are found before one is opened.
        if unused := [hook for hook in HOOKS.values() if hook not in USED and hasattr(module, hook)]:
            raise SlideseekError(f"{unused[0]} works only in an installed plugin ('slideseek plugins new')")
    except BaseException:
        del sys.modules[name]
        raise
    return module
