"""Coverage for a mixture of the sites, without a price for the number of sites (docs/proofs.md).

Every calibration row of site k weighs v_k = lambda_k / n_k, and the price is max v: the test row swaps places with a
calibration row of its own site. The proof of Lu et al. (2023), with weights lambda_k / (n_k + 1), has the price sum
lambda_k / (n_k + 1), which is smaller for a single site and for shares concentrated on tiny sites. The smaller price
is used; it follows from the sizes alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np

from fedconformal.errors import InputError
from fedconformal.guarantees.binomial import rank_bound, shares_bound
from fedconformal.guarantees.guarantee import (
    Audience,
    Band,
    Counts,
    Guarantee,
    MissRateBound,
    Stratum,
    as_decimal,
    check_whole,
)
from fedconformal.guarantees.weighted_sum import StratumShare, Terms, WeightedSum, weighed

WITHIN_SITES = "within each site, given the rows of the others, the calibration rows and the test row are exchangeable"
EACH_SITE = "The guarantee every-site promises it to each site."
WEIGHT_TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Mixture(WeightedSum):
    """Coverage for a test row from the pooled population of all sites.

    The test row belongs to site k with probability n_k / N unless weights are given. Rows are assumed exchangeable
    within each site, given the rows of the other sites; nothing else is assumed about how sites differ.

    Parameters
    ----------
    weights
        Site weights: "rows" (n_k / N), "uniform", or one weight per site, in the order of the summaries.
    most_scores
        A site that claims more scores weighs as one that has this many. Fixed beforehand, it bounds the influence of a
        site that claims a million scores.

    Examples
    --------
    >>> Mixture().promised(counts=[9, 4], sizes=[10, 5])
    Fraction(4, 5)
    >>> Mixture(weights="uniform").promised(counts=[10, 4], sizes=[10, 5])
    Fraction(4, 5)
    >>> Mixture(most_scores=5).promised(counts=[10, 4], sizes=[10, 5])
    Fraction(4, 5)

    References
    ----------
    Lu et al., "Federated conformal predictors for distributed uncertainty quantification", ICML 2023.
    Bhattacharyya and Barber, "Group-weighted conformal prediction", 2024.
    """

    name = "mixture"
    assumption = WITHIN_SITES
    excluded = ("site", "class", "set size")
    caveat = EACH_SITE
    fractional = True

    weights: str | Sequence[float] = "rows"
    most_scores: int | None = None

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        weights: list[Sequence[float]] = [(0.5, 0.3, 0.2), (0.0, 1.0, 0.0)]
        return cls(), cls(weights="uniform"), *(cls(weights=given) for given in weights), cls(most_scores=20)

    def __post_init__(self) -> None:
        if self.most_scores is not None:
            check_whole(self.most_scores, "most_scores")
            if not isinstance(self.weights, str) or self.weights != "rows":
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

    def bind(self, sites: Sequence[str], sizes: Counts, stratum: Stratum | None = None) -> Guarantee:
        """Weigh a stratum as all rows; its price is the largest weight at any site, whether it holds rows of it or not.

        All rows of a site that sent none may be of the stratum.
        """
        if not isinstance(self.weights, str) and len(self.weights) != len(sizes):
            raise InputError(f"weights: {len(self.weights)} were given for {len(sizes)} sites")
        if stratum in (None, "end"):
            return self
        weights, _, price = self.terms(sizes)
        if weights is None:
            return StratumShare(price=price, more=1 - price)
        common = math.gcd(*weights) or 1
        parts = tuple(weight // common for weight in weights)
        unseen = [part for part, n in zip(parts, sizes, strict=True) if not (price and n)]
        return StratumShare(weights=parts, price=price // common, more=sum(unseen))

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

    def site_shares(self, sizes: Counts, stratum: Stratum | None = None) -> tuple[Fraction, ...]:
        """Return lambda_k of every site."""
        parts = self.parts(sizes)
        whole = max(1, sum(parts))
        return tuple(Fraction(part, whole) for part in parts)

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        """Return the upper bound for distinct scores, plus the slack; rows of a site that sent none may be covered."""
        found = super().band(alpha, sizes, gaps)
        if not self.sites_apart:
            return found
        terms = self.terms(sizes)
        above = 2 * terms.price + weighed(terms.weights, [int(not (terms.price and n)) for n in sizes])
        most = 1 - alpha + Fraction(above, max(1, terms.whole)) + found.slack
        return found._replace(most=min(Fraction(1), most))

    def miss_rate_bounds(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissRateBound]:
        shares, rank = self.site_shares(sizes), self.rank(alpha, sizes)
        if rank is None:
            return [MissRateBound(shares_bound(alpha, sizes, shares, failure), shares)]
        return [MissRateBound(rank_bound(rank[0], sum(sizes), failure), shares)]

    def audience(self, sites: Sequence[str], stratum: Stratum | None = None) -> Audience:
        weights, lay = f"with weights {list(self.weights)}", "each site counts as much as was agreed"
        if self.weights == "rows":
            weights, lay = in_proportion(self.most_scores), "a site counts by how many calibration cases it has"
        elif self.weights == "uniform":
            weights, lay = "each site equally likely", "each site counts the same"
        return Audience(
            population=f"from the mixture of the sites, {weights}",
            sampling="the test row's site is drawn with the stated weights",
            lay_population=f"new cases of all sites together, where {lay}; a single site can be below",
        )


def in_proportion(most_scores: int | None) -> str:
    """Return the weights by rows as a phrase.

    >>> in_proportion(500)
    'in proportion to n_k (counted up to 500)'
    """
    return f"in proportion to n_k{'' if most_scores is None else f' (counted up to {most_scores})'}"


def _swap_is_cheaper(parts: Counts, sizes: Counts) -> bool:
    """Compare the price of a swap, max lambda_k / n_k, with the paper's, sum lambda_k / (n_k + 1); a tie is a swap.

    A site without rows is promised nothing by either.

    >>> _swap_is_cheaper([1, 1], [1, 1]), _swap_is_cheaper([9], [9]), _swap_is_cheaper([1] * 6, [1] + [200] * 5)
    (True, False, False)
    """
    pairs = Counter((part, n) for part, n in zip(parts, sizes, strict=True) if n)
    largest = max((Fraction(part, n) for part, n in pairs), default=Fraction(0))
    return largest <= sum(times * Fraction(part, n + 1) for (part, n), times in pairs.items())
