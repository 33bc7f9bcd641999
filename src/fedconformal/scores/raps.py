"""Regularised adaptive prediction sets: APS with a price on long sets.

Angelopoulos, Bates, Jordan and Malik, "Uncertainty sets for image classifiers using conformal prediction", 2021.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Floats
from fedconformal.errors import InputError
from fedconformal.scores.aps import APS


@dataclass(frozen=True, kw_only=True)
class RAPS(APS):
    """APS plus `penalty` for every rank beyond the first `free_ranks`.

    The paper prints "a=1, b=0.001" for penalty and free ranks: swapped. These are its settings.

    Attributes:
        penalty: the price of a rank.
        free_ranks: ranks without a price.

    >>> RAPS(penalty=0.125).evaluate_all([[0.5, 0.25, 0.25]])
    array([[0.5  , 0.875, 1.25 ]])
    """

    name = "raps"
    counts_ranks = True

    penalty: float = 0.001
    free_ranks: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.penalty, bool) or not isinstance(self.penalty, int | float):
            raise InputError(f"penalty is {self.penalty!r}, expected a number")
        if not 0 <= self.penalty <= 2**20:
            raise InputError(f"penalty is {self.penalty}, expected a number from 0 to 2^20")
        object.__setattr__(self, "penalty", float(self.penalty))
        if isinstance(self.free_ranks, bool) or not isinstance(self.free_ranks, int):
            raise InputError(f"free_ranks is {self.free_ranks!r}, expected a whole number")
        if not 0 <= self.free_ranks < 2**31:
            raise InputError(f"free_ranks is {self.free_ranks}, expected a number from 0 to 2^31 - 1")

    @property
    def rank_price(self) -> float:
        return self.penalty or 1.0

    def combine(self, total: Floats, ranks: NDArray[np.signedinteger], taken: Floats | None) -> Floats:
        """Add the penalty of the rank."""
        beyond: Floats = np.maximum(ranks - self.free_ranks, 0).astype(np.float64)
        score = super().combine(total, ranks, taken)
        score += beyond * self.penalty
        return score
