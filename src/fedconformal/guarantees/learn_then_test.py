"""A limit on any risk, also one that does not fall with the threshold, for nearly every calibration set.

Each threshold of the grid is a hypothesis, "its risk is above the limit", with a Hoeffding-Bentkus p-value. All
rejected thresholds are promised at once. The grid is cut into walks of the same length, each with an equal part of
`failure`: one walk is fixed-sequence testing, as many as there are thresholds is the Bonferroni correction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError
from fedconformal.guarantees.guarantee import check_whole
from fedconformal.guarantees.pac import PAC

MOST_WALKS = 2**14


@dataclass(frozen=True, kw_only=True)
class LearnThenTest(PAC):
    """A limit on the risk, except with probability `failure`; losses may rise along the grid.

    Parameters
    ----------
    failure
        The share of calibration draws whose risk may be above the limit.
    walks
        The number of parts of the grid; each is tested from its safest threshold down.

    Examples
    --------
    >>> LearnThenTest(walks=10).spent == 0.05 / 10
    True

    References
    ----------
    Angelopoulos, Bates, Candes, Jordan and Lei, "Learn then test", 2021.
    """

    name = "learn-then-test"

    walks: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self.walks, "walks")
        if self.walks > MOST_WALKS:
            raise InputError(f"walks is {abbreviate(self.walks)}, expected at most {MOST_WALKS}", param="walks")

    @property
    def spent(self) -> float:
        """The failure probability of one walk, rounded down."""
        part = self.failure / self.walks
        return part if part * self.walks <= self.failure else math.nextafter(part, 0)
