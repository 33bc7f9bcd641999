"""A promise to a test point that comes from a mixture of the sites.

Lu, Yu, Karimireddy, Jordan and Raskar, "Federated Conformal Predictors for Distributed Uncertainty
Quantification", 2023, Theorem 1. The theorem's proof conditions on something that is not fixed; comparing
with the r-th smallest of the augmented N + K scores repairs it. "Largest" in the paper means smallest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedconformal._base.arrays import Integers
from fedconformal.errors import InputError
from fedconformal.guarantees.class_share import ClassShare
from fedconformal.guarantees.guarantee import (
    Counts,
    Guarantee,
    as_decimal,
    as_number_of_scores,
    capped_words,
    ceil_rank,
    column_sums,
    more_in_total,
)

WEIGHT_TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Mixture(Guarantee):
    """Cover a test point from the mixture of the sites, in proportion to n_k + 1 unless weights are given.

    In proportion, a site that claims a million scores can outweigh everybody else. `most_scores`, fixed beforehand,
    bounds that.

    Attributes:
        weights: "proportional", "uniform", or one number a site, in the order of the summaries, which add up to one.
        most_scores: a site that claims more scores weighs as one that has this many.

    >>> Mixture().promised(counts=[9, 4], sizes=[10, 5])  # 13 of N + K = 17
    Fraction(13, 17)
    >>> Mixture(weights="uniform").promised(counts=[10, 4], sizes=[10, 5])
    Fraction(26, 33)
    >>> Mixture(most_scores=5).promised(counts=[10, 4], sizes=[10, 5])  # the first weighs as much as the second
    Fraction(26, 33)
    """

    name = "mixture"
    assumption = (
        "within each site, given the rows of the others, the calibration rows and the test row are exchangeable; "
        "the test row's site is drawn with the stated weights; the model was not fitted to the calibration rows"
    )
    caveat = (
        "This is not a promise to a single site, class or set size: one that falls below is not a violation "
        "(the guarantee every-client promises it to each site)."
    )

    weights: str | Sequence[float] = "proportional"
    most_scores: int | None = None

    def __post_init__(self) -> None:
        """Check the weights and the cap."""
        as_number_of_scores(self.most_scores, "most_scores")
        if self.most_scores is not None and not (isinstance(self.weights, str) and self.weights == "proportional"):
            raise InputError("most_scores goes with weights 'proportional': others do not depend on the sizes")
        if isinstance(self.weights, str):
            if self.weights not in ("proportional", "uniform"):
                raise InputError(f"weights is {self.weights!r}, expected 'proportional', 'uniform' or numbers")
            return
        try:
            weights = tuple(float(w) for w in np.asarray(self.weights, dtype=np.float64).ravel())
        except (ValueError, TypeError, OverflowError):
            weights = ()
        if not weights or not all(math.isfinite(w) and w >= 0 for w in weights):
            raise InputError("weights: expected one finite number a site, none negative")
        if abs(sum(weights) - 1) > WEIGHT_TOLERANCE:
            raise InputError(f"weights: they sum to {sum(weights):.6g}, not 1")
        object.__setattr__(self, "weights", weights)

    @property
    def sites_apart(self) -> bool:
        """Only the proportional mixture without a cap weighs all scores alike."""
        return not self._all_alike

    @property
    def _all_alike(self) -> bool:
        return self.weights == "proportional" and self.most_scores is None

    def bind(self, sites: Sequence[str], sizes: Counts) -> Guarantee:
        """Check that there is a weight for every site."""
        if not isinstance(self.weights, str) and len(self.weights) != len(sizes):
            raise InputError(f"weights: {len(self.weights)} were given for {len(sizes)} sites")
        return self

    def in_class(self, sizes: Counts) -> Guarantee:
        """Weigh as before, with the size of the whole site; every site may hold one more row of the class."""
        parts = [1] * len(sizes) if self._all_alike else self._integer_weights(sizes)[0]
        return ClassShare(weights=tuple(parts), more=sum(parts))

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Return the weighted count."""
        if self._all_alike:
            return Fraction(sum(counts), sum(sizes) + len(sizes))
        parts, whole = self._integer_weights(sizes)
        return Fraction(sum(w * m for w, m in zip(parts, counts, strict=True)), whole)

    def promised_many(self, counts: Integers, sizes: Counts) -> list[Fraction]:
        """Return the weighted counts of many q at once."""
        if self._all_alike:
            whole = sum(sizes) + len(sizes)
            return [Fraction(total, whole) for total in column_sums(counts, sizes).tolist()]
        parts, whole = self._integer_weights(sizes)
        totals = np.array(parts, dtype=object) @ counts.astype(object)
        return [Fraction(total, whole) for total in totals]

    def _integer_weights(self, sizes: Counts) -> tuple[list[int], int]:
        # lambda_k / (n_k + 1) over one common denominator, so that sums stay integers.
        shares = self._shares(sizes)
        fractions = [share / (n + 1) for share, n in zip(shares, sizes, strict=True)]
        whole = math.lcm(*(fraction.denominator for fraction in fractions))
        return [fraction.numerator * (whole // fraction.denominator) for fraction in fractions], whole

    def _shares(self, sizes: Counts) -> list[Fraction]:
        if self.weights == "uniform":
            return [Fraction(1, len(sizes))] * len(sizes)
        if isinstance(self.weights, str):
            counted = [min(n, self.most_scores or n) + 1 for n in sizes]
            return [Fraction(n, sum(counted)) for n in counted]
        exact = [as_decimal(w) for w in self.weights]
        return [w / sum(exact) for w in exact]

    def rank(self, alpha: Fraction, sizes: Counts) -> tuple[int, int] | None:
        """Return the rank ceil((1 - alpha)(N + K)) among the N scores and K stand-ins at +inf."""
        if not self._all_alike:
            return None
        total = sum(sizes) + len(sizes)
        return ceil_rank(alpha, total), total

    def at_most(self, alpha: Fraction, sizes: Counts, gaps: Counts) -> Fraction:
        """Return the upper end of Theorem 1's band, plus what the summaries may cost."""
        if self._all_alike:
            total = sum(sizes) + len(sizes)
            return min(Fraction(1), Fraction(ceil_rank(alpha, total) + len(sizes) - 1 + sum(gaps), total))
        one_each = self.promised([1] * len(sizes), sizes)
        return min(Fraction(1), 1 - alpha + one_each + self.slack(gaps, sizes))

    def expected(self, alpha: Fraction, sizes: Counts) -> Fraction | None:
        """Return what the rank covers of scores that are all alike: its share of N + 1."""
        rank = self.rank(alpha, sizes)
        return None if rank is None else Fraction(rank[0], sum(sizes) + 1)

    def missing(self, alpha: Fraction, sizes: Counts) -> dict[int, int]:
        """Bring the sites that carry weight up to the same number."""
        if self._all_alike:
            extra = more_in_total(alpha, sum(sizes), len(sizes))
            return {0: extra} if extra else {}
        shares = self._shares(sizes)
        return {k: extra for k, extra in super().missing(alpha, sizes).items() if shares[k]}

    def shortfall(self, alpha: Fraction, sizes: Counts, sites: Sequence[str]) -> str:
        """Say that it does not matter where the scores come from, if it does not."""
        if not self._all_alike:
            return super().shortfall(alpha, sizes, sites)
        return f"calibration scores needed: {self.missing(alpha, sizes)[0]} more in all, at any site"

    def promise(self, sites: Sequence[str]) -> str:
        """Name the mixture."""
        words = {
            "proportional": f"in proportion to {capped_words(self.most_scores)}",
            "uniform": "each site equally likely",
        }
        weights = words[self.weights] if isinstance(self.weights, str) else f"with weights {list(self.weights)}"
        return f"for a test row from the mixture of the sites, {weights}, on average over calibration draws"

    def to_dict(self) -> dict[str, Any]:
        """Describe for JSON."""
        weights = self.weights if isinstance(self.weights, str) else list(self.weights)
        cap = {} if self.most_scores is None else {"most_scores": self.most_scores}
        return {"name": self.name, "weights": weights, **cap}
