"""Over sites: the mean of e-values, and which sites stand out.

The mean of e-values is an e-value, however the sites depend on each other at one time; watched over time it needs
independent sites. To name sites, e-BH takes the k sites with the largest e-values, for the largest k of which the k-th
is at least K / (k d): of those that it names, at most a share d is named wrongly on average, under any dependence.
Wang and Ramdas, "False discovery rate control with e-values", 2022. It takes what e-processes are worth now, at one
time, and never detectors or the largest values so far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fedconformal.errors import InputError


def log_mean(log_e_values: Sequence[float]) -> float:
    """Return the logarithm of the mean of e-values, from their logarithms.

    >>> round(log_mean([0.0, math.log(3)]), 12) == round(math.log(2), 12), log_mean([2000.0, -2000.0]) > 1999
    (True, True)
    """
    values = np.asarray(log_e_values, dtype=np.float64)
    if values.ndim != 1 or not len(values) or np.isnan(values).any():
        raise InputError("log_e_values: expected one number or more, no NaN")
    most = float(values.max())
    return most + math.log(float(np.exp(values - most).mean())) if math.isfinite(most) else most


def standing_out(log_e_values: Mapping[str, float], *, false_share: float = 0.1) -> list[str]:
    """Name the sites whose promise is broken, at most a share of them wrongly on average (e-BH).

    >>> standing_out({"a": math.log(50), "b": math.log(12), "c": 0.0}, false_share=0.1)
    ['a']
    >>> standing_out({"a": math.log(50), "b": math.log(16), "c": 0.0}, false_share=0.1)
    ['a', 'b']
    """
    if not 0 < false_share < 1:
        raise InputError(f"false_share is {false_share!r:.40}, expected a number between 0 and 1")
    if any(map(math.isnan, log_e_values.values())):
        raise InputError("log_e_values: expected numbers, no NaN")
    names = sorted(log_e_values, key=lambda name: -log_e_values[name])
    enough = [k for k, name in enumerate(names, 1) if log_e_values[name] >= math.log(len(names) / (k * false_share))]
    return names[: max(enough, default=0)]
