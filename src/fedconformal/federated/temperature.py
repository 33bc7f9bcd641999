"""Temperature over an engine: sites answer with sums of the likelihood, and their rows stay with them.

The method is that of `calibration/temperature.py`: Newton steps in 1/T on the likelihood of all rows. The first
question asks for the sums at many points at once, as every question over a network takes a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal.calibration.temperature import LEAST, MOST, likelihood_of, minimise
from fedconformal.errors import InputError
from fedconformal.federated.ask import Question, Sites
from fedconformal.privacy.policy import TEMPERATURE, Outgoing, Policy

STARTS = tuple(np.geomspace(1 / MOST, 1 / LEAST, 33).tolist())
"""Inverse temperatures where the search may start."""
NAMES = ("loss", "slope", "curvature")

Sums = NDArray[np.float64]
"""A row for each of NAMES, a column for each inverse temperature."""


@dataclass(frozen=True)
class TemperatureQuestion(Question[Sums]):
    """A question for the likelihood of a site's rows at some inverse temperatures: its value, slope and curvature.

    >>> TemperatureQuestion((1.0,)).answer([[0.0, 0.0]], [1], model="m", policy=Policy())["slope"]
    [0.0]
    """

    stage = "temperature"

    points: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the question in plain values."""
        return {"points": list(self.points)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> TemperatureQuestion:
        """Read the values of `to_dict`."""
        return cls(tuple(map(float, found["points"])))

    def answer(self, logits: ArrayLike, labels: ArrayLike, *, model: str, policy: Policy) -> dict[str, list[float]]:
        """Return a site's sums over its rows at each inverse temperature, unless its policy forbids it."""
        policy.check(Outgoing(kind=TEMPERATURE, rows=len(np.asarray(labels)), model=model))
        sums = likelihood_of(logits, labels)
        return dict(zip(NAMES, map(list, zip(*(sums(b) for b in self.points), strict=True)), strict=True))

    def read(self, reply: Mapping[str, Any], *, site: str) -> Sums:
        """Refuse sums that no rows can have."""
        columns = [reply.get(name) for name in NAMES]
        whole = all(isinstance(column, list) and len(column) == len(self.points) for column in columns)
        if len(reply) != len(NAMES) or not whole:
            raise InputError("expected loss, slope and curvature at every point")
        sums: Sums = np.array(columns, dtype=np.float64)
        if not np.isfinite(sums).all() or sums[2].min() < 0:
            raise InputError("a sum is not finite, or a curvature negative")
        return sums


def fit_temperature(sites: Sites, model: Any) -> float:
    """Find the temperature that makes the labels of all sites' rows most likely."""
    sites.fingerprint(model)  # refuses a model that is not finite

    def total(points: tuple[float, ...]) -> list[tuple[float, float, float]]:
        answers = sites.ask(TemperatureQuestion(points), model)
        sums = np.array([answer.value for answer in answers]).sum(axis=0)
        return [(float(loss), float(slope), float(curvature)) for loss, slope, curvature in sums.T]

    known = dict(zip(STARTS, total(STARTS), strict=True))
    start = min(STARTS, key=lambda b: abs(known[b][1]))
    return minimise(lambda b: known.get(b) or total((b,))[0], start)
