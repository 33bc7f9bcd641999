"""Losses of local training.

Koenker and Bassett, "Regression quantiles", 1978.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedconformal.errors import InputError

Loss = Literal["cross-entropy", "squared", "pinball"]


def loss_of(loss: Loss | None, quantiles: Sequence[float], model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the mean loss of a batch; numbers are compared in units of the model's `scale`, if it has one.

    The pinball loss of a quantile q is q times how far the value is above the prediction, or 1 - q times how far it is
    below.
    """
    if loss in (None, "cross-entropy"):
        return functional.cross_entropy
    unit, wanted = float(getattr(model, "scale", 1.0)), len(quantiles) if loss == "pinball" else 1
    levels = torch.tensor(tuple(quantiles))

    def mean_loss(outputs: Tensor, y: Tensor) -> Tensor:
        if outputs.shape != (len(y), wanted):
            raise InputError(f"the model's outputs have shape {tuple(outputs.shape)}, {loss} needs {(len(y), wanted)}")
        above = (y.to(outputs.dtype)[:, None] - outputs) / unit
        if loss == "squared":
            return above.square().mean()
        at = levels.to(outputs)
        return torch.maximum(at * above, (at - 1) * above).sum(dim=1).mean()

    return mean_loss
