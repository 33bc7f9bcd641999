"""LeNet-5, with rectified units and maximum pooling.

LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document recognition", 1998.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from fedconformal.training.models.network import ImageNetwork

FULL_SIDE = 32
"""The network was made for images of this size; smaller ones get a border, up to two pixels wide."""


class LeNet(ImageNetwork):
    """Two convolutions and three linear layers; images of 28 and of 32 pixels give the same 400 features."""

    name = "lenet"
    head_name = "fc3"
    least_side = 12

    def __init__(self, shape: Sequence[int], classes: int) -> None:
        super().__init__(shape, classes)
        channels, *sides = shape
        padding = min(2, max(0, (FULL_SIDE - min(sides)) // 2))
        height, width = (((side + 2 * padding - 4) // 2 - 4) // 2 for side in sides)
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=padding)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * height * width, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(self.conv1(x).relu(), 2)
        x = functional.max_pool2d(self.conv2(x).relu(), 2).flatten(1)
        logits: Tensor = self.fc3(self.fc2(self.fc1(x).relu()).relu())
        return logits
