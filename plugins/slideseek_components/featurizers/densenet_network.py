"""DenseNet-121 without its classification head, with the tensor names of the common ImageNet checkpoint.

Huang, Liu, van der Maaten and Weinberger, "Densely connected convolutional networks", CVPR 2017.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slideseek.errors import SlideseekError
from slideseek_components.featurizers.folding import fold

GROWTH, BOTTLENECK, STEM = 32, 4 * 32, 64
LAYERS = (6, 12, 24, 16)
WIDTH = 1024


class DenseLayer(nn.Module):
    """Compute GROWTH new channels from all channels so far."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, BOTTLENECK, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(BOTTLENECK)
        self.conv2 = nn.Conv2d(BOTTLENECK, GROWTH, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.conv1(F.relu(self.norm1(x), inplace=True))
        new: Tensor = self.conv2(F.relu(self.norm2(inner), inplace=True))
        return torch.cat([x, new], 1)


class Transition(nn.Module):
    """Halve channels and side between two blocks."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, channels // 2, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(self.conv(F.relu(self.norm(x), inplace=True)), 2)


class DenseNet121(nn.Module):
    """Map (n, 3, side, side) to (n, 1024), the mean of the last feature map over the image.

    last_relu: clip the last feature map at zero before the mean is taken.
    """

    def __init__(self, last_relu: bool) -> None:
        super().__init__()
        self.last_relu = last_relu
        parts: OrderedDict[str, nn.Module] = OrderedDict(
            conv0=nn.Conv2d(3, STEM, 7, stride=2, padding=3, bias=False),
            norm0=nn.BatchNorm2d(STEM),
            relu0=nn.ReLU(),
            pool0=nn.MaxPool2d(3, stride=2, padding=1),
        )
        channels = STEM
        for block, layers in enumerate(LAYERS, 1):
            dense: OrderedDict[str, nn.Module] = OrderedDict()
            for layer in range(layers):
                dense[f"denselayer{layer + 1}"] = DenseLayer(channels + layer * GROWTH)
            parts[f"denseblock{block}"] = nn.Sequential(dense)
            channels += layers * GROWTH
            if block < len(LAYERS):
                parts[f"transition{block}"] = Transition(channels)
                channels //= 2
        parts["norm5"] = nn.BatchNorm2d(channels)
        self.features = nn.Sequential(parts)

    def forward(self, x: Tensor) -> Tensor:
        maps: Tensor = self.features(x)
        return (F.relu(maps) if self.last_relu else maps).mean((2, 3))

    def fold(self) -> DenseNet121:
        """Move each normalisation that follows a convolution into it (in place): the same function, faster."""
        fold(self.features, "conv0", "norm0")
        for module in self.modules():
            if isinstance(module, DenseLayer):
                fold(module, "conv1", "norm2")
        return self


_BODY = re.compile(r"^(?P<prefix>(?:.+\.)?)(?P<body>(?:conv0|norm0|denseblock[1-4]|transition[1-3]|norm5)\..+)$")
_HEAD = re.compile(r"^(?:.+\.)?(?:classifier|fc|fc_\d+)\.(?:weight|bias)$")
_OLD = re.compile(r"(denselayer\d+)\.(norm|conv)\.([12])\.")


def feature_names(state: Mapping[str, Tensor], source: str) -> dict[str, Tensor]:
    """Rename the tensors of a published checkpoint to those of `DenseNet121`, without the classifier.

    The body may sit under any one prefix (`features.`, `module.model.0.`); layers may have the older names
    (`denselayer1.norm.1`). source: the name of the file, for messages.
    """
    renamed: dict[str, Tensor] = {}
    prefixes: set[str] = set()
    for name, tensor in state.items():
        found = _BODY.match(name)
        if found:
            prefixes.add(found["prefix"])
            renamed["features." + _OLD.sub(r"\1.\2\3.", found["body"])] = tensor
        elif not _HEAD.match(name):
            renamed[name] = tensor
    if len(prefixes) > 1:
        raise SlideseekError(
            f"{source}: has more than one DenseNet-121, under {', '.join(repr(name) for name in sorted(prefixes))}",
            "save the state dict of one network",
        )
    return renamed
