"""Sorted adaptive prediction sets: of the probabilities only the largest counts, then the rank.

Huang, Xi, Zhang, Yao, Qiu and Wei, "Conformal prediction for deep classifier via label ranking", 2024. What a network
says of unlikely labels is mostly noise; a fixed `weight` a rank takes its place. Calibration and prediction use one
function, also without randomisation (U = 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedconformal._base.arrays import Floats, Probabilities
from fedconformal.scores.topk import TopK


@dataclass(frozen=True, kw_only=True)
class SAPS(TopK):
    """U times the largest probability for the top label; for the others the largest plus `weight` (rank - 2 + U).

    Attributes:
        weight: the price of a rank.

    >>> SAPS(weight=0.25).evaluate_all([[0.25, 0.5, 0.25]])
    array([[0.75, 0.5 , 1.  ]])
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
        """Return the score; each step is one rounding, so it rises with the rank in floats too."""
        kept, most = 1.0 - draws, top.astype(np.float64)
        return np.where(ranks == 1, kept * most, most + self.weight * (ranks - 2 + kept))
