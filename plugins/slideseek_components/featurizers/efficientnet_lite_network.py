"""The EfficientNet-Lite network without its classification head.

Tan and Le, "EfficientNet: rethinking model scaling for convolutional neural networks", ICML 2019; the Lite
variants drop squeeze-and-excitation, use ReLU6 and do not scale the stem and the head.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor, nn

from slideseek_components.featurizers.folding import fold

STEM, HEAD = 32, 1280
STAGES = (  # kernel, stride, expansion, output channels, repeats of Lite0
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)


def _channels(lite0: int, width: float) -> int:
    """Scale a channel count to the nearest multiple of 8, never below 90 % of the exact value."""
    exact = lite0 * width
    rounded = max(8, int(exact + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * exact else rounded + 8


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


class SameConv(nn.Conv2d):
    """A convolution without bias whose output side is ceil(side / stride): the weights expect this padding.

    An odd number of padding pixels puts the extra one at the right and the bottom.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        if kernel == 1:
            return F.conv2d(x, self.weight, self.bias)
        if stride == 1:
            return F.conv2d(x, self.weight, self.bias, padding=kernel // 2, groups=self.groups)
        pad: list[int] = []
        for side in (x.shape[3], x.shape[2]):
            total = max((math.ceil(side / stride) - 1) * stride + kernel - side, 0)
            pad += [total // 2, total - total // 2]
        return F.conv2d(F.pad(x, pad), self.weight, self.bias, self.stride, groups=self.groups)


class Block(nn.Module):
    """Expand, convolve each channel separately, project; add the input if the shape is unchanged."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expands = expansion != 1
        if self.expands:
            self.expand_conv, self.bn0 = SameConv(inputs, inner, 1), _norm(inner)
        self.depthwise_conv, self.bn1 = SameConv(inner, inner, kernel, stride, groups=inner), _norm(inner)
        self.project_conv, self.bn2 = SameConv(inner, outputs, 1), _norm(outputs)
        self.adds_input = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu6(self.bn0(self.expand_conv(x))) if self.expands else x
        inner = F.relu6(self.bn1(self.depthwise_conv(inner)))
        projected: Tensor = self.bn2(self.project_conv(inner))
        return projected + x if self.adds_input else projected


class EfficientNetLite(nn.Module):
    """Map (n, 3, side, side) to (n, 1280), the mean of the last feature map over the image.

    width, depth: the factors by which channels and repeats of Lite0 are scaled.
    """

    def __init__(self, width: float, depth: float) -> None:
        super().__init__()
        self.conv_stem, self.bn0 = SameConv(3, STEM, 3, stride=2), _norm(STEM)
        blocks: list[Block] = []
        inputs = STEM
        for number, (kernel, stride, expansion, lite0, repeats) in enumerate(STAGES):
            outputs = _channels(lite0, width)
            if number not in (0, len(STAGES) - 1):
                repeats = math.ceil(repeats * depth)
            for repeat in range(repeats):
                blocks.append(Block(inputs, outputs, kernel, stride if repeat == 0 else 1, expansion))
                inputs = outputs
        self.blocks = nn.ModuleList(blocks)
        self.conv_head, self.bn1 = SameConv(inputs, HEAD, 1), _norm(HEAD)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu6(self.bn0(self.conv_stem(x)))
        for block in self.blocks:
            x = block(x)
        return F.relu6(self.bn1(self.conv_head(x))).mean((2, 3))

    def fold(self) -> EfficientNetLite:
        """Move every normalisation into the convolution before it (in place): the same function, faster."""
        fold(self, "conv_stem", "bn0")
        fold(self, "conv_head", "bn1")
        for block in self.blocks:
            if block.expands:
                fold(block, "expand_conv", "bn0")
            fold(block, "depthwise_conv", "bn1")
            fold(block, "project_conv", "bn2")
        return self


def feature_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the tensors of the published checkpoints to those of `EfficientNetLite`, without the classifier."""
    plain = {".".join(part.removeprefix("_") for part in name.split(".")): tensor for name, tensor in state.items()}
    return {name: tensor for name, tensor in plain.items() if not name.startswith("fc.")}
