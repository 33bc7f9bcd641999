"""ResNet-14 for small images: three stages of two blocks, widths 16, 32 and 64.

He, Zhang, Ren and Sun, "Deep residual learning for image recognition", 2016, section 4.2, with six n + 2 = 14
layers. Where the width doubles, the shortcut takes every second pixel and fills up with zeros (their option A), so
it has no weights.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from fedconformal.training.models.network import ImageNetwork


class Block(nn.Module):
    """Two convolutions, the first with a stride, beside a shortcut without weights."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride = stride
        self.border = (outputs - inputs) // 2

    def forward(self, x: Tensor) -> Tensor:
        """Add what the convolutions find to what came in."""
        found = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        kept = x[:, :, :: self.stride, :: self.stride]
        out: Tensor = found + functional.pad(kept, (0, 0, 0, 0, self.border, self.border))
        return out.relu()


class ResNet14(ImageNetwork):
    """Thirteen convolutions, average pooling and one linear layer; images of any size."""

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
