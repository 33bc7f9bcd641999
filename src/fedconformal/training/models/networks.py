"""Networks of the paper and for tables: logistic regression, a perceptron, LeNet-5 and ResNet-14.

LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document recognition", 1998.
He, Zhang, Ren and Sun, "Deep residual learning for image recognition", 2016, section 4.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from fedconformal.training.models.network import ImageNetwork, Network

HIDDEN = 128
LENET_SIDE = 32
"""Side of the images that LeNet was designed for; smaller ones are padded by up to two pixels."""


class Logistic(Network):
    """Multinomial logistic regression: one linear layer; images are flattened."""

    name = "logistic"
    head_name = "linear"

    def __init__(self, shape: Sequence[int], classes: int) -> None:
        super().__init__(shape, classes)
        self.linear = nn.Linear(math.prod(shape), classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.linear(x.flatten(1))
        return logits


class MLP(Network):
    """Two hidden layers of 128 rectified units; images are flattened."""

    name = "mlp"
    head_name = "fc3"

    def __init__(self, shape: Sequence[int], classes: int) -> None:
        super().__init__(shape, classes)
        self.fc1 = nn.Linear(math.prod(shape), HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, HIDDEN)
        self.fc3 = nn.Linear(HIDDEN, classes)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.fc1(x.flatten(1)).relu()
        logits: Tensor = self.fc3(self.fc2(hidden).relu())
        return logits


class LeNet(ImageNetwork):
    """LeNet-5 with rectified units and maximum pooling; images of 28 and of 32 pixels give the same 400 features."""

    name = "lenet"
    head_name = "fc3"
    least_side = 12

    def __init__(self, shape: Sequence[int], classes: int) -> None:
        super().__init__(shape, classes)
        channels, *sides = shape
        padding = min(2, max(0, (LENET_SIDE - min(sides)) // 2))
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


class Block(nn.Module):
    """Residual block: where the width doubles, the shortcut subsamples and pads with zeros (option A)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride = stride
        self.border = (outputs - inputs) // 2

    def forward(self, x: Tensor) -> Tensor:
        """Add the convolutions to the shortcut."""
        found = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        kept = x[:, :, :: self.stride, :: self.stride]
        out: Tensor = found + functional.pad(kept, (0, 0, 0, 0, self.border, self.border))
        return out.relu()


class ResNet14(ImageNetwork):
    """Three stages of two blocks with widths 16, 32 and 64, and average pooling; images of any size."""

    name = "resnet14"
    head_name = "linear"

    def __init__(self, shape: Sequence[int], classes: int) -> None:
        super().__init__(shape, classes)
        self.conv1 = nn.Conv2d(shape[0], 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(Block(16, 16, 1), Block(16, 16, 1))
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1))
        self.layer3 = nn.Sequential(Block(32, 64, 2), Block(64, 64, 1))
        self.linear = nn.Linear(64, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn1(self.conv1(x)).relu()
        x = self.layer3(self.layer2(self.layer1(x)))
        logits: Tensor = self.linear(x.mean((2, 3)))
        return logits
