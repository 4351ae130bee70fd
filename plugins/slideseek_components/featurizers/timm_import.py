"""Import timm, also where torchvision's compiled operators do not fit the installed torch."""

from __future__ import annotations

import sys
from types import ModuleType

import torch

from slideseek_components.featurizers.extras import require_module

_OPERATORS = ("nms", "qnms")
_DEFINED: list[torch.library.Library] = []
"""Definitions live as long as their library object: keep it."""


def import_timm() -> ModuleType:
    """Return timm.

    torchvision describes its operators to torch while it is imported and fails when its binary, which holds them,
    could not be loaded (a CPU build beside a CUDA build, for example). No image network uses them: declaring them
    is enough, and is done only after a plain import has failed for that reason.
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
    # The failed import has left halves of both packages behind.
    for name in [name for name in sys.modules if name.split(".")[0] in ("timm", "torchvision")]:
        del sys.modules[name]
    return require_module("timm", "timm")
