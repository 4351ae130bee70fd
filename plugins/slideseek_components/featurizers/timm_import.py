"""Import timm, even if torchvision's compiled operators do not match the installed torch."""

from __future__ import annotations

import sys
from types import ModuleType

import torch

from slideseek_components.featurizers.extras import require_module

_OPERATORS = ("nms", "qnms")
_DEFINED: list[torch.library.Library] = []
"""The definitions last as long as their library object, so keep it."""


def import_timm() -> ModuleType:
    """Return timm.

    torchvision registers its operators with torch on import, and fails if its binary could not be loaded (for example a
    CPU build next to a CUDA build). Image networks do not use these operators: declaring them is enough. This is done
    only after a plain import has failed for that reason.
    """
    try:
        return require_module("timm", "timm")
    except RuntimeError as error:
        if "torchvision::" not in str(error) or _DEFINED:
            raise
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for operator in _OPERATORS:
        schema = f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        library.define(schema)  # type: ignore[no-untyped-call]
    _DEFINED.append(library)
    # The failed import has left both packages half-imported.
    for name in [name for name in sys.modules if name.split(".")[0] in ("timm", "torchvision")]:
        del sys.modules[name]
    return require_module("timm", "timm")
