"""The paper's temperature: the unweighted mean of the temperatures that clients fit on their calibration rows.

Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", 2017. In b = 1/T a client's negative
log-likelihood is convex, so Newton steps find its minimum; all clients step at the same time. The paper fits T on
the same rows as the conformal scores, so the promise is not exact; this is repeated here to reproduce its tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Floats, Integers

LEAST, MOST = 0.05, 20.0
"""Bounds of a client's temperature, which would be 0 if all labels have the highest logit."""

MOST_STEPS = 60
LAST_STEP = 1e-2
"""Relative size of the last step: with quadratic convergence the error is then about 1e-4."""

Logits = NDArray[np.float32]


def shifted(logits: Logits) -> Logits:
    """Subtract each row's largest logit, which preserves probabilities and avoids overflow at any temperature."""
    moved: Logits = logits - logits.max(axis=1, keepdims=True)
    return moved


def probabilities(logits: Logits, temperature: float) -> Logits:
    """Return probabilities of shifted logits in single precision, five times faster than in float64."""
    probs = logits * np.float32(1 / temperature)
    np.exp(probs, out=probs)
    probs /= np.einsum("ij,j->i", probs, np.ones(probs.shape[1], dtype=np.float32))[:, None]
    return probs


@dataclass(frozen=True, eq=False)
class Temperatures:
    """Fits temperatures on many subsets of the same rows; `start` is close to every client's 1/T.

    >>> logits = np.array([[0, -4], [0, -4], [0, -4], [0, -2]], dtype=np.float32)
    >>> find = Temperatures.of(logits, np.array([0, 1, 0, 0]), np.array([0, 0, 0, 1]))
    >>> round(find.mean(logits[:3], np.array([0, 1, 2])), 2), round(find.mean(logits, np.array([0, 1, 2, 3])), 2)
    (5.77, 2.91)
    """

    own: Logits
    clients: Integers
    start: Floats

    @classmethod
    def of(cls, logits: Logits, labels: Integers, clients: Integers) -> Temperatures:
        """Prepare for shifted logits; every fourth row is enough for the start values."""
        own = logits[np.arange(len(logits)), labels]
        start = _minimised(logits[::4], own[::4], clients[::4], np.ones(int(clients.max()) + 1))
        return cls(own, clients, start)

    def mean(self, logits: Logits, rows: Integers) -> float:
        """Return the unweighted mean temperature of the clients with any of these rows, given their logits."""
        owners = self.clients[rows]
        found = _minimised(logits, self.own[rows], owners, self.start)
        return float(np.mean(1 / found[np.bincount(owners, minlength=len(found)) > 0]))


def _minimised(logits: Logits, own: Logits, clients: Integers, b: Floats) -> Floats:
    """Return b = 1/T of every client, by Newton's method with bisection as a fallback."""
    low, high = np.full(len(b), -np.inf), np.full(len(b), np.inf)
    least, most = 1 / MOST, 1 / LEAST
    for _ in range(MOST_STEPS):
        slope, curvature = _slopes(logits, own, clients, b)
        low, high = np.where(slope < 0, b, low), np.where(slope < 0, high, b)
        newton = np.clip(b - slope / np.maximum(curvature, 1e-30), least, most)
        middle = (np.maximum(low, least) + np.minimum(high, most)) / 2
        before, b = b, np.where((newton > low) & (newton < high), newton, middle)
        if (np.abs(b - before) <= LAST_STEP * before).all():
            break
    return b


def _slopes(logits: Logits, own: Logits, clients: Integers, b: Floats) -> tuple[Floats, Floats]:
    """Return slope and curvature of each client's negative log-likelihood in b."""
    weights = logits * b.astype(np.float32)[clients][:, None]
    np.exp(weights, out=weights)
    total = np.einsum("ij,j->i", weights, np.ones(weights.shape[1], dtype=np.float32))  # faster than sum
    mean = np.einsum("ij,ij->i", weights, logits) / total
    weights *= logits
    spread = np.einsum("ij,ij->i", weights, logits) / total - mean**2
    slope: Floats = np.bincount(clients, mean - own, len(b)).astype(np.float64)
    curvature: Floats = np.bincount(clients, spread, len(b)).astype(np.float64)
    return slope, curvature
