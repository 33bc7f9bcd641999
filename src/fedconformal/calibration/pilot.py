"""How large sets would be, guessed from a pilot study: its promise curve stands in for the scores to come."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import ALPHA_UNIT, Booleans
from fedconformal.calibration.curve import PromiseCurve
from fedconformal.calibration.predictor import Predictor
from fedconformal.errors import InputError
from fedconformal.evaluation.sets import full_sets
from fedconformal.guarantees import Guarantee

DRAWS = 20
BLOCK = 2**22
"""Counts held at a time."""


class Sets(NamedTuple):
    """The mean size of sets, and the share of them that hold every label."""

    mean_size: float
    full: float

    @classmethod
    def of(cls, sets: Booleans) -> Sets:
        """Measure some sets."""
        return cls(int(np.count_nonzero(sets)) / len(sets), full_sets(sets) / len(sets))


class PilotDraws:
    """Calibrations on scores that are drawn as the pilot's promise curve says, the same at every site.

    >>> from fedconformal import LAC, Mixture, Summary, calibrate
    >>> scores = LAC().evaluate([[0.6, 0.3, 0.1]] * 40, [0] * 30 + [1] * 10)
    >>> pilot = calibrate([Summary.of_scores(scores, score=LAC())], alpha=0.1, exact=True)
    >>> trial = PilotDraws(pilot, [[0.6, 0.3, 0.1]], sizes=[200, 100])
    >>> trial.sets(Mixture(), Fraction(1, 10)), trial.sets(Mixture(), Fraction(1, 2))
    (Sets(mean_size=2.0, full=0.0), Sets(mean_size=1.0, full=0.0))
    """

    def __init__(self, pilot: Predictor, probs: ArrayLike, sizes: Sequence[int]) -> None:
        """Draw counts at the curve's thresholds, or at fewer of them if there are very many sites."""
        if not isinstance(pilot.curve, PromiseCurve):
            raise InputError(
                "the pilot predictor has a threshold for each class or group; make one without by-class, by-group"
            )
        if not len(np.asarray(probs)):
            raise InputError("the pilot's probabilities have no rows; give at least one")
        # Of scores above the last threshold nothing is known.
        shares = np.append(pilot.curve.promised / ALPHA_UNIT, 1.0)
        step = 1 + len(sizes) * len(shares) // BLOCK
        kept = np.arange(len(shares) - 1, -1, -step)[::-1]
        self._sizes = list(sizes)
        self._thresholds = np.append(pilot.curve.thresholds, math.inf)[kept]
        draws = max(1, min(DRAWS, BLOCK // (len(sizes) * len(kept))))
        chances = np.diff(shares[kept], prepend=0.0)
        rng = np.random.default_rng(0)
        self._draws = [rng.multinomial(self._sizes, chances).cumsum(axis=1) for _ in range(draws)]
        self._sets_at = cache(lambda threshold: Sets.of(pilot.score.predict_set(probs, threshold)))

    def sets(self, guarantee: Guarantee, alpha: Fraction) -> Sets:
        """Return how large sets are, on average over the draws; every label is in where alpha cannot be promised."""
        bound = guarantee.bind([f"#{k + 1}" for k in range(len(self._sizes))], self._sizes)
        found = []
        for counts in self._draws:
            low, high = 0, len(self._thresholds)
            while low < high:
                middle = (low + high) // 2
                enough = bound.promised(counts[:, middle].tolist(), self._sizes) >= 1 - alpha
                low, high = (low, middle) if enough else (middle + 1, high)
            found.append(self._sets_at(float(self._thresholds[low]) if low < len(self._thresholds) else float("inf")))
        return Sets(*(sum(part) / len(found) for part in zip(*found, strict=True)))
