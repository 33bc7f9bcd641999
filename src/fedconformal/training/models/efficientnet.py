"""EfficientNet-B1 with torchvision's parameter names, so that ImageNet weights load by name, and its light form Lite1.

Tan and Le, "EfficientNet: rethinking model scaling for convolutional neural networks", 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fedconformal.training.models.networks import ImageNetwork

DROPOUT = 0.2
DROP_PATH = 0.2
"""Probability of dropping the last block in training; grows linearly from zero at the first."""


class Stage(NamedTuple):
    """Blocks of one width; only the first may downsample."""

    expansion: int
    kernel: int
    stride: int
    width: int
    blocks: int


STEM = 32
STAGES = (
    Stage(1, 3, 1, 16, 2),
    Stage(6, 3, 2, 24, 3),
    Stage(6, 5, 2, 40, 3),
    Stage(6, 3, 2, 80, 4),
    Stage(6, 5, 1, 112, 4),
    Stage(6, 5, 2, 192, 5),
    Stage(6, 3, 1, 320, 2),
)
TOP = 1280


def convolution(
    inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1, activation: type[nn.Module] | None
) -> nn.Sequential:
    """Return a convolution with batch normalisation and activation."""
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([activation()] if activation else []))


class SqueezeExcitation(nn.Module):
    """Squeeze-and-excitation: channel weights from the whole image."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Scale every channel by a number from 0 to 1."""
        weights = nn.functional.silu(self.fc1(x.mean((2, 3), keepdim=True)))
        scaled: Tensor = self.fc2(weights).sigmoid() * x
        return scaled


class MBConv(nn.Module):
    """Inverted residual block with stochastic depth; the light form has no squeeze and other activations."""

    def __init__(self, inputs: int, stage: Stage, stride: int, drop: float, *, light: bool = False) -> None:
        super().__init__()
        wide, activation = inputs * stage.expansion, nn.ReLU6 if light else nn.SiLU
        self.block = nn.Sequential(
            *([convolution(inputs, wide, 1, activation=activation)] if wide != inputs else []),
            convolution(wide, wide, stage.kernel, stride=stride, groups=wide, activation=activation),
            *([] if light else [SqueezeExcitation(wide, max(1, inputs // 4))]),
            convolution(wide, stage.width, 1, activation=None),
        )
        self.residual = stride == 1 and inputs == stage.width
        self.drop = drop

    def forward(self, x: Tensor) -> Tensor:
        """Add the block to its input, if the shapes are equal."""
        out: Tensor = self.block(x)
        if not self.residual:
            return out
        if self.training and self.drop:
            mask = torch.rand(len(x), 1, 1, 1, device=x.device) >= self.drop
            out = out * mask / (1 - self.drop)
        return x + out


class EfficientNetB1(ImageNetwork):
    """Seven stages of 23 blocks in all; 7,794,184 weights at 1,000 classes. ImageNet weights need three channels."""

    name = "efficientnet-b1"
    head_name = "classifier.1"
    depths: tuple[int, ...] = tuple(stage.blocks for stage in STAGES)
    light = False

    def __init__(self, shape: Sequence[int], classes: int) -> None:
        super().__init__(shape, classes)
        total, done, width = sum(self.depths), 0, STEM
        stages = []
        for stage, depth in zip(STAGES, self.depths, strict=True):
            blocks = []
            for first in [True] + [False] * (depth - 1):
                drop, stride = DROP_PATH * done / total, stage.stride if first else 1
                blocks.append(MBConv(width, stage, stride, drop, light=self.light))
                width, done = stage.width, done + 1
            stages.append(nn.Sequential(*blocks))
        activation = nn.ReLU6 if self.light else nn.SiLU
        stem = convolution(shape[0], STEM, 3, stride=2, activation=activation)
        top = convolution(width, TOP, 1, activation=activation)
        self.features = nn.Sequential(stem, *stages, top)
        self.classifier = nn.Sequential(nn.Dropout(DROPOUT), nn.Linear(TOP, classes))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                bound = classes**-0.5
                nn.init.uniform_(module.weight, -bound, bound)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(x).mean((2, 3)))
        return logits


class EfficientNetLite1(EfficientNetB1):
    """B1 without squeeze, with 21 blocks; 5,416,680 weights at 1,000 classes, in the order of the published weights."""

    name = "efficientnet-lite1"
    depths = (1, 3, 3, 4, 4, 5, 1)
    light = True
