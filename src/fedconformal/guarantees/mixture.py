"""Coverage for a mixture of the sites, with a cost that does not depend on the number of sites (docs/proofs.md).

A weighted sum of counts promises (sum w_k m_k - price) / whole, in integers; `Mixture`, `FCP` and `NewSite` differ in
these three terms. The price of `Mixture` is max lambda_k / n_k, or that of Lu et al. (2023), sum lambda_k / (n_k + 1),
for a single site and for shares concentrated on tiny sites: the smaller one, a function of the sizes only.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Self

import numpy as np

from fedconformal._base.arrays import Integers
from fedconformal.errors import InputError
from fedconformal.guarantees.binomial import rank_bound, shares_bound
from fedconformal.guarantees.guarantee import (
    Audience,
    Band,
    Counts,
    Guarantee,
    MissRateBound,
    PromiseFunction,
    Shortfall,
    StratumKind,
    as_decimal,
    ceil_rank,
    check_unit,
    checked_shares,
    missing_scores,
)

WITHIN_SITES = "within each site, given the rows of the others, the calibration rows and the test row are exchangeable"
EACH_SITE = "The guarantee every-site promises it to each site."
ALL_SITES = "new cases of all sites together, where"
BY_CASES = f"{ALL_SITES} a site counts by how many calibration cases it has"
WEIGHT_TOLERANCE = 1e-6
Weights = Sequence[int] | None
"""The weight of a score of each site; None if all weights are one."""


class SumTerms(NamedTuple):
    """The integers of a weighted sum of counts."""

    weights: Weights
    whole: int
    price: int = 0

    def share(self, total: int, unit: int = 1) -> Fraction:
        """Return the coverage promised by a weighted sum, where `unit` counts make one row."""
        return Fraction(max(0, total - self.price * unit), max(1, self.whole) * unit)


@dataclass(frozen=True, kw_only=True)
class WeightedSum(Guarantee):
    """Base class of promises (sum w_k m_k - price) / whole: with equal weights, ranks of the pooled scores."""

    @abstractmethod
    def terms(self, sizes: Counts) -> SumTerms:
        """Return the weight of a score of each site, the whole and the price."""

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        terms = self.terms(sizes)
        return terms.share(weighed(terms.weights, counts))

    def grouped(self, sizes: Counts, unit: int | None = None) -> tuple[Integers | None, PromiseFunction]:
        """Group sites with equal weights; the returned function holds neither the sizes nor the weights of sites."""
        check_unit(self, unit)
        weights, whole, price = self.terms(sizes)
        terms, distinct = SumTerms(None, whole, price), list(dict.fromkeys(weights or [1]))

        def promise(sums: Integers) -> list[Fraction]:
            totals = np.array(distinct, dtype=object) @ sums.astype(object)
            return [terms.share(total, unit or 1) for total in totals.tolist()]

        if weights is None:
            return None, promise
        number = {weight: i for i, weight in enumerate(distinct)}
        return np.array([number[weight] for weight in weights], dtype=np.int64), promise

    def rank(self, alpha: Fraction, sizes: Counts) -> tuple[int, int] | None:
        """Return the smallest sufficient rank of the pooled scores, and the whole; None if weights differ."""
        if self.sites_apart:
            return None
        _, whole, price = self.terms(sizes)
        return ceil_rank(alpha, whole) + price, whole

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        """Return the share of the rank; at most, all but one of the additional scores of +inf are below it."""
        gaps, terms, rank = gaps or [0] * len(sizes), self.terms(sizes), self.rank(alpha, sizes)
        slack = Fraction(weighed(terms.weights, gaps), max(1, terms.whole))
        if rank is None:
            return Band(1 - alpha, Fraction(1), slack)
        stand_ins = max(1, rank[1] - sum(sizes))
        most = min(Fraction(1), Fraction(rank[0] + stand_ins - 1 + sum(gaps), max(1, rank[1])))
        return Band(terms.share(rank[0]), most, slack, *rank)

    def missing(self, alpha: Fraction, sizes: Counts) -> Shortfall:
        """Return the missing scores at the sites with a positive weight."""
        weights = self.terms(sizes).weights
        places = [k for k in range(len(sizes)) if weights is None or weights[k]]
        return missing_scores(self, alpha, sizes, places)


def weighed(weights: Weights, counts: Counts) -> int:
    """Return the weighted sum of counts."""
    return sum(counts) if weights is None else sum(w * m for w, m in zip(weights, counts, strict=True))


@dataclass(frozen=True, kw_only=True)
class StratumShare(WeightedSum):
    """The form of a weighted sum for one class or group: (sum w_k m_kc - price) / (sum w_k n_kc + more).

    The weights are those of all rows of a site, and do not depend on the stratum. One of two proofs applies: with a
    `price`, the largest weight of any row, or with `more`, the weight of unseen rows.
    """

    weights: tuple[int, ...] | None = None
    more: int = 0
    price: int = 0

    @property
    def sites_apart(self) -> bool:
        return self.weights is not None

    def terms(self, sizes: Counts) -> SumTerms:
        return SumTerms(self.weights, weighed(self.weights, sizes) + self.more, self.price)

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        """Return 1 - alpha and no upper bound: the number of rows of the stratum is part of the draw."""
        return super().band(alpha, sizes, gaps)._replace(least=1 - alpha, most=Fraction(1))

    def miss_rate_bounds(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissRateBound]:
        """Bound the miss rate of the stratum, with sites in proportion to its calibration rows, given all labels."""
        rank = self.rank(alpha, sizes)
        return [] if rank is None else [MissRateBound(rank_bound(rank[0], sum(sizes), failure))]

    def audience(self, sites: Sequence[str], stratum: StratumKind | None = None) -> Audience:
        return Audience(population="of one stratum")


@dataclass(frozen=True, kw_only=True)
class Mixture(WeightedSum):
    """Coverage for a test row from the pooled population of all sites.

    The test row belongs to site k with probability n_k / N unless weights are given. Rows are assumed exchangeable
    within each site, given the rows of the other sites; nothing else is assumed about how sites differ.

    Parameters
    ----------
    weights
        Site weights: "rows" (n_k / N), "uniform", or one weight per site, in the order of the summaries.

    Examples
    --------
    >>> Mixture().promised(counts=[9, 4], sizes=[10, 5])
    Fraction(4, 5)
    >>> Mixture(weights="uniform").promised(counts=[10, 4], sizes=[10, 5])
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

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        weights: list[Sequence[float]] = [(0.5, 0.3, 0.2), (0.0, 1.0, 0.0)]
        return cls(), cls(weights="uniform"), *(cls(weights=each) for each in weights)

    def __post_init__(self) -> None:
        if isinstance(self.weights, str):
            if self.weights not in ("rows", "uniform"):
                raise InputError(f"weights is {self.weights!r}, expected 'rows', 'uniform' or numbers")
            return
        weights = None if isinstance(self.weights, Mapping) else checked_shares(self.weights, "weights")
        if not isinstance(weights, tuple) or abs(sum(weights) - 1) > WEIGHT_TOLERANCE:
            raise InputError("weights: expected one number a site, in the order of the summaries, which sum to 1")
        object.__setattr__(self, "weights", weights)

    @property
    def sites_apart(self) -> bool:
        """Only weights by rows give all scores equal weight."""
        return self.weights != "rows"

    def bind(self, sites: Sequence[str], sizes: Counts, stratum: StratumKind | None = None) -> Guarantee:
        """Return the form of a stratum, with the weights of all rows and the largest weight of any site as price.

        All rows of a site without calibration rows may belong to the stratum.
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

    def terms(self, sizes: Counts) -> SumTerms:
        """Return weights lambda_k / n_k with the largest as price, or lambda_k / (n_k + 1) without a price."""
        if not self.sites_apart:
            alone = sum(map(bool, sizes)) == 1
            return SumTerms(None, sum(sizes) + 1) if alone else SumTerms(None, sum(sizes), 1)
        parts = self.parts(sizes)
        swapped = _swap_is_cheaper(parts, sizes)
        rows = [max(n, 1) if swapped else n + 1 for n in sizes]
        whole = math.lcm(*set(rows))
        of_one = {pair: pair[0] * (whole // pair[1]) for pair in zip(parts, rows, strict=True)}
        weights = [of_one[pair] for pair in zip(parts, rows, strict=True)]
        price = max((weight for weight, n in zip(weights, sizes, strict=True) if n), default=0)
        return SumTerms(weights, whole * sum(parts), price if swapped else 0)

    def parts(self, sizes: Counts) -> Sequence[int]:
        """Return integer weights of the sites; lambda_k is the share of their sum."""
        if self.weights == "uniform":
            return [1] * len(sizes)
        if isinstance(self.weights, str):
            return sizes
        exact = [as_decimal(weight) for weight in self.weights]
        whole = math.lcm(*(weight.denominator for weight in exact))
        return [int(weight * whole) for weight in exact]

    def site_shares(self, sizes: Counts, stratum: StratumKind | None = None) -> tuple[Fraction, ...]:
        parts = self.parts(sizes)
        whole = max(1, sum(parts))
        return tuple(Fraction(part, whole) for part in parts)

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        """Return the upper bound for distinct scores, plus the slack; rows of sites without scores may be covered."""
        band = super().band(alpha, sizes, gaps)
        if not self.sites_apart:
            return band
        terms = self.terms(sizes)
        above = 2 * terms.price + weighed(terms.weights, [int(not (terms.price and n)) for n in sizes])
        most = 1 - alpha + Fraction(above, max(1, terms.whole)) + band.slack
        return band._replace(most=min(Fraction(1), most))

    def miss_rate_bounds(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissRateBound]:
        shares, rank = self.site_shares(sizes), self.rank(alpha, sizes)
        if rank is None:
            return [MissRateBound(shares_bound(alpha, sizes, shares, failure), shares)]
        return [MissRateBound(rank_bound(rank[0], sum(sizes), failure), shares)]

    def audience(self, sites: Sequence[str], stratum: StratumKind | None = None) -> Audience:
        weights, lay = f"with weights {list(self.weights)}", f"{ALL_SITES} each site counts as much as was agreed"
        if self.weights == "rows":
            weights, lay = "in proportion to n_k", BY_CASES
        elif self.weights == "uniform":
            weights, lay = "each site equally likely", f"{ALL_SITES} each site counts the same"
        return Audience(
            population=f"from the mixture of the sites, {weights}",
            sampling="the test row's site is drawn with the stated weights",
            lay_population=f"{lay}; a single site can do worse",
        )


def _swap_is_cheaper(parts: Counts, sizes: Counts) -> bool:
    """Whether max lambda_k / n_k is at most sum lambda_k / (n_k + 1), over the sites with rows."""
    pairs = Counter(zip(parts, sizes, strict=True))
    largest = max((Fraction(part, n) for part, n in pairs if n), default=Fraction(0))
    return largest <= sum(times * Fraction(part, n + 1) for (part, n), times in pairs.items() if n)
