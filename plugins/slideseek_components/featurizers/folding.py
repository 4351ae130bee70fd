"""Fold a batch normalisation into the convolution before it: fewer passes over memory, the same function."""

from __future__ import annotations

from typing import cast

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval


def fold(owner: nn.Module, conv: str, norm: str) -> None:
    """Replace `owner.conv` by one that also normalises, and `owner.norm` by the identity; both in evaluation mode."""
    before = cast(nn.Conv2d, owner.get_submodule(conv))
    after = cast(nn.BatchNorm2d, owner.get_submodule(norm))
    setattr(owner, conv, fuse_conv_bn_eval(before, after))
    setattr(owner, norm, nn.Identity())
