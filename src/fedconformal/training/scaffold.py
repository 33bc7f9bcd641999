"""SCAFFOLD: the server in the second stage of TCT as the authors solve it.

Karimireddy, Kale, Mohri, Reddi, Stich and Suresh, "SCAFFOLD: stochastic controlled averaging for federated learning",
2020. The local steps are in `linear_stage.py`.
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
"""Largest step, as a share of the step at which gradient descent stops to converge."""


@dataclass(eq=False, kw_only=True)
class Scaffold:
    """State of the server.

    Attributes:
        theta: the weights.
        step: step size of the local descent.
        steps: number of local steps in a round.
        control: mean gradient over sites and steps of the last round; zero before the first.
    """

    answer: ClassVar[str] = "control"
    """Name of the tensor in a site's answer."""
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
    """Lower a step that is unstable for this curvature of the loss and eigenvalue of the features.

    >>> stable_step(10.0, 0.5, 1.0)
    3.6
    """
    limit = SAFE * 2 / (curvature * eigenvalue) if eigenvalue > 0 else math.inf
    if step > limit:
        logger.warning("the step %g is not stable on these features; taking %.3g", step, limit)
    return min(step, limit)
