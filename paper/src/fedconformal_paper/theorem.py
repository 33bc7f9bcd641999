"""The unified theorem of App. B: K clients, a share delta of unknown weights, an epsilon-approximate quantile.

The coverage of the r-th smallest of N scores is at least (1 - delta)(r - epsilon N) / (N + K): a summary that errs by
at most epsilon N ranks loses that many, and a test point comes from an unknown mixture with probability delta. The
paper prints N + 1 in the rank; Theorem 4.3, the case delta = epsilon = 0, and the bound itself need N + K.
Certified summaries lose nothing (Corollary 4.5 is not needed), and `WorstCase(contamination=delta)` has a smaller rank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedconformal._base.arrays import as_alpha
from fedconformal.errors import InputError


@dataclass(frozen=True, kw_only=True)
class UnifiedTheorem:
    """The bound for these calibration sizes.

    Parameters
    ----------
    sizes
        Calibration rows of each client.
    delta
        Share of the test distribution that is an unknown mixture.
    epsilon
        Error of the quantile, as a share of N ranks (Definition 4.4).

    Examples
    --------
    >>> UnifiedTheorem(sizes=[100] * 20, delta=0.05).rank(0.1)
    1914
    >>> UnifiedTheorem(sizes=[100] * 20, delta=0.05, epsilon=0.01).rank(0.1)
    1934
    >>> float(UnifiedTheorem(sizes=[100] * 20, epsilon=0.01).coverage(1818))
    0.8900990099009901
    """

    sizes: Sequence[int]
    delta: float = 0.0
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("delta", self.delta), ("epsilon", self.epsilon)):
            if not 0 <= value < 1:
                raise InputError(f"{name} is {value}, expected at least 0 and below 1", param=name)

    def coverage(self, rank: int) -> Fraction:
        """Return the minimum coverage of the threshold at a rank, for a summary with rank error up to epsilon N."""
        total = sum(self.sizes)
        bound = (1 - _exact(self.delta)) * (rank - _exact(self.epsilon) * total) / (total + len(self.sizes))
        return max(Fraction(0), bound)

    def rank(self, alpha: float) -> int | None:
        """Return the smallest rank that promises 1 - alpha; None if N scores are too few."""
        total = sum(self.sizes)
        least = (1 - as_alpha(alpha)) * (total + len(self.sizes)) / (1 - _exact(self.delta))
        rank = math.ceil(least + _exact(self.epsilon) * total)
        return rank if rank <= total else None


def _exact(value: float) -> Fraction:
    return Fraction(str(value))
