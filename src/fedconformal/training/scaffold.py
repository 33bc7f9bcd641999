"""SCAFFOLD over sites that take many steps each: the rounds of the paper's TCT, as the server sees them.

Karimireddy, Kale, Mohri, Reddi, Stich and Suresh, "SCAFFOLD: stochastic controlled averaging for federated learning",
2020. What a site does in a round is in `linear_stage.py`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from fedconformal.errors import InputError
from fedconformal.training.step import Step

logger = logging.getLogger(__name__)

SAFE = 0.9
"""The largest step, as a share of the one at which gradient descent starts to oscillate for ever."""


@dataclass(eq=False, kw_only=True)
class Scaffold:
    """The server's side: theta, and the mean gradient of the last round.

    Attributes:
        theta: the weights.
        step: of the sites' descent.
        steps: how many of them a round has.
        control: the mean over sites of their mean gradients; zero before the first round.
    """

    answer: ClassVar[str] = "control"
    """What it needs from a site."""
    done: ClassVar[bool] = False

    theta: Tensor
    step: float
    steps: int
    control: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.control = torch.zeros_like(self.theta)

    def question(self) -> Step:
        """Ask for the mean gradient over some steps from here."""
        return Step("round", {"theta": self.theta, "control": self.control}, {"step": self.step})

    def learn(self, control: Tensor, _loss: float, *, rows: int) -> None:
        """Move theta by the mean of what the sites did; their corrections cancel."""
        self.control = control
        self.theta = self.theta - self.step * self.steps * control

    def state(self) -> dict[str, Tensor]:
        """Return all that the server needs to go on."""
        return {"theta": self.theta, "control": self.control}

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Go on from such a state."""
        if any(name not in state or state[name].shape != self.theta.shape for name in self.state()):
            raise InputError(
                "resume: the state is not from this model, these clients and these settings", param="resume"
            )
        self.theta, self.control = state["theta"].clone(), state["control"].clone()


def stable_step(step: float, curvature: float, eigenvalue: float) -> float:
    """Lower a step that is not stable where the loss bends by at most `curvature` times this eigenvalue.

    >>> stable_step(10.0, 0.5, 1.0)
    3.6
    """
    limit = SAFE * 2 / (curvature * eigenvalue) if eigenvalue > 0 else math.inf
    if step > limit:
        logger.warning("the step %g is not stable on these features; taking %.3g", step, limit)
    return min(step, limit)
