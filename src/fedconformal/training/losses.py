"""What a model is trained for: classes (cross-entropy), a mean (squared loss) or quantiles (pinball loss).

The pinball loss of a quantile q is q times how far the value is above the prediction, or 1 - q times how far it is
below. Koenker and Bassett, "Regression quantiles", 1978.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedconformal.errors import InputError

Loss = Literal["cross-entropy", "squared", "pinball"]


def check_quantiles(quantiles: Sequence[float]) -> None:
    """Refuse all but two or three quantiles that rise.

    >>> check_quantiles([0.95, 0.05])
    Traceback (most recent call last):
    fedconformal.errors.InputError: quantiles are 0.95, 0.05, expected a lower, perhaps a middle, and an upper one
    """
    rising = all(a < b for a, b in zip([0.0, *quantiles], [*quantiles, 1.0], strict=True))
    if len(quantiles) not in (2, 3) or not rising:
        given = ", ".join(f"{one:g}" for one in quantiles)
        raise InputError(f"quantiles are {given}, expected a lower, perhaps a middle, and an upper one")


def outputs_of(loss: Loss, quantiles: Sequence[float]) -> int:
    """Return how many numbers a regressor answers with."""
    return len(quantiles) if loss == "pinball" else 1


def loss_of(loss: Loss | None, quantiles: Sequence[float], model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the mean loss of a batch; numbers are compared in units of the model's `scale`, if it has one.

    >>> pinball = loss_of("pinball", (0.25, 0.75), nn.Identity())
    >>> pinball(torch.tensor([[0.0, 4.0]]), torch.tensor([1.0]))  # 1 above at .25, and 3 below at .75
    tensor(1.)
    """
    if loss in (None, "cross-entropy"):
        return functional.cross_entropy
    unit, wanted = float(getattr(model, "scale", 1.0)), outputs_of(loss or "squared", quantiles)
    levels = torch.tensor(tuple(quantiles))

    def found(outputs: Tensor, y: Tensor) -> Tensor:
        if outputs.shape != (len(y), wanted):
            raise InputError(f"the model's outputs have shape {tuple(outputs.shape)}, {loss} needs {(len(y), wanted)}")
        above = (y.to(outputs.dtype)[:, None] - outputs) / unit
        if loss == "squared":
            return above.square().mean()
        at = levels.to(outputs)
        return torch.maximum(at * above, (at - 1) * above).sum(dim=1).mean()

    return found
