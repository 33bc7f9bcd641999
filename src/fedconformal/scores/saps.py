"""Sorted adaptive prediction sets (SAPS): the largest probability plus a fixed weight per rank.

Probabilities of unlikely labels are mostly noise, so ranks replace them. Calibration and prediction use the same
function, also without randomisation (U = 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedconformal._base.arrays import Floats, Probabilities
from fedconformal.scores.topk import TopK


@dataclass(frozen=True, kw_only=True)
class SAPS(TopK):
    """U times the largest probability for the top label, and the largest plus `weight` (rank - 2 + U) for the others.

    Parameters
    ----------
    weight
        Weight per rank.
    randomized, random_state
        As in `APS`; U is 1 without randomisation.

    Examples
    --------
    >>> SAPS(weight=0.25).evaluate_all([[0.25, 0.5, 0.25]])
    array([[0.75, 0.5 , 1.  ]])

    References
    ----------
    Huang, Xi, Zhang, Yao, Qiu and Wei, "Conformal prediction for deep classifier via label ranking", 2024.
    """

    name = "saps"

    weight: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("weight", float, 0, 2**20)

    @property
    def rank_price(self) -> float:
        return self.weight or 1.0

    def by_rank(self, ranks: Floats, top: Probabilities, draws: Floats) -> Floats:
        """Return the score; each step rounds once, so it is monotone in the rank in floats too."""
        u, largest = 1.0 - draws, top.astype(np.float64)
        return np.where(ranks == 1, u * largest, largest + self.weight * (ranks - 2 + u))
