"""L-BFGS for a convex problem across sites, with one gradient per round.

Nocedal, "Updating quasi-Newton matrices with limited storage", 1980. A round tries one point: every site returns its
loss and gradient there, and their mean is the exact gradient, however heterogeneous the sites are. If the loss falls
enough (Armijo's rule), the point is accepted; else the next round tries a shorter step. The ridge makes the optimum
unique.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fedconformal.training.step import RoundState, Step

MEMORY = 10
ENOUGH = 1e-4
"""Armijo constant: minimum share of the predicted decrease for an accepted step."""
SHORTER = (0.1, 0.5)
"""Bounds of the factor that shortens a rejected step."""
TOLERANCE = 1e-6
"""Stopping tolerance on the predicted relative decrease: about the precision of float32."""


@dataclass(eq=False, kw_only=True)
class LBFGS:
    """State of the server: the best point `theta` so far, and its loss and gradient, ridge included.

    `penalty` is the ridge of each column of theta, 0 for an intercept. `length` is that of the next step, as a fraction
    of the full step, and `pairs` are accepted steps, each with the change of the gradient.

    >>> solver = LBFGS(theta=torch.zeros(1, 2), penalty=torch.tensor([0.5, 0.5]))
    >>> while not solver.done:
    ...     at = solver.question().tensors["theta"]
    ...     solver.learn(at - 3, float((at - 3).square().sum() / 2), rows=1)
    >>> solver.theta
    tensor([[2., 2.]])
    """

    answer: ClassVar[str] = "gradient"
    """Name of the tensor in a site's answer."""

    theta: Tensor
    penalty: Tensor
    gradient: Tensor | None = None
    loss: float = np.inf
    length: float = 1.0
    rows: int = 0
    pairs: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    _direction: Tensor | None = None

    @property
    def done(self) -> bool:
        """Whether theta is the optimum, to single precision."""
        return self.gradient is not None and -self._slope() <= TOLERANCE * self.loss

    def question(self) -> Step:
        """Return the step that requests the gradient at the next trial point."""
        return Step("gradient", {"theta": self._trial()})

    def learn(self, gradient: Tensor, loss: float, *, rows: int) -> None:
        """Update with the mean gradient and mean loss, without the ridge, of sites with this number of rows."""
        at = self._trial()
        loss += dot(at * self.penalty, at) / 2
        gradient = gradient + at * self.penalty
        if self.gradient is not None and rows == self.rows:
            slope, gain = self._slope(), self.loss - loss
            if gain < -ENOUGH * self.length * slope:
                least, most = (share * self.length for share in SHORTER)
                # where the parabola through both losses with this slope has its minimum
                best = -slope * self.length**2 / (-2 * (gain + slope * self.length)) if np.isfinite(loss) else least
                self.length = min(max(best, least), most)
                return
            delta, change = at - self.theta, gradient - self.gradient
            if dot(delta, change) > 0:
                self.pairs = [*self.pairs, (delta, change)][-MEMORY:]
        else:  # other sites have another objective
            self.pairs = []
        self.theta, self.gradient, self.loss, self.length, self.rows = at, gradient, loss, 1.0, rows
        self._direction = None

    def _trial(self) -> Tensor:
        return self.theta if self.gradient is None else self.theta + self.length * self._step()

    def _slope(self) -> float:
        return 0.0 if self.gradient is None else dot(self.gradient, self._step())

    def _step(self) -> Tensor:
        """Return the full step by the two-loop recursion."""
        if self._direction is None and self.gradient is not None:
            step, alphas = -self.gradient, []
            for delta, change in reversed(self.pairs):
                alphas.append(dot(delta, step) / dot(delta, change))
                step = step - alphas[-1] * change
            if self.pairs:
                delta, change = self.pairs[-1]
                step = step * (dot(delta, change) / dot(change, change))
            for (delta, change), alpha in zip(self.pairs, reversed(alphas), strict=True):
                step = step + (alpha - dot(change, step) / dot(delta, change)) * delta
            self._direction = step
        return torch.zeros_like(self.theta) if self._direction is None else self._direction

    def state(self) -> dict[str, Tensor]:
        """Return the tensors of a checkpoint."""
        gradient = torch.zeros_like(self.theta) if self.gradient is None else self.gradient
        pairs = torch.stack([torch.stack(pair) for pair in self.pairs]) if self.pairs else self.theta.new_zeros(0)
        numbers = torch.tensor([self.loss, self.length, self.rows], dtype=torch.float64)
        return {"theta": self.theta, "gradient": gradient, "pairs": pairs, "search": numbers}

    def resume(self, state: RoundState) -> None:
        """Restore the tensors of a checkpoint."""
        shape, pairs = self.theta.shape, state.tensors.get("pairs", torch.empty(0))
        count = min(pairs.numel() // (2 * shape.numel()), MEMORY)
        self.theta, self.gradient = state.tensor("theta", shape), state.tensor("gradient", shape)
        search = state.tensor("search", torch.Size([3]), torch.float64)
        self.loss, self.length, self.rows = float(search[0]), float(search[1]), int(search[2])
        saved = state.tensor("pairs", torch.Size([count, 2, *shape] if count else [0]))
        self.pairs, self._direction = [(pair[0], pair[1]) for pair in saved], None


def dot(a: Tensor, b: Tensor) -> float:
    """Return the inner product in double precision, the same for any number of threads."""
    return float(np.einsum("i,i->", a.numpy().ravel(), b.numpy().ravel(), dtype=np.float64))
