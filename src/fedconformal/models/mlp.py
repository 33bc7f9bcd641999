"""A multilayer perceptron with two hidden layers, for tables and very small images."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from fedconformal.models.network import Network

HIDDEN = 128


class MLP(Network):
    """Two hidden layers of 128 rectified units; images are flattened.

    Args:
        shape: of one input.
        classes: how many logits there are.
    """

    name = "mlp"
    head_name = "fc3"

    def __init__(self, shape: Sequence[int], classes: int) -> None:
        super().__init__(shape, classes)
        self.fc1 = nn.Linear(math.prod(shape), HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, HIDDEN)
        self.fc3 = nn.Linear(HIDDEN, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Turn a batch of inputs into logits."""
        hidden = self.fc1(x.flatten(1)).relu()
        logits: Tensor = self.fc3(self.fc2(hidden).relu())
        return logits
