"""One temperature for all sites of an engine: sites answer with sums, and their rows stay with them.

The method is that of `calibration/temperature.py`: Newton steps in 1/T on the likelihood of all rows. The first
question asks for the sums at many points at once, as on a network every question takes a while.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal.calibration.temperature import LEAST, MOST, likelihood_of, minimise
from fedconformal.errors import InputError
from fedconformal.federated.ask import Ask

STARTS = tuple(np.geomspace(1 / MOST, 1 / LEAST, 33).tolist())
"""Inverse temperatures where the search may start."""
NAMES = ("loss", "slope", "curvature")

Sums = NDArray[np.float64]
"""A row for each of NAMES, a column for each inverse temperature."""


def fit(ask: Ask[Sequence[float], Sums]) -> float:
    """Find the temperature that makes the labels of all sites' rows most likely."""
    known = dict(zip(STARTS, _total(ask, STARTS), strict=True))
    start = min(STARTS, key=lambda b: abs(known[b][1]))
    return minimise(lambda b: known.get(b) or _total(ask, [b])[0], start)


def answer(points: Sequence[float], logits: ArrayLike, labels: ArrayLike) -> dict[str, list[float]]:
    """Return a site's sums over its rows, at each inverse temperature.

    >>> answer([1.0], [[0.0, 0.0]], [1])["slope"]
    [0.0]
    """
    sums = likelihood_of(logits, labels)
    return dict(zip(NAMES, map(list, zip(*(sums(float(b)) for b in points), strict=True)), strict=True))


def check(found: Mapping[str, Any], points: Sequence[float]) -> Sums:
    """Refuse sums that no rows can have."""
    columns = [found.get(name) for name in NAMES]
    whole = all(isinstance(column, list) and len(column) == len(points) for column in columns)
    if len(found) != len(NAMES) or not whole:
        raise InputError("metrics: expected num-examples, and loss, slope and curvature at every point")
    sums: Sums = np.array(columns, dtype=np.float64)
    if not np.isfinite(sums).all() or sums[2].min() < 0:
        raise InputError("metrics: a sum is not finite, or a curvature negative")
    return sums


def _total(ask: Ask[Sequence[float], Sums], points: Sequence[float]) -> list[tuple[float, float, float]]:
    total = np.array([one.value for one in ask(points)]).sum(axis=0)
    return [(float(loss), float(slope), float(curvature)) for loss, slope, curvature in total.T]
