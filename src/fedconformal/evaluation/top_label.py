"""Accuracy of the most probable label: by confidence (reliability), and among small sets (selective classification).

Expected and maximum calibration error: Naeini, Cooper and Hauskrecht, "Obtaining well calibrated probabilities using
Bayesian binning", 2015; Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", 2017.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Booleans, as_array, as_labels, as_probabilities
from fedconformal.errors import InputError

BINS = 15


class Bin(msgspec.Struct, frozen=True, kw_only=True):
    """Rows whose confidence is above `low` and at most `high`."""

    low: float
    high: float
    rows: int
    confidence: float
    accuracy: float


class Reliability(msgspec.Struct, frozen=True, kw_only=True):
    """The bins that hold rows; the mean gap between confidence and accuracy (ECE), and the largest (MCE)."""

    bins: list[Bin]
    ece: float
    mce: float
    accuracy: float


def reliability(probs: ArrayLike, labels: ArrayLike, *, bins: int = BINS) -> Reliability:
    """Compare the confidence in the top label with its accuracy.

    >>> found = reliability([[0.8, 0.2], [0.8, 0.2], [0.4, 0.6]], [0, 1, 1], bins=5)
    >>> round(found.ece, 3), round(found.mce, 3), len(found.bins)
    (0.333, 0.4, 2)
    """
    matrix = as_probabilities(probs)
    top = matrix.argmax(axis=1)
    confidence = matrix[np.arange(len(matrix)), top].astype(np.float64)
    hit = top == as_labels(labels, rows=len(matrix), classes=matrix.shape[1])
    index = np.clip(np.ceil(np.round(confidence * bins, 9)).astype(np.int64) - 1, 0, bins - 1)
    rows = np.bincount(index, minlength=bins)
    held = np.maximum(rows, 1)
    sure, right = np.bincount(index, confidence, bins) / held, np.bincount(index, hit, bins) / held
    gaps = np.abs(sure - right)
    return Reliability(
        bins=[
            Bin(low=i / bins, high=(i + 1) / bins, rows=int(rows[i]), confidence=sure[i], accuracy=right[i])
            for i in np.flatnonzero(rows).tolist()
        ],
        ece=float((gaps * rows).sum() / max(1, len(matrix))),
        mce=float(gaps[rows > 0].max(initial=0.0)),
        accuracy=float(hit.mean()) if len(hit) else 0.0,
    )


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """The rows with sets of at most `size` labels: their share, the accuracy of the top label, and the coverage."""

    size: int
    rows: int
    kept: float
    accuracy: float
    coverage: float


def selective_classification(sets: ArrayLike, probs: ArrayLike, labels: ArrayLike) -> list[Limit]:
    """Tabulate accuracy and coverage after abstaining on the largest sets, from the strictest limit to none.

    A heuristic: coverage is promised for all rows, not for those that are kept. `SelectiveError` with `LearnThenTest`
    certifies a limit on the confidence.

    >>> sets = [[True, False, False], [True, False, False], [True, True, False], [True, True, True]]
    >>> probs = [[0.9, 0.1, 0.0], [0.8, 0.2, 0.0], [0.5, 0.4, 0.1], [0.4, 0.3, 0.3]]
    >>> found = selective_classification(sets, probs, [0, 0, 1, 2])
    >>> [(one.size, one.kept, round(one.accuracy, 3)) for one in found]
    [(1, 0.5, 1.0), (2, 0.75, 0.667), (3, 1.0, 0.5)]
    """
    member: Booleans = as_array(sets, "sets")
    matrix = as_probabilities(probs)
    if member.shape != matrix.shape or member.dtype != np.bool_ or not len(member):
        raise InputError(f"sets: expected booleans of shape {matrix.shape}, got {member.dtype} {member.shape}")
    truth = as_labels(labels, rows=len(member), classes=member.shape[1])
    sizes = np.count_nonzero(member, axis=1)
    rows = np.cumsum(np.bincount(sizes))
    hits = np.cumsum(np.bincount(sizes, matrix.argmax(axis=1) == truth)) / np.maximum(rows, 1)
    covered = np.cumsum(np.bincount(sizes, member[np.arange(len(member)), truth])) / np.maximum(rows, 1)
    return [
        Limit(
            size=size,
            rows=int(rows[size]),
            kept=float(rows[size] / len(member)),
            accuracy=float(hits[size]),
            coverage=float(covered[size]),
        )
        for size in np.unique(sizes).tolist()
    ]
