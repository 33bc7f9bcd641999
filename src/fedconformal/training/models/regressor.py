"""Regressor with one output, or with lower, perhaps middle, and upper quantiles, in sorted order.

Chernozhukov, Fernandez-Val and Galichon, "Quantile and probability curves without crossing", 2010.
"""

from __future__ import annotations

from torch import Tensor, nn

from fedconformal.errors import InputError


class Regressor(nn.Module):
    """Network whose outputs are shifted and scaled to the units of the target.

    Centre and scale are fixed beforehand, so no site shares statistics.

    Args:
        network: returns (n, Q) outputs.
        centre: typical value of the target.
        scale: typical deviation from it.

    >>> import torch
    >>> Regressor(nn.Identity(), centre=100, scale=10)(torch.tensor([[0.5, -1.0]]))
    tensor([[ 90., 105.]])
    """

    def __init__(self, network: nn.Module, *, centre: float = 0.0, scale: float = 1.0) -> None:
        super().__init__()
        if not 0 < scale < float("inf"):
            raise InputError(f"scale is {scale}, expected a positive number")
        self.network = network
        self.centre = centre
        self.scale = scale
        self.channels_last = getattr(network, "channels_last", False)

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, Q) numbers, rising along each row."""
        found: Tensor = self.network(x)
        return self.centre + self.scale * (found if found.shape[1] == 1 else found.sort(dim=1).values)
