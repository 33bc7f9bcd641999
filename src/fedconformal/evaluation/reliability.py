"""Reliability: does a model that is 80% sure hit 80% of the time?

Naeini, Cooper and Hauskrecht, "Obtaining well calibrated probabilities using Bayesian binning", 2015; Guo, Pleiss, Sun
and Weinberger, "On calibration of modern neural networks", 2017. Rows are put into bins by the probability of their
most probable label; the expected error (ECE) is the mean gap between that probability and the accuracy in a bin, the
maximum error (MCE) is the largest. Bins with few rows make the maximum noisy.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import as_labels, as_probabilities

BINS = 15


class Bin(msgspec.Struct, frozen=True, kw_only=True):
    """Rows whose confidence is above `low` and at most `high`."""

    low: float
    high: float
    rows: int
    confidence: float
    accuracy: float


class Reliability(msgspec.Struct, frozen=True, kw_only=True):
    """The bins that hold rows, and the two errors."""

    bins: list[Bin]
    ece: float
    mce: float
    accuracy: float


def reliability(probs: ArrayLike, labels: ArrayLike, *, bins: int = BINS) -> Reliability:
    """Compare the confidence in the top label with how often it is right.

    >>> found = reliability([[0.8, 0.2], [0.8, 0.2], [0.4, 0.6]], [0, 1, 1], bins=5)
    >>> round(found.ece, 3), round(found.mce, 3), len(found.bins)
    (0.333, 0.4, 2)
    """
    matrix = as_probabilities(probs)
    truth = as_labels(labels, rows=len(matrix), classes=matrix.shape[1])
    top = matrix.argmax(axis=1)
    confidence = matrix[np.arange(len(matrix)), top].astype(np.float64)
    hit = top == truth
    index = np.clip(np.ceil(np.round(confidence * bins, 9)).astype(np.int64) - 1, 0, bins - 1)
    rows = np.bincount(index, minlength=bins)
    held = np.maximum(rows, 1)
    sure = np.bincount(index, confidence, bins) / held
    right = np.bincount(index, hit, bins) / held
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
