"""A promise curve of one step, where nothing may be known of any other threshold."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from fedconformal.calibration.curve import PromiseCurve, in_units


def one_step(threshold: float, promised: Fraction) -> PromiseCurve:
    """Return what is promised from this threshold on; at +inf, nothing at any finite one.

    >>> one_step(0.5, Fraction(9, 10)).threshold(Fraction(1, 10)), one_step(math.inf, Fraction(1)).most
    (0.5, Fraction(0, 1))
    """
    if threshold == math.inf:
        return PromiseCurve(np.array([np.finfo(np.float64).max]), np.array([0]))
    return PromiseCurve(np.array([threshold]), np.array([in_units(promised)]))
