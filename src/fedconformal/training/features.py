"""Gradient features: per-example gradients of a network with one random output, at some of its weights.

Yu, Wei, Karimireddy, Ma and Jordan, "TCT: convexifying federated learning using bootstrapped neural tangent kernels",
2022. The gradients of a batch come from one forward and one backward pass (Goodfellow, "Efficient per-example gradient
computations", 2015); networks with layers of other kinds go through torch.func.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.grad import conv2d_weight

from fedconformal.errors import InputError

BATCH = 24
"""Rows in a pass; more are no faster and need more memory."""
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


def head_of(model: nn.Module) -> str:
    """Return the name of a network's head: `model.head_name`, or the last linear layer."""
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    name: Any = getattr(model, "head_name", linear[-1] if linear else None)
    if name not in linear:
        raise InputError(f"{type(model).__name__}: has no last linear layer; name it in model.head_name")
    return str(name)


def one_output(model: nn.Module, seed: int) -> nn.Module:
    """Copy a network and replace its head by one random output.

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
    """Draw weights, numbered in the order of `parameters()`; all of them if there are no more.

    >>> draw_coordinates(nn.Linear(3, 2), 4, seed=0).shape
    torch.Size([4])
    """
    total = sum(weight.numel() for weight in network.parameters())
    chosen = torch.randperm(total, generator=torch.Generator().manual_seed(seed))[:count]
    return chosen.sort().values


class GradientFeatures(nn.Module):
    """Gradient of a network's one output over chosen weights, for each row.

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
        weights = [id(weight) for layer in network.modules() for weight in layer.parameters(recurse=False)]
        shared = len(set(weights)) < len(weights)  # then no one layer has all of a weight's gradient
        self._by_layer = not shared and all(_known(layer) for layer in network.modules())

    @property
    def count(self) -> int:
        """Number of features."""
        return len(self.coordinates)

    def forward(self, x: Tensor) -> Tensor:
        """Return (rows, count) features, of the network in evaluation mode."""
        self.network.eval()
        out, shares = torch.empty(len(x), self.count, device=x.device), self._shares()
        for rows, into in zip(x.split(BATCH), out.split(BATCH), strict=True):
            found = self._from_layers(rows, shares) if self._by_layer else None
            if found is None:
                self._by_layer = False
                found = self._from_transform(rows, shares)
            for share, gradient in zip(shares, found, strict=True):
                into[:, share.place] = gradient if share.chosen is None else gradient.index_select(1, share.chosen)
        return out

    def _shares(self) -> list[_Share]:
        """Divide the coordinates among the parameters."""
        owners = {id(weight): layer for layer in self.network.modules() for weight in layer.parameters(recurse=False)}
        shares: list[_Share] = []
        before = 0
        for name, weight in self.network.named_parameters():
            borders = torch.tensor([before, before + weight.numel()], device=self.coordinates.device)
            first, last = torch.searchsorted(self.coordinates, borders).tolist()
            if first < last:
                chosen = None if last - first == weight.numel() else self.coordinates[first:last] - before
                shares.append(_Share(name, owners[id(weight)], chosen, slice(first, last)))
            before += weight.numel()
        return shares

    def _from_layers(self, x: Tensor, shares: list[_Share]) -> list[Tensor] | None:
        """Multiply inputs and output gradients of each layer; None if a layer is used in an unusual way."""
        calls: list[_Call] = []

        def remember(layer: nn.Module, given: tuple[Tensor, ...], gave: Tensor) -> None:
            calls.append(_Call(layer, given[0].detach(), gave, (given[0]._version, gave._version)))

        layers = dict.fromkeys(share.layer for share in shares)
        hooks = [layer.register_forward_hook(remember) for layer in layers]
        try:
            with torch.enable_grad():
                total = self.network(x.detach().requires_grad_()).sum()  # else nothing would ask for gradients
        finally:
            for hook in hooks:
                hook.remove()
        if len(calls) != len(layers) or not all(map(_usual, calls)):
            return None
        backs = torch.autograd.grad(total, [call.gave for call in calls])
        of_layer = {call.layer: (call.given, back) for call, back in zip(calls, backs, strict=True)}
        return [_gradient(share, *of_layer[share.layer]) for share in shares]

    def _from_transform(self, x: Tensor, shares: list[_Share]) -> list[Tensor]:
        weights = {name: weight.detach() for name, weight in self.network.named_parameters()}
        buffers = dict(self.network.named_buffers())
        # Weights of which none is chosen are held fixed, so that their gradients are not even worked out.
        moving = {share.name: weights.pop(share.name) for share in shares}

        def output(moving: dict[str, Tensor], row: Tensor) -> Tensor:
            result: Tensor = functional_call(self.network, (moving, weights, buffers), (row[None],))
            return result.sum()

        found = vmap(grad(output), in_dims=(None, 0))(moving, x)
        return [found[share.name].reshape(len(x), -1) for share in shares]


class _Share(NamedTuple):
    """Chosen weights of one parameter (None for all), its layer, and their columns."""

    name: str
    layer: nn.Module
    chosen: Tensor | None
    place: slice


class _Call(NamedTuple):
    """Input and output of a layer, with their versions at that time."""

    layer: nn.Module
    given: Tensor
    gave: Tensor
    versions: tuple[int, int]


def _known(layer: nn.Module) -> bool:
    """Whether `_gradient` supports the layer, or it has no weights."""
    if type(layer) in NORMS:
        return bool(layer.track_running_stats)
    if type(layer) is nn.Conv2d:
        return layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return type(layer) is nn.Linear or not list(layer.parameters(recurse=False))


def _usual(call: _Call) -> bool:
    """Whether rows are along the first axis, and nothing was changed in place after the call."""
    axes = {nn.Linear: (2,), nn.Conv2d: (4,)}.get(type(call.layer), (2, 4))
    unchanged = (call.given._version, call.gave._version) == call.versions
    return unchanged and call.gave.ndim in axes and call.given.ndim in axes and call.gave.requires_grad


def _gradient(share: _Share, given: Tensor, back: Tensor) -> Tensor:
    """Return the gradient over one parameter for each row."""
    layer: Any = share.layer
    if share.name.endswith("bias"):
        return back.flatten(2).sum(2) if back.ndim > 2 else back
    if isinstance(layer, nn.Linear):
        return (back[:, :, None] * given[:, None, :]).flatten(1)
    if isinstance(layer, nn.Conv2d):
        return _convolved(layer, given, back)
    # The sum over pixels of back times (given - mean), without writing down the difference.
    inner = (back * given).flatten(2).sum(2) if back.ndim > 2 else back * given
    summed = back.flatten(2).sum(2) if back.ndim > 2 else back
    found: Tensor = (inner - layer.running_mean * summed) * (layer.running_var + layer.eps).rsqrt()
    return found


def _convolved(layer: nn.Conv2d, given: Tensor, back: Tensor) -> Tensor:
    """Return the gradient over a convolution's weights, with each row as a group of one convolution."""
    rows = len(given)
    found: Tensor = conv2d_weight(
        given.reshape(1, -1, *given.shape[2:]),
        (rows * layer.out_channels, *layer.weight.shape[1:]),
        back.reshape(1, -1, *back.shape[2:]),
        layer.stride,
        layer.padding,
        layer.dilation,
        rows * layer.groups,
    )
    return found.reshape(rows, -1)
