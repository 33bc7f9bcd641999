"""Networks of the paper and for tables, and files of weights.

LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document recognition", 1998.
He, Zhang, Ren and Sun, "Deep residual learning for image recognition", 2016, section 4.2.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedconformal._base.registry import find
from fedconformal.errors import InputError

logger = logging.getLogger(__name__)

HIDDEN = 128
LENET_SIDE = 32
"""Side of the images that LeNet was designed for; smaller ones are padded by up to two pixels."""


class Network(nn.Module, ABC):
    """Base class of networks: inputs of one `shape`, (channels, height, width) or (columns,); one logit per class."""

    name: ClassVar[str]
    head_name: ClassVar[str]
    """Path of the last linear layer, which transfer and linearisation replace."""
    least_side: ClassVar[int] = 0
    """Minimum height and width of images; 0 if tables are accepted as well."""

    def __init__(self, shape: Sequence[int], classes: int) -> None:
        super().__init__()
        images = len(shape) == 3 and min(shape[1:]) >= self.least_side
        if min(*shape, classes) < 1 or not (images or (len(shape) == 1 and not self.least_side)):
            expected = f"expected images of at least {self.least_side} pixels a side; take mlp or logistic"
            raise InputError(f"{self.name}: has the input shape {tuple(shape)} and {classes} classes, {expected}")
        self.shape = tuple(shape)
        self.classes = classes

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of a batch of inputs."""


class ImageNetwork(Network):
    """Network for images of a minimum size."""

    least_side = 1
    channels_last: ClassVar[bool] = True
    """Memory format of training: faster on one thread, but incompatible with `view`."""


def build(name: str, *, shape: Sequence[int], classes: int, seed: int = 0) -> Network:
    """Build a network with weights drawn from a seed, without changing the global random state.

    >>> network = build("lenet", shape=(1, 28, 28), classes=10, seed=1)
    >>> sum(weight.numel() for weight in network.parameters())
    61706
    """
    cls: type[Network] = find(name, Network)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return cls(shape, classes)


def load_weights(model: nn.Module, path: str | Path) -> None:
    """Load a state_dict by name; files with code are refused, and a head for another number of classes is not used."""
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 (torch.load raises any exception on unknown content)
        reason = getattr(error, "strerror", None) or "not a state_dict saved by torch.save"
        raise InputError(f"{path}: cannot be read ({reason})") from None
    if isinstance(loaded, Mapping) and isinstance(loaded.get("state_dict"), Mapping):
        loaded = loaded["state_dict"]
    if not isinstance(loaded, Mapping) or not all(isinstance(weight, Tensor) for weight in loaded.values()):
        raise InputError(f"{path}: holds no weights by name; save a model's state_dict()")
    weights = dict(loaded)
    head = f"{model.head_name}." if isinstance(model, Network) else None
    for name, own in model.state_dict().items():
        if head and name.startswith(head) and name in weights and weights[name].shape[:1] != own.shape[:1]:
            logger.warning("%s: %s is for another number of classes than %d and is not used", path, name, len(own))
            weights[name] = own
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise InputError(f"{path}: does not fit the model ({' '.join(str(error).split())})") from None


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
        """Return the sum of the convolutions and the shortcut."""
        residual = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        shortcut = x[:, :, :: self.stride, :: self.stride]
        out: Tensor = residual + functional.pad(shortcut, (0, 0, 0, 0, self.border, self.border))
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
