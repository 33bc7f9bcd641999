"""A promise to a test row from a mixture of the sites, without a price for the number of sites.

Give every calibration row of site k the weight v_k = lambda_k / n_k, and let q be the smallest value at which the
weights of scores <= q add up to 1 - alpha + max v. Swapping the test row with a calibration row of its own site leaves
the law as it is, so coverage is at least 1 - alpha (docs/proofs.md). With lambda_k = n_k / N the threshold is the score
of rank ceil((1 - alpha) N) + 1, for any number of sites. In the same spirit: Bhattacharyya and Barber, "Group-weighted
conformal prediction", 2024.

Theorem 1 of Lu et al., 2023, has another proof, with weights lambda_k / (n_k + 1) and a test row at +inf in each site:
the price is sum lambda_k / (n_k + 1). It is smaller for a single site, and for shares that are concentrated on tiny
sites. The smaller price is used; it follows from the sizes alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from fedconformal._base.names import shown
from fedconformal.errors import InputError
from fedconformal.guarantees.class_share import ClassShare
from fedconformal.guarantees.guarantee import Counts, Guarantee, Terms, WeightedSum, as_decimal, weighed
from fedconformal.guarantees.luck import MissLimit, rank_limit, shares_limit
from fedconformal.guarantees.planning import counting

WEIGHT_TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Mixture(WeightedSum):
    """Coverage for a test row from the pooled population of all sites.

    The test row belongs to site k with probability n_k / N unless weights are given. Rows are assumed exchangeable
    within each site, given the rows of the other sites; nothing else is assumed about how sites differ.

    Attributes:
        weights: "rows" (n_k / N), "uniform", or one weight per site, in the order of the summaries.
        most_scores: a site that claims more scores weighs as one that has this many. Fixed beforehand, it bounds the
            influence of a site that claims a million scores.

    >>> Mixture().promised(counts=[9, 4], sizes=[10, 5])
    Fraction(4, 5)
    >>> Mixture().promised(counts=[9], sizes=[9])
    Fraction(9, 10)
    >>> Mixture(weights="uniform").promised(counts=[10, 4], sizes=[10, 5])
    Fraction(4, 5)
    >>> Mixture(most_scores=5).promised(counts=[10, 4], sizes=[10, 5])
    Fraction(4, 5)
    """

    name = "mixture"
    assumption = (
        "within each site, given the rows of the others, the calibration rows and the test row are exchangeable; "
        "the test row's site is drawn with the stated weights; "
        "the model was not fitted to the calibration rows"
    )
    caveat = (
        "This is not a promise to a single site, class or set size: one that falls below is not a violation "
        "(the guarantee every-site promises it to each site)."
    )

    fractional = True

    weights: str | Sequence[float] = "rows"
    most_scores: int | None = None

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        weights: list[Sequence[float]] = [(0.5, 0.3, 0.2), (0.0, 1.0, 0.0)]
        return cls(), cls(weights="uniform"), *(cls(weights=given) for given in weights), cls(most_scores=20)

    def __post_init__(self) -> None:
        as_number_of_scores(self.most_scores, "most_scores")
        if self.most_scores is not None and not (isinstance(self.weights, str) and self.weights == "rows"):
            raise InputError("most_scores goes with weights 'rows': others do not depend on the sizes")
        if isinstance(self.weights, str):
            if self.weights not in ("rows", "uniform"):
                raise InputError(f"weights is {self.weights!r}, expected 'rows', 'uniform' or numbers")
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
        """Only weights by rows without a cap weigh all scores alike."""
        return self.weights != "rows" or self.most_scores is not None

    def bind(self, sites: Sequence[str], sizes: Counts) -> Guarantee:
        if not isinstance(self.weights, str) and len(self.weights) != len(sizes):
            raise InputError(f"weights: {len(self.weights)} were given for {len(sizes)} sites")
        return self

    def in_class(self, sizes: Counts) -> Guarantee:
        """Weigh as for all rows; the price is the largest weight at any site, whether it holds the class or not.

        All rows of a site that sent none may be of the class.
        """
        weights, _, price = self.terms(sizes)
        if weights is None:
            return ClassShare(price=price, more=1 - price)
        common = math.gcd(*weights) or 1
        parts = tuple(weight // common for weight in weights)
        unseen = [part for part, n in zip(parts, sizes, strict=True) if not (price and n)]
        return ClassShare(weights=parts, price=price // common, more=sum(unseen))

    def terms(self, sizes: Counts) -> Terms:
        """Return weights lambda_k / n_k with the largest as price, or lambda_k / (n_k + 1) without one."""
        parts = self.parts(sizes)
        swapped = _swap_is_cheaper(parts, sizes)
        if not self.sites_apart:
            return Terms(None, sum(sizes), 1) if swapped else Terms(None, sum(sizes) + 1)
        rows = [max(n, 1) if swapped else n + 1 for n in sizes]
        whole = math.lcm(*set(rows))
        of_one = {pair: pair[0] * (whole // pair[1]) for pair in zip(parts, rows, strict=True)}
        weights = [of_one[pair] for pair in zip(parts, rows, strict=True)]
        price = max((weight for weight, n in zip(weights, sizes, strict=True) if n), default=0)
        return Terms(weights, whole * sum(parts), price if swapped else 0)

    def parts(self, sizes: Counts) -> Sequence[int]:
        """Return the weight of every site as a whole number; lambda_k is its share of their sum."""
        if self.weights == "uniform":
            return [1] * len(sizes)
        if isinstance(self.weights, str):
            return [min(n, self.most_scores or n) for n in sizes]
        exact = [as_decimal(weight) for weight in self.weights]
        whole = math.lcm(*(weight.denominator for weight in exact))
        return [int(weight * whole) for weight in exact]

    def shares(self, sizes: Counts) -> tuple[Fraction, ...]:
        """Return lambda_k of every site."""
        parts = self.parts(sizes)
        whole = max(1, sum(parts))
        return tuple(Fraction(part, whole) for part in parts)

    def at_most(self, alpha: Fraction, sizes: Counts, gaps: Counts) -> Fraction:
        """Return the upper end for distinct scores, plus what the summaries may cost.

        Rows of a site that sent none may all be covered.
        """
        if not self.sites_apart:
            return super().at_most(alpha, sizes, gaps)
        terms = self.terms(sizes)
        above = 2 * terms.price + weighed(terms.weights, [int(not (terms.price and n)) for n in sizes])
        return min(Fraction(1), 1 - alpha + Fraction(above, max(1, terms.whole)) + self.slack(gaps, sizes))

    def miss_limits(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissLimit]:
        shares, rank = self.shares(sizes), self.rank(alpha, sizes)
        if rank is None:
            return [MissLimit(shares_limit(alpha, sizes, shares, failure), shares)]
        return [MissLimit(rank_limit(rank[0], sum(sizes), failure), shares)]

    def plainly(self, sites: Sequence[str]) -> str:
        if not isinstance(self.weights, str):
            counts = "each site counts as much as was agreed"
        elif self.weights == "uniform":
            counts = "each site counts the same"
        else:
            counts = "a site counts by how many calibration cases it has"
        return f"new cases of all sites together, where {counts}; a single site can be below"

    def promise(self, sites: Sequence[str]) -> str:
        words = {
            "rows": f"in proportion to {capped_words(self.most_scores)}",
            "uniform": "each site equally likely",
        }
        weights = words[self.weights] if isinstance(self.weights, str) else f"with weights {list(self.weights)}"
        return f"for a test row from the mixture of the sites, {weights}, on average over calibration draws"

    def to_dict(self) -> dict[str, Any]:
        weights = self.weights if isinstance(self.weights, str) else list(self.weights)
        cap = {} if self.most_scores is None else {"most_scores": self.most_scores}
        return {"name": self.name, "weights": weights, **cap}


@counting.register
def _(guarantee: Mixture, sizes: Counts) -> Sequence[int]:
    return [k for k, part in enumerate(guarantee.parts(sizes)) if part]


def is_whole(value: Any) -> bool:
    """Whether this is a whole number, and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def as_number_of_scores(value: Any, name: str) -> None:
    """Check a number of scores that is fixed beforehand, where one is given."""
    if value is not None and (not is_whole(value) or value < 1):
        raise InputError(f"{name} is {shown(value)}, expected a whole number, at least 1")


def capped_words(most_scores: int | None) -> str:
    """Say what a site weighs in proportion.

    >>> capped_words(500)
    'n_k (counted up to 500)'
    """
    return "n_k" if most_scores is None else f"n_k (counted up to {most_scores})"


def _swap_is_cheaper(parts: Counts, sizes: Counts) -> bool:
    """Compare the price of a swap, max lambda_k / n_k, with the paper's, sum lambda_k / (n_k + 1); a tie is a swap.

    A site without rows is promised nothing by either.

    >>> _swap_is_cheaper([1, 1], [1, 1]), _swap_is_cheaper([9], [9]), _swap_is_cheaper([1] * 6, [1] + [200] * 5)
    (True, False, False)
    """
    pairs = Counter((part, n) for part, n in zip(parts, sizes, strict=True) if n)
    largest = max((Fraction(part, n) for part, n in pairs), default=Fraction(0))
    return largest <= sum(times * Fraction(part, n + 1) for (part, n), times in pairs.items())
