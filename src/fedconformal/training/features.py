"""Gradient features: how the output of a network would move if one of its weights did.

The last layer is replaced by one random output, and a row's feature is the gradient of that output over the weights,
at some of them (Yu, Wei, Karimireddy, Ma and Jordan, "TCT: convexifying federated learning using bootstrapped neural
tangent kernels", 2022). A model that is linear in these features is the network's first-order expansion. The gradients
of many rows come from one batched pass; the network is in evaluation mode, so that rows do not mix.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from fedconformal.errors import InputError

BATCH = 32
"""Rows in a pass; more are no faster, and a wide network needs memory for so many copies of its gradient."""


def one_output(model: nn.Module, seed: int) -> nn.Module:
    """Copy a network and replace its last linear layer by one random output.

    The layer is where `model.head_name` says, else the last linear layer there is.

    >>> network = one_output(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), seed=0)
    >>> network(torch.zeros(2, 4)).shape
    torch.Size([2, 1])
    """
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    name: Any = getattr(model, "head_name", linear[-1] if linear else None)
    if name not in linear:
        raise InputError(f"{type(model).__name__}: has no last linear layer; name it in model.head_name")
    head: Any = model.get_submodule(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        output = nn.Linear(head.in_features, 1).to(head.weight.device)
    if not name:  # the model is a single layer
        return output
    network = copy.deepcopy(model)
    network.set_submodule(name, output)
    return network


def draw_coordinates(network: nn.Module, count: int, seed: int) -> Tensor:
    """Choose some of the weights, numbered in the order of `parameters()`; all of them where there are no more.

    >>> draw_coordinates(nn.Linear(3, 2), 4, seed=0).shape
    torch.Size([4])
    """
    total = sum(weight.numel() for weight in network.parameters())
    chosen = torch.randperm(total, generator=torch.Generator().manual_seed(seed))[:count]
    return chosen.sort().values


class GradientFeatures(nn.Module):
    """The gradient of a network's one output over chosen weights, a row each.

    Args:
        network: with one output, see `one_output`.
        coordinates: the chosen weights, rising, see `draw_coordinates`.

    >>> features = GradientFeatures(nn.Linear(3, 1), torch.tensor([0, 2, 3]))
    >>> features(torch.tensor([[5.0, 6.0, 7.0]]))
    tensor([[5., 7., 1.]])
    """

    coordinates: Tensor

    def __init__(self, network: nn.Module, coordinates: Tensor) -> None:
        super().__init__()
        self.network = network.requires_grad_(requires_grad=False)
        self.register_buffer("coordinates", coordinates)
        self.eval()

    @property
    def count(self) -> int:
        """How many features a row has."""
        return len(self.coordinates)

    def train(self, mode: bool = True) -> GradientFeatures:  # noqa: FBT001, FBT002
        """Stay in evaluation mode, whatever is asked for."""
        super().train(mode=False)
        return self

    def forward(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """Return (rows, count) features, written to `out` if it is given."""
        if out is None:
            out = torch.empty(len(x), self.count, device=x.device)
        weights = {name: weight.detach() for name, weight in self.network.named_parameters()}
        buffers = dict(self.network.named_buffers())
        shares = self._shares()
        # Weights of which none is chosen are held fixed, so that their gradients are not even worked out.
        moving = {share.name: weights.pop(share.name) for share in shares}

        def output(moving: dict[str, Tensor], row: Tensor) -> Tensor:
            result: Tensor = functional_call(self.network, (moving, weights, buffers), (row[None],))
            return result.sum()

        gradients = vmap(grad(output), in_dims=(None, 0))
        for rows, into in zip(x.split(BATCH), out.split(BATCH), strict=True):
            found = gradients(moving, rows)
            for share in shares:
                columns = found[share.name].reshape(len(rows), -1)
                into[:, share.place] = columns if share.chosen is None else columns.index_select(1, share.chosen)
        return out

    def _shares(self) -> list[_Share]:
        """Share the coordinates out among the parameters."""
        shares: list[_Share] = []
        before = 0
        for name, weight in self.network.named_parameters():
            ends = torch.tensor([before, before + weight.numel()], device=self.coordinates.device)
            first, last = torch.searchsorted(self.coordinates, ends).tolist()
            if first < last:
                chosen = None if last - first == weight.numel() else self.coordinates[first:last] - before
                shares.append(_Share(name, chosen, slice(first, last)))
            before += weight.numel()
        return shares


class _Share(NamedTuple):
    """The chosen weights of one parameter (None for all), and where they go."""

    name: str
    chosen: Tensor | None
    place: slice
