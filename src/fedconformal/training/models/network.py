"""Base classes of the networks, and files of weights."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from fedconformal._base.registry import find
from fedconformal.errors import InputError

logger = logging.getLogger(__name__)

MAX_CLASSES = 2**20


class Network(nn.Module, ABC):
    """Network from inputs of one shape to one logit a class.

    Args:
        shape: of one input, (channels, height, width) or (columns,).
        classes: number of logits.
    """

    name: ClassVar[str]
    head_name: ClassVar[str]
    """Path of the last linear layer, which transfer and linearisation replace."""

    def __init__(self, shape: Sequence[int], classes: int) -> None:
        super().__init__()
        if len(shape) not in (1, 3) or min(*shape, classes) < 1 or classes > MAX_CLASSES:
            raise InputError(
                f"{self.name}: has the input shape {tuple(shape)} and {classes} classes, expected "
                "(channels, height, width) or (columns,) and at least one class"
            )
        self.shape = tuple(shape)
        self.classes = classes

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Turn a batch of inputs into logits."""


class ImageNetwork(Network):
    """Network for images of a minimum size."""

    least_side: ClassVar[int] = 1
    channels_last: ClassVar[bool] = True
    """Memory format that trains faster on one thread, and that `view` cannot take."""

    def __init__(self, shape: Sequence[int], classes: int) -> None:
        super().__init__(shape, classes)
        if len(shape) != 3 or min(shape[1:]) < self.least_side:
            side = self.least_side
            raise InputError(
                f"{self.name}: needs images of at least {side} by {side} pixels, got inputs of shape {tuple(shape)}; "
                "take mlp or logistic"
            )


def build(name: str, *, shape: Sequence[int], classes: int, seed: int = 0) -> Network:
    """Build a network with weights drawn from a seed, without touching the global random state.

    >>> network = build("lenet", shape=(1, 28, 28), classes=10, seed=1)
    >>> sum(weight.numel() for weight in network.parameters())
    61706
    """
    cls: type[Network] = find(name, Network)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return cls(shape, classes)


def load_weights(model: nn.Module, path: str | Path) -> None:
    """Load a state_dict; every name and shape has to match, and a file that would run code is refused.

    The last layer of a `Network` is left alone where the file has another number of classes, as ImageNet's has.
    """
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 (torch's reader raises anything at what it does not know)
        reason = getattr(error, "strerror", None) or "not a file of tensors, as torch.save writes of a state_dict"
        raise InputError(f"{path}: cannot be read ({reason})") from None
    if isinstance(found, Mapping) and isinstance(found.get("state_dict"), Mapping):
        found = found["state_dict"]
    if not isinstance(found, Mapping) or not found or not all(isinstance(weight, Tensor) for weight in found.values()):
        raise InputError(f"{path}: holds no weights by name; save a model's state_dict()")
    given = dict(found)
    expected = model.state_dict()
    absent = [name for name in expected if name not in given]
    unknown = [name for name in given if name not in expected]
    if absent or unknown:
        parts = [f"lacks {_some(absent)}"] * bool(absent) + [f"has {_some(unknown)} too many"] * bool(unknown)
        name = getattr(model, "name", type(model).__name__)
        raise InputError(f"{path}: {' and '.join(parts)}; is it of another model than {name}?")
    head = f"{model.head_name}." if isinstance(model, Network) else None
    for name, weight in expected.items():
        if head and name.startswith(head) and len(given[name]) != len(weight):
            logger.warning("%s: %s is for %d classes and is not used", path, name, len(given[name]))
            given[name] = weight
        if given[name].shape != weight.shape:
            raise InputError(
                f"{path}: {name} has shape {tuple(given[name].shape)}, expected {tuple(weight.shape)}; "
                "check the number of classes and of channels"
            )
    model.load_state_dict(given)


def _some(names: list[str]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
