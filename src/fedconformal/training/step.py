"""Messages of a training round: the step sent to the sites, a site's update, the mean of updates and the state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from fedconformal.errors import InputError
from fedconformal.federated.ask import Answer

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Step:
    """Name of a step, the tensors sent to every site, and numbers such as the round."""

    what: str
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)


class Update(NamedTuple):
    """The answer of a site: its number of rows, the result, metrics, and whether the result is finite."""

    rows: int
    tensors: Mapping[str, Tensor]
    numbers: Mapping[str, float]
    finite: bool = True


@dataclass(frozen=True, eq=False, kw_only=True)
class RoundState:
    """State after a round, from which training can continue.

    Parameters
    ----------
    round
        Number of completed rounds, over all stages.
    stage
        The stage of the training, such as "fedavg" or "tct".
    tensors
        The state; its names depend on the trainer.
    metrics
        Metrics of the round, such as the mean training loss.
    """

    round: int
    stage: str
    tensors: Mapping[str, Tensor]
    metrics: Mapping[str, float] = field(default_factory=dict)

    def tensor(self, name: str, shape: torch.Size, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return a copy of a tensor; raises `InputError` if its shape differs."""
        tensor = self.tensors.get(name, torch.empty(0))
        if tensor.shape != shape:
            problem = "resume: the state is not from this model, these clients and these settings"
            raise InputError(problem, param="resume")
        return tensor.to(dtype, copy=True)


OnRound = Callable[[RoundState], object]


def average(
    answers: Iterable[Answer[Update]],
    like: Mapping[str, Tensor],
    share: Callable[[int], float],
    *,
    number: int,
    advice: str = "a smaller rate",
) -> Update:
    """Return the mean of updates, weighted by the `share` of their rows; an update that is not finite is left out.

    Sums are in double precision, where the product of a float32 and a number of rows is exact, so every engine gets the
    same bits. The result has the names and types of `like`.

    >>> north = Answer("north", Update(1, {"w": torch.tensor([0.0, 4.0])}, {"loss": 0.5}))
    >>> south = Answer("south", Update(3, {"w": torch.ones(2)}, {"loss": 1.5}))
    >>> mean = average([north, south], {"w": torch.zeros(2)}, float, number=1)
    >>> mean.tensors["w"], mean.numbers
    (tensor([0.7500, 1.7500]), {'loss': 1.25, 'refused': 0.0})
    """
    sums = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in like.items()}
    numbers: dict[str, float] = {}
    rows, weights, refused = 0, 0.0, 0
    for site, update, _ in answers:
        if not update.finite:
            refused += 1
            logger.warning("round %d: the update of %s is not finite; the round continues without it", number, site)
            continue
        weight = share(update.rows)
        for name, total in sums.items():
            total.add_(update.tensors[name].double() * weight)
        for name, value in update.numbers.items():
            numbers[name] = numbers.get(name, 0.0) + weight * value
        rows, weights = rows + update.rows, weights + weight
    if not rows:
        raise InputError(f"round {number}: no site's update is finite; try {advice}", param="rate")
    means = {name: (total / weights).to(like[name].dtype) for name, total in sums.items()}
    for name, mean in means.items():
        if not mean.isfinite().all():
            raise InputError(f"round {number}: the mean of {name} is too large for {mean.dtype}; try {advice}")
    metrics = {name: total / weights for name, total in numbers.items()}
    return Update(rows, means, metrics | {"refused": float(refused)})
