"""Weights of a model as one vector, for averaging."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from fedconformal.errors import InputError


class FlatModel:
    """A model whose weights are views of one float32 vector, so that a step of SGD is three operations.

    Trained weights come first, then weights that are only averaged: frozen ones and buffers of floats, such as the
    running statistics of BatchNorm. Integer buffers, such as BatchNorm's count of batches, are not included.

    >>> flat = FlatModel(nn.Linear(2, 3))
    >>> flat.vector.shape, flat.trained
    (torch.Size([9]), 9)
    """

    def __init__(self, module: nn.Module, device: torch.device | None = None) -> None:
        self.module = copy.deepcopy(module).to(device or "cpu")
        parts = _averaged(self.module)
        self.vector = torch.cat([tensor.detach().reshape(-1) for tensor in parts])
        self.trained = sum(tensor.numel() for tensor in parts if tensor.requires_grad)
        self.gradient = torch.zeros(self.trained, device=self.vector.device)
        start = 0
        for tensor in parts:
            place = slice(start, start + tensor.numel())
            tensor.data = self.vector[place].view(tensor.shape)
            if tensor.requires_grad:
                tensor.grad = self.gradient[place].view(tensor.shape)
            start = place.stop


def weights_of(module: nn.Module) -> Tensor:
    """Return all averaged weights of a model as one vector."""
    return torch.cat([tensor.detach().reshape(-1).cpu() for tensor in _averaged(module)])


def with_weights(module: nn.Module, vector: Tensor) -> nn.Module:
    """Return a copy of a model with these weights, in eval mode."""
    model = copy.deepcopy(module).cpu()
    parts = _averaged(model)
    for tensor, values in zip(parts, vector.split([tensor.numel() for tensor in parts]), strict=True):
        tensor.data = values.view(tensor.shape).clone()
    return model.eval()


def _averaged(module: nn.Module) -> list[Tensor]:
    """Return the averaged tensors: trained weights, then frozen weights, then buffers of floats."""
    parts: list[Tensor] = sorted(module.parameters(), key=lambda weight: not weight.requires_grad)
    if not parts or not parts[0].requires_grad:
        raise InputError("the model has no weights to train")
    parts += [buffer for buffer in module.buffers() if buffer.is_floating_point()]
    wrong = [tensor.dtype for tensor in parts if tensor.dtype != torch.float32]
    if wrong:
        raise InputError(f"the model has weights of {wrong[0]}; call model.float() first")
    return parts
