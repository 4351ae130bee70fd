"""Import an optional package, or report which extra of slideseek installs it."""

from __future__ import annotations

import importlib
from types import ModuleType

from slideseek.errors import UsageError


def require_module(module: str, extra: str) -> ModuleType:
    """Return the imported module; raise a UsageError that names the extra if it is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise
        raise UsageError(
            f"featurizer '{extra}' needs the package {module.split('.')[0]}, which is not installed",
            f"run: pip install 'slideseek[{extra}]'",
        ) from error
