"""Gradient features: per-example gradients of a network with one random output over a sample of its weights.

Yu, Wei, Karimireddy, Ma and Jordan, "TCT: convexifying federated learning using bootstrapped neural tangent kernels",
2022. The gradients of the rows of a batch are computed together, by torch.func.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from fedconformal.errors import InputError

BATCH = 24
"""Rows per pass; larger batches need more memory and are no faster."""


def head_of(model: nn.Module) -> str:
    """Return the name of a network's head: `model.head_name`, or the last linear layer."""
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    name: Any = getattr(model, "head_name", linear[-1] if linear else None)
    if name not in linear:
        raise InputError(f"{type(model).__name__}: has no last linear layer; name it in model.head_name")
    return str(name)


def one_output(model: nn.Module, seed: int) -> nn.Module:
    """Copy a network and replace its head with one random output.

    >>> network = one_output(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), seed=0)
    >>> network(torch.zeros(2, 4)).shape
    torch.Size([2, 1])
    """
    name = head_of(model)
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
    """Sample indices of weights in the order of `parameters()`; all of them if `count` is not smaller.

    >>> draw_coordinates(nn.Linear(3, 2), 4, seed=0).shape
    torch.Size([4])
    """
    total = sum(weight.numel() for weight in network.parameters())
    chosen = torch.randperm(total, generator=torch.Generator().manual_seed(seed))[:count]
    return chosen.sort().values


class GradientFeatures(nn.Module):
    """Per-row gradients of a network's single output (`one_output`) over selected weights (`draw_coordinates`).

    >>> features = GradientFeatures(nn.Linear(3, 1), torch.tensor([0, 2, 3]))
    >>> features(torch.tensor([[5.0, 6.0, 7.0]]))
    tensor([[5., 7., 1.]])
    """

    coordinates: Tensor

    def __init__(self, network: nn.Module, coordinates: Tensor) -> None:
        super().__init__()
        self.network = network.requires_grad_(requires_grad=False)
        self.register_buffer("coordinates", coordinates)

    @property
    def count(self) -> int:
        """Number of features."""
        return len(self.coordinates)

    def forward(self, x: Tensor) -> Tensor:
        """Return features of shape (rows, count), with the network in evaluation mode."""
        self.network.eval()
        fixed = {name: weight.detach() for name, weight in self.network.named_parameters()}
        buffers = dict(self.network.named_buffers())
        chosen = self._by_parameter()
        moving = {name: fixed.pop(name) for name in chosen}  # gradients over fixed weights are not computed

        def output(moving: dict[str, Tensor], row: Tensor) -> Tensor:
            result: Tensor = functional_call(self.network, (moving, fixed, buffers), (row[None],))
            return result.sum()

        gradients = vmap(grad(output), in_dims=(None, 0))
        out = torch.empty(len(x), self.count, device=x.device)
        for rows, into in zip(x.split(BATCH), out.split(BATCH), strict=True):
            for name, gradient in (gradients(moving, rows) if len(rows) else {}).items():
                columns, places = chosen[name]
                into[:, columns] = gradient.reshape(len(rows), -1).index_select(1, places)
        return out

    def _by_parameter(self) -> dict[str, tuple[slice, Tensor]]:
        """Return, for each parameter with selected weights, their columns and their positions in it."""
        chosen, before = {}, 0
        for name, weight in self.network.named_parameters():
            borders = torch.tensor([before, before + weight.numel()], device=self.coordinates.device)
            first, last = torch.searchsorted(self.coordinates, borders).tolist()
            if first < last:
                chosen[name] = slice(first, last), self.coordinates[first:last] - before
            before += weight.numel()
        return chosen
