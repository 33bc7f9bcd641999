"""How large sets would be, guessed from a pilot study: its promise curve stands in for the scores to come."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from fedconformal.calibration.curve import PromiseCurve
from fedconformal.calibration.predictor import Predictor
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee

DRAWS = 20
BLOCK = 2**22
"""Counts held at a time."""


class Trial:
    """Calibrations on scores that are drawn as the pilot's promise curve says, the same at every site.

    >>> from fedconformal import LAC, Mixture, calibrate, summarize
    >>> scores = LAC().evaluate([[0.6, 0.3, 0.1]] * 40, [0] * 30 + [1] * 10)
    >>> pilot = Predictor.of(calibrate([summarize(scores, score=LAC())], alpha=0.1))
    >>> trial = Trial(pilot, [[0.6, 0.3, 0.1]], sizes=[200, 100])
    >>> trial.mean_size(Mixture(), Fraction(1, 10)), trial.mean_size(Mixture(), Fraction(1, 2))
    (2.0, 1.0)
    """

    def __init__(self, pilot: Predictor, probs: ArrayLike, sizes: Sequence[int]) -> None:
        """Draw counts at the curve's thresholds, or at fewer of them if there are very many sites."""
        if not isinstance(pilot.curve, PromiseCurve):
            raise InputError("the pilot predictor has a threshold for each class; make one without by-class")
        if not len(np.asarray(probs)):
            raise InputError("the pilot's probabilities have no rows; give at least one")
        # Scaled so that all scores are at or below the last threshold, as the pilot's did.
        shares = pilot.curve.promised / pilot.curve.promised[-1]
        step = 1 + len(sizes) * len(shares) // BLOCK
        kept = np.arange(len(shares) - 1, -1, -step)[::-1]
        self._sizes = list(sizes)
        self._thresholds = pilot.curve.thresholds[kept]
        draws = max(1, min(DRAWS, BLOCK // (len(sizes) * len(kept))))
        chances = np.diff(shares[kept], prepend=0.0)
        rng = np.random.default_rng(0)
        self._draws = [rng.multinomial(self._sizes, chances).cumsum(axis=1) for _ in range(draws)]
        self._size_at = cache(
            lambda threshold: float(np.count_nonzero(pilot.score.predict_set(probs, threshold), axis=1).mean())
        )

    def mean_size(self, guarantee: Guarantee, alpha: Fraction) -> float:
        """Return the mean set size over the draws; every label where alpha cannot be promised."""
        bound = guarantee.bind([f"#{k + 1}" for k in range(len(self._sizes))], self._sizes)
        found = []
        for counts in self._draws:
            place = bisect_left(counts.T, 1 - alpha, key=lambda column: bound.promised(column.tolist(), self._sizes))
            found.append(self._size_at(float(np.append(self._thresholds, np.inf)[place])))
        return sum(found) / len(found)
