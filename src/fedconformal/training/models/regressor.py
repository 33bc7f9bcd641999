"""A network that answers with numbers: one, or a lower and an upper quantile, perhaps with a middle one.

Its outputs are in the units of what is predicted, and are trained in units of a scale that is fixed beforehand, so no
site has to show its own. Quantiles come out in order: sorting those that cross is never further from the true ones.
Chernozhukov, Fernandez-Val and Galichon, "Quantile and probability curves without crossing", 2010.
"""

from __future__ import annotations

from torch import Tensor, nn

from fedconformal.errors import InputError


class Regressor(nn.Module):
    """Any network with one output a number, brought to the units of what is predicted.

    Args:
        network: gives (n, Q) outputs.
        centre: a usual value; the prediction of a network that answers zero.
        scale: a usual deviation from it.

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
