"""Regularised adaptive prediction sets (RAPS): APS with a penalty on large sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Floats
from fedconformal.scores.aps import APS


@dataclass(frozen=True, kw_only=True)
class RAPS(APS):
    """APS plus `penalty` for every rank beyond the first `free_ranks`.

    The defaults are those of Lu et al. (2023), which prints them swapped, as "a=1, b=0.001".

    Parameters
    ----------
    penalty
        Penalty per rank.
    free_ranks
        Number of ranks without a penalty.
    randomized, random_state
        As in `APS`.

    Examples
    --------
    >>> RAPS(penalty=0.125).evaluate_all([[0.5, 0.25, 0.25]])
    array([[0.5  , 0.875, 1.25 ]])

    References
    ----------
    Angelopoulos, Bates, Jordan and Malik, "Uncertainty sets for image classifiers using conformal prediction", 2021.
    """

    name = "raps"
    counts_ranks = True

    penalty: float = 0.001
    free_ranks: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("penalty", float, 0, 2**20)
        self._check("free_ranks", int, 0, 2**31 - 1)

    @property
    def rank_price(self) -> float:
        return self.penalty or 1.0

    def combine(self, total: Floats, ranks: NDArray[np.signedinteger], taken: Floats | None) -> Floats:
        beyond: Floats = np.maximum(ranks - self.free_ranks, 0).astype(np.float64)
        score = super().combine(total, ranks, taken)
        score += beyond * self.penalty
        return score
