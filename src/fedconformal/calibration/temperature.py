"""Temperature scaling with one temperature for all sites.

Logits are divided by the maximum-likelihood temperature T (Guo, Pleiss, Sun and Weinberger, "On calibration of modern
neural networks", 2017). The negative log-likelihood is convex in b = 1/T, so a few Newton steps suffice, and each needs
only the sums of slope and curvature over all sites. Lu et al. (2023) average the temperatures of the sites; as the
optimum of a site with a single class is T = 0, T is bounded.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, Integers, as_array, as_labels, as_matrix
from fedconformal.errors import InputError

logger = logging.getLogger(__name__)

Method = Literal["pooled", "mean", "none"]
LEAST, MOST = 0.05, 20.0
LARGEST_LOGIT = 1e150
"""Logits are clipped to this size, far beyond probabilities of 0 and 1, so that their squares are finite."""
MOST_STEPS = 50
PRECISION = 1e-10
Likelihood = Callable[[float], tuple[float, float, float]]
"""Maps b = 1/T to sums over rows: negative log-likelihood, slope and curvature in b."""


@dataclass(frozen=True, kw_only=True)
class Temperature:
    """A temperature, and whether it, or that of any site, is at a bound."""

    value: float
    at_bound: bool = False


def fit_temperature(
    logits: Sequence[ArrayLike], labels: Sequence[ArrayLike], *, method: Method = "pooled"
) -> Temperature:
    """Fit one temperature to the logits, (n_k, J), and labels, (n_k,), of several sites.

    "pooled" adds slope and curvature over sites, equal to a fit to the pooled rows; "mean" is the unweighted mean of
    the sites' temperatures, as in the paper; "none" is 1.

    >>> logits = [[[4.0, 0.0], [4.0, 0.0]], [[0.0, 4.0], [4.0, 0.0]]]
    >>> labels = [[0, 0], [1, 1]]
    >>> round(fit_temperature(logits, labels).value, 3)
    3.641
    >>> fit_temperature(logits, labels, method="mean")
    Temperature(value=10.025, at_bound=True)
    """
    if method not in get_args(Method):
        raise InputError(f"temperature is {method!r}; there are {', '.join(get_args(Method))}")
    if method == "none":
        return Temperature(value=1.0)
    if not logits or len(logits) != len(labels):
        raise InputError(f"temperature: there are logits of {len(logits)} sites and labels of {len(labels)}")
    pairs = enumerate(zip(logits, labels, strict=True))
    sites = {f"site {k}": likelihood_of(z, y, f"site {k}") for k, (z, y) in pairs if len(as_array(y, "labels"))}
    if not sites:
        raise InputError("temperature: no site has rows for the fit; hold some out, or choose 'none'")
    if method == "pooled":
        value = minimise(lambda b: _total(list(sites.values()), b))
        fitted = Temperature(value=value, at_bound=value in (LEAST, MOST))
    else:
        own = tuple(minimise(site) for site in sites.values())
        fitted = Temperature(value=math.fsum(own) / len(own), at_bound=LEAST in own or MOST in own)
    if fitted.at_bound:
        logger.warning("a temperature is held at a bound, %g or %g; are all labels the top label?", LEAST, MOST)
    return fitted


def check_temperature(value: float) -> float:
    """Refuse a temperature outside the range of a fit, where probabilities are uniform, or 0 and 1."""
    if not LEAST <= value <= MOST:
        raise InputError(f"temperature is {value:g}, expected a number from {LEAST:g} to {MOST:g}, as a fit gives")
    return value


def likelihood_of(logits: ArrayLike, labels: ArrayLike, name: str = "site") -> Likelihood:
    """Return the negative log-likelihood of a site's rows as a function of b = 1/T, with slope and curvature."""
    z: Floats = as_matrix(logits, f"{name}: logits").astype(np.float64)
    y: Integers = as_labels(labels, rows=len(z), classes=z.shape[1], name=f"{name}: labels")
    finite = np.isfinite(z).all(axis=1)
    if not finite.all():
        raise InputError(
            f"logits: row {int(np.argmin(finite))} holds a value that is not finite (NaN or inf)", where=name
        )
    z = np.clip(z, -LARGEST_LOGIT, LARGEST_LOGIT)
    z = z - z[np.arange(len(z)), y][:, None]  # the likelihood depends only on differences to the logit of the label

    def likelihood(b: float) -> tuple[float, float, float]:
        scaled = b * z
        top = scaled.max(axis=1, keepdims=True, initial=0.0)
        weights = np.exp(scaled - top)
        total = weights.sum(axis=1, keepdims=True)
        p = weights / total
        mean = (p * z).sum(axis=1)
        spread = (p * (z - mean[:, None]) ** 2).sum(axis=1)
        return float((top + np.log(total)).sum()), float(mean.sum()), float(spread.sum())

    return likelihood


def minimise(likelihood: Likelihood, start: float = 1.0) -> float:
    """Minimise by Newton steps in 1/T between the bounds; a step outside the interval is replaced by bisection."""
    low, high = 1 / MOST, 1 / LEAST
    slopes = likelihood(low)[1], likelihood(high)[1]
    if slopes == (0, 0):
        return 1.0  # flat: the rows contain no information on the temperature
    if slopes[0] >= 0:
        return MOST
    if slopes[1] <= 0:
        return LEAST
    b = start
    for _ in range(MOST_STEPS):
        _, slope, curvature = likelihood(b)
        low, high = (b, high) if slope < 0 else (low, b)
        following = b - slope / curvature if curvature > 0 else math.nan
        if abs(following - b) <= PRECISION * b:  # tested before the interval, of which b is now an end
            return min(max(1 / following, LEAST), MOST)
        b = following if low < following < high else (low + high) / 2
    return 1 / b


def _total(sites: Sequence[Likelihood], b: float) -> tuple[float, float, float]:
    answers = [site(b) for site in sites]
    loss, slope, curvature = (math.fsum(column) for column in zip(*answers, strict=True))
    return loss, slope, curvature
