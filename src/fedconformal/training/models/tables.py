"""Two networks for tables and very small images: logistic regression, and a perceptron with two hidden layers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from fedconformal.training.models.network import Network

HIDDEN = 128


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
