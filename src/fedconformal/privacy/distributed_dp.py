"""Distributed differential privacy: in a sums session, every site adds its share of the noise before masking.

The shares of half of the sites are enough for epsilon, a third of the sites may collude with the coordinator and
subtract their own, and up to a sixth may drop out; with fewer answers no sum is revealed. All shares together are the
noise of at most two draws, and the margins allow for it. Sums are modular, and read as signed words at the end.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fedconformal._base.arrays import Floats, Keys
from fedconformal.calibration.predictor import Predictor
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.noise import MOVED, NoisyPlan, in_cells, plan_noisy, shares
from fedconformal.privacy.release import OUTSIDE, Inputs, certify_release
from fedconformal.privacy.sums.radix import Counted, Search

TAIL = 60
"""A draw of noise exceeds this many times its scale with negligible probability."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyRound:
    """The single round of a session with noise, in place of the rounds of a radix search."""

    guarantee: Guarantee
    alpha: Fraction
    sizes: tuple[int, ...]
    epsilon: Fraction
    grid: Floats

    noisy: ClassVar[bool] = True
    steps: ClassVar[int] = 1

    @cached_property
    def plan(self) -> NoisyPlan | None:
        """Readout of the threshold; None if there are too few scores."""
        return plan_noisy(self.guarantee, self.alpha, self.sizes, self.epsilon, self.grid, self.strength)

    @property
    def honest(self) -> int:
        """Number of sites whose shares add up to the noise of one draw: half of them, rounded up."""
        return (len(self.sizes) + 1) // 2

    @property
    def colluding(self) -> int:
        """Number of sites that may collude and subtract their own noise: a third, rounded up."""
        return (len(self.sizes) + 2) // 3

    @property
    def least(self) -> int:
        """Minimum number of sites in a revealed sum; with fewer, the honest sites add too little noise."""
        return self.honest + self.colluding

    @property
    def strength(self) -> Fraction:
        """Total noise of all sites in units of one draw."""
        return Fraction(len(self.sizes), self.honest)

    def certify(
        self, threshold: float, counted: frozenset[int], inputs: Inputs, caveat: str, **details: Any
    ) -> Predictor:
        """Return the predictor; `counted` are the sites whose noise is in the sum."""
        plan = self.plan
        return certify_release(
            threshold,
            plan,
            inputs,
            definition=(
                "differential privacy of the sum over the sites that answered, by shares of discrete Laplace noise "
                f"that each of them adds in every cell, also towards up to {self.colluding} of them that know and "
                "subtract their own shares; pure for anyone who sees the sum, computational for the coordinator, who "
                "sees masked counts as well"
            ),
            epsilon=self.epsilon,
            grid=self.grid,
            outside=(
                f"{OUTSIDE}; sessions with fewer than {self.honest} sites that answer and keep to the protocol, as the "
                f"other {self.colluding} of at least {self.least} need not; a coordinator that does not keep to it, "
                "such as one that plays more of the sites itself"
            ),
            caveat=caveat,
            **details,
            margin=None if plan is None else int(plan.margins.max()),
            honest_sites=self.honest,
            colluding_sites=self.colluding,
            answered_sites=len(counted),
        )

    @property
    def most_noise(self) -> int:
        """Bound on the noise in a cell: at most two draws, each beyond half of it with probability below exp(-60)."""
        return math.ceil(2 * TAIL * MOVED / self.epsilon)

    def check_noise(self, counted: Collection[int]) -> None:
        """Refuse a sum with less noise than epsilon requires: sites that did not answer have added none."""
        if len(counted) < self.least:
            raise InputError(
                f"only {len(counted)} of {len(self.sizes)} sites add noise, at least {self.least} are needed to keep "
                f"epsilon against {self.colluding} that collude; the sum stays hidden"
            )

    @property
    def start(self) -> Search:
        """Initial state of the search; with too few scores also the final state."""
        return Search(answer=math.inf) if self.plan is None else Search()

    def extends(self, before: Search | None, after: Search) -> bool:
        """Return whether this is the only question of the session."""
        return before is None and (after.number, after.prefix) == (0, 0)

    def cells(self, number: int) -> int:
        """Return the number of counts that a site sends in this round."""
        return len(self.grid)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Word type that holds all scores and any noise, positive or negative."""
        return np.dtype("<u4") if sum(self.sizes) < 2**30 else np.dtype("<u8")

    def histogram(self, search: Search, keys: Keys) -> Counted:
        """Return the histogram of one site's scores with the site's share of the noise."""
        noisy = in_cells(keys, self.grid) + shares(len(self.grid), self.epsilon, self.honest)
        return noisy.astype(f"<i{self.dtype.itemsize}").view(self.dtype)

    def advance(self, search: Search, total: Counted, present: frozenset[int]) -> Search:
        """Read the threshold from the sum over the sites that are present; scores of other sites are not counted."""
        if self.plan is None:
            raise InputError("there are too few scores for this noise, so the session has no rounds")
        self.check_noise(present)
        counts = total.view(f"<i{self.dtype.itemsize}").tolist()
        scores = sum(self.sizes[k] for k in present)
        if min(counts) < -self.most_noise or max(counts) > scores + self.most_noise:
            raise InputError("the sum is impossible: a site sent something else than its counts with noise")
        return Search(1, answer=self.plan.threshold(counts, scores))
