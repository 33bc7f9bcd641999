"""t-digest: about a hundred centroids of the scores, fine in the tails and coarse in the middle.

The sketch of Lu et al. (2023). On typical scores it is the most accurate kind of its size, but it errs in both
directions, without an error bound for all scores: a calibration from t-digests is "estimated".

Dunning and Ertl, "Computing extremely accurate quantiles using t-digests", 2019. fastdigest merges the centroids. A
mean is placed at the centre of its ranks, and ranks are interpolated between means, as in fastdigest; in addition, the
extreme scores are used, and the last of equal means counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from fastdigest import TDigest

from fedconformal._base.arrays import Floats, Integers
from fedconformal.errors import InputError
from fedconformal.summaries.ddsketch import check_sketch
from fedconformal.summaries.summary import Content, Summary

CENTROIDS = 100
POOLED = 5000
"""Number of centroids of a pool."""
LEVELS = 4000
TAIL = 500
"""Number of ranks of `points`: evenly spaced, and dense towards the largest score."""
ROUNDING = 1e-6
"""Tolerance of an interpolated rank below a whole number."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TDigestSummary(Summary):
    """Means of neighbouring scores with their weights; not certified.

    >>> from fedconformal import calibrate
    >>> summary = Summary.of_scores([i / 1000 for i in range(1000)], kind="tdigest")
    >>> summary.count_at_most(0.9), summary.count_at_most(0.25), len(summary.means)
    ((901, 901), (251, 251), 99)
    >>> calibrate([summary], alpha=0.1).certificate.status
    'estimated'
    """

    name = "tdigest"
    certified = False

    means: Floats
    weights: Integers
    smallest: float
    largest: float

    @classmethod
    def build(cls, scores: Floats, *, alpha: Fraction | None = None, **about: Any) -> Self:  # noqa: ARG003
        """Merge the scores into centroids; `alpha` is ignored."""
        return cls._gathered(scores, np.ones(len(scores), dtype=np.int64), CENTROIDS, sizes=(len(scores),), **about)

    @classmethod
    def _gathered(cls, means: Floats, weights: Integers, most: int, **about: Any) -> Self:
        extremes = {"smallest": float(means.min()), "largest": float(means.max())}
        means, weights = gather(means, weights, most)
        return cls(**{"means": means, "weights": weights, **extremes, **about})

    @property
    def points(self) -> Floats:
        """Quantiles of the digest: all ranks up to 4,000 scores, otherwise 4,000 ranks and more in the upper tail."""
        n = self.n
        ranks = np.arange(min(n, LEVELS))
        if n > LEVELS:
            tail = n - np.geomspace(1, n, TAIL)
            ranks = np.unique(np.concatenate([np.linspace(0, n - 1, LEVELS), tail]).astype(np.int64))
        values, positions = self._knots()
        left = np.clip(np.searchsorted(positions, ranks, side="right") - 1, 0, len(positions) - 2)
        width = positions[left + 1] - positions[left]
        share = (ranks - positions[left]) / np.where(width > 0, width, 1.0)
        # This form does not overflow, however far apart the two values are.
        quantiles = values[left] * (1 - share) + values[left + 1] * share
        quantiles = np.clip(quantiles, values[left], values[left + 1])
        return np.unique(np.concatenate([[self.smallest], quantiles, [self.largest]]))

    def bounds(self, q: Floats) -> tuple[Integers, Integers]:
        """Estimate the number of scores <= q, as both bounds."""
        values, positions = self._knots()
        left = np.clip(np.searchsorted(values, q, side="right") - 1, 0, len(values) - 2)
        inside = np.clip(q, self.smallest, self.largest)
        # Scale the largest numbers by a quarter, so that differences stay finite.
        scale = 0.25 if max(-self.smallest, self.largest) > 1e300 else 1.0
        width = values[left + 1] * scale - values[left] * scale
        share = (inside * scale - values[left] * scale) / np.where(width > 0, width, 1.0)
        position = positions[left] + np.minimum(share, 1.0) * (positions[left + 1] - positions[left])
        # The count at the i-th smallest score, from 0, is i + 1.
        counts = np.clip(np.floor(position + ROUNDING).astype(np.int64) + 1, 1, max(1, self.n - 1))
        counts = np.where(q < self.smallest, 0, np.where(q >= self.largest, self.n, counts))
        return counts, counts

    def _knots(self) -> tuple[Floats, Floats]:
        """Return the interpolation knots: means at the centre of their ranks, from 0, and extremes at the ends."""
        middle = np.cumsum(self.weights) - (self.weights + 1) / 2
        values = np.concatenate([[self.smallest], self.means, [self.largest]])
        return values, np.concatenate([[0.0], middle, [self.n - 1.0]])

    @classmethod
    def merge(cls, parts: Sequence[Self], **about: Any) -> Self:
        """Combine the means of all parts, and merge them if they are too many, which adds a small error."""
        return cls._gathered(
            np.concatenate([part.means for part in parts]),
            np.concatenate([part.weights for part in parts]),
            CENTROIDS if len(about["sizes"]) == 1 else POOLED,
            smallest=min(part.smallest for part in parts),
            largest=max(part.largest for part in parts),
            **about,
        )

    def content(self) -> Content:
        return Content([self.means, self.weights], numbers=(self.smallest, self.largest))

    @classmethod
    def from_content(cls, content: Content, **about: Any) -> Self:
        weights, smallest, largest = check_sketch(content, sum(about["sizes"]), "means", "weights")
        means = content.scores()
        if not smallest <= means[0] <= means[-1] <= largest:
            raise InputError("the summary's means are not between its smallest and its largest score")
        return cls(means=means, weights=weights, smallest=smallest, largest=largest, **about)


def gather(means: Floats, weights: Integers, most: int) -> tuple[Floats, Integers]:
    """Sort the means, and merge neighbours with fastdigest if there are more than `most`."""
    single = bool(weights.max() == 1)
    order = slice(None) if single else np.argsort(means, kind="stable")
    means, weights = np.sort(means), weights[order]
    if len(means) <= most:
        return means, weights
    # Scaling by a power of two is exact, and keeps the sums of the largest numbers finite.
    scale = 2.0**-80 if max(-means[0], means[-1]) > 1e270 else 1.0
    heavy: Any = None if single else weights.astype(np.float64)
    scaled: Any = means * scale
    centroids = np.array(TDigest.from_values(scaled, heavy, max_centroids=most).centroids)
    sizes = centroids[:, 1].astype(np.int64)
    # The rounded mean of equal scores may differ from them, so means are clipped to their first and last score.
    upto, ends = np.cumsum(weights), np.cumsum(sizes)
    first = means[np.searchsorted(upto, ends - sizes, side="right")]
    last = means[np.searchsorted(upto, ends, side="left")]
    with np.errstate(over="ignore"):
        return np.clip(centroids[:, 0] / scale, first, last), sizes
