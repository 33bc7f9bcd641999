"""Multinomial logistic regression: one linear layer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from fedconformal.models.network import Network


class Logistic(Network):
    """One logit a class, linear in the input; images are flattened.

    Args:
        shape: of one input.
        classes: how many logits there are.
    """

    name = "logistic"
    head_name = "linear"

    def __init__(self, shape: Sequence[int], classes: int) -> None:
        super().__init__(shape, classes)
        self.linear = nn.Linear(math.prod(shape), classes)

    def forward(self, x: Tensor) -> Tensor:
        """Turn a batch of inputs into logits."""
        logits: Tensor = self.linear(x.flatten(1))
        return logits
