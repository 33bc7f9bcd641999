"""A promise that holds for nearly every calibration set, not on average over them.

With probability 1 - failure over the calibration draws, coverage is at least 1 - alpha under the mixture in
proportion to n_k. If the sites are alike, rank r fails with the chance that a binomial count of N rows reaches
r; if they differ, with no more (see binomial.py).
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fedconformal._base.arrays import ALPHA_UNIT, Floats, Integers
from fedconformal.errors import InputError
from fedconformal.guarantees.binomial import (
    DIGITS,
    EXACT_SCORES,
    FLOAT_SCORES,
    MARGIN,
    ROUNDING,
    binomial_tail,
    hoeffding_cap,
)
from fedconformal.guarantees.bounded_mean import means_at_most
from fedconformal.guarantees.guarantee import Counts, Guarantee, Promise, summed

if TYPE_CHECKING:
    from fedconformal.guarantees.luck import MissLimit

COARSE = 10**6
"""Above EXACT_SCORES, coverage is rounded down to a multiple of this many units."""


@dataclass(frozen=True, kw_only=True)
class PAC(Guarantee):
    """Cover at least 1 - alpha of the test rows, except with probability `failure` over the calibration draws.

    Attributes:
        failure: how often the calibration draw may be a bad one.

    >>> PAC(failure=0.05).rank(Fraction(1, 10), sizes=[250, 250])
    (462, 501)
    >>> round(float(PAC(failure=0.05).promised(counts=[230, 232], sizes=[250, 250])), 6)
    0.901572
    """

    name = "pac"
    assumption = (
        "all calibration rows are independent, within and between sites, and each has the law of its site; the "
        "sizes n_k were fixed beforehand; the test row's site is drawn in proportion to n_k; "
        "the model was not fitted to the calibration rows"
    )
    caveat = (
        "This is not a promise to a single site, class or set size: one that falls below is not a violation; "
        "patients that several sites share void it. The promise curve and p-values hold for each alpha by itself, "
        "not for all of them at once."
    )

    fractional = True

    failure: float = 0.05

    def __post_init__(self) -> None:
        try:
            failure = float(str(self.failure))
        except ValueError:
            failure = math.nan
        if isinstance(self.failure, bool) or not 1 / ALPHA_UNIT <= failure < 1:
            raise InputError(f"failure is {self.failure!r}, expected a number between 0 and 1, not below 1e-15")
        object.__setattr__(self, "failure", failure)

    @property
    def spent(self) -> float:
        """How often one threshold, tested by itself, may fail."""
        return self.failure

    @property
    def sites_apart(self) -> bool:
        return False

    @property
    def assumption_in_class(self) -> str:
        """The mixture is another one in every class."""
        return (
            "all calibration rows are independent, within and between sites, and each has the law of its site; "
            "given its class, the test row's site is drawn in proportion to the calibration rows of that class; "
            "the model was not fitted to the calibration rows"
        )

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Return the coverage that this many scores at or below q promise, rounded down to 1e-15."""
        return Fraction(self.units([sum(counts)], sum(sizes))[0], ALPHA_UNIT)

    def promised_many(self, counts: Integers, sizes: Counts) -> list[Fraction]:
        return self.grouped(sizes)[1](summed(counts, None, sum(sizes)))

    def grouped(self, sizes: Counts) -> tuple[None, Promise]:
        """Only the total matters; work out each different one once."""

        def promise(sums: Integers) -> list[Fraction]:
            totals, index = np.unique(sums[0], return_inverse=True)
            units = [Fraction(found, ALPHA_UNIT) for found in self.units(totals.tolist(), sum(sizes))]
            return [units[i] for i in index.tolist()]

        return None, promise

    def rank(self, alpha: Fraction, sizes: Counts) -> tuple[int, int]:
        """Return the smallest rank that promises enough, of N + 1; rank N + 1 is +inf."""
        size, wanted = sum(sizes), (1 - alpha) * ALPHA_UNIT
        low, high = 0, size + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.units([middle], size)[0] >= wanted else (middle, high)
        return high, size + 1

    def at_least(self, alpha: Fraction, sizes: Counts) -> Fraction:
        """Return 1 - alpha: the rank promises no more than that for sure."""
        return 1 - alpha

    def slack(self, gaps: Counts, sizes: Counts) -> Fraction:
        """Return the share of all scores that the summaries may leave uncounted."""
        return Fraction(sum(gaps), max(1, sum(sizes)))

    def of_one_end(self) -> PAC:
        """Let each end fail half as often: both hold but for the failures of either."""
        return replace(self, failure=self.failure / 2)

    def promise_in_class(self, sites: Sequence[str]) -> str:
        """Given all labels, the rows of a class are independent, and their sites are as they came."""
        return (
            "for a test row whose site is drawn in proportion to the calibration rows of its class, "
            f"for each calibration draw but for a share of {self.failure:g} of the draws, each class apart"
        )

    def units(self, ranks: Sequence[int], size: int) -> list[int]:
        """Return the coverage that each rank of `size` scores promises, in units of 1e-15, rounded down."""
        if size <= EXACT_SCORES:
            return [_exact_units(min(rank, size), size, self.spent) for rank in ranks]
        return _safe_units([min(rank, size) for rank in ranks], size, self.spent)

    def grouped_parts(self, sizes: Counts, unit: int) -> tuple[None, Promise]:
        """Bound the mean of what is not kept, as whole rows do not make a rank (see bounded_mean.py)."""
        rows = sum(sizes)

        def promise(sums: Integers) -> list[Fraction]:
            lost = [rows - Fraction(int(kept), unit) for kept in sums[0].tolist()]
            return [1 - mean for mean in means_at_most(rows, lost, self.spent)]

        return None, promise

    def miss_limits(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissLimit]:
        """Return alpha itself if it may fail as often as is promised; else what the same rank promises."""
        from fedconformal.guarantees.luck import MissLimit, rounded_up  # which rests on this file

        rank, total = self.rank(alpha, sizes)[0], sum(sizes)
        rate = 1.0 if rank > total else float(alpha)
        if rank <= total and failure < self.failure:
            rate = rounded_up(1 - replace(self, failure=failure).promised([rank], [total]))
        return [MissLimit(rate, tuple(Fraction(n, max(1, total)) for n in sizes))]

    def plainly(self, sites: Sequence[str]) -> str:
        return (
            "new cases of all sites together, where a site counts by how many calibration cases it has; "
            f"at most {self.failure:.3g} of all calibrations fail to do so, and a single site can be below"
        )

    def promise(self, sites: Sequence[str]) -> str:
        return (
            "for a test row from the mixture of the sites, in proportion to n_k, "
            f"for each calibration draw but for a share of {self.failure:g} of the draws"
        )


@lru_cache(maxsize=2**16)
def _exact_units(rank: int, size: int, failure: float) -> int:
    """Return the largest coverage c, in units, with P(Bin(size, c) >= rank) <= failure and c below the cap."""
    cap, allowed = hoeffding_cap(rank, size), Decimal(repr(failure))
    if not cap or _holds(rank, size, cap, allowed):
        return cap
    start = _all_below(size, allowed) if rank == size else _root(rank, size, cap, failure)
    low, high, step = 0, cap, 1  # it holds at the one, not at the other
    while high - low > 1:  # from the start by ever longer steps, then by halves: the answer needs no good start
        middle = start if low < start < high else (low + high) // 2
        low, high = (middle, high) if _holds(rank, size, middle, allowed) else (low, middle)
        start, step = middle + (step if middle == low else -step), 2 * step
    return low


def _holds(rank: int, size: int, units: int, allowed: Decimal) -> bool:
    """Whether P(Bin(size, c) >= rank) <= allowed; in whole numbers where decimals are too close to tell."""
    tail = binomial_tail(rank, size, units)[0]
    if abs(tail - allowed) > 4 * ROUNDING * allowed:
        return tail <= allowed
    others = ALPHA_UNIT - units
    whole = sum(math.comb(size, j) * units**j * others ** (size - j) for j in range(rank, size + 1))
    return bool(whole <= Fraction(allowed) * ALPHA_UNIT**size)


def _root(rank: int, size: int, cap: int, failure: float) -> int:
    """Solve P(Bin(size, c) >= rank) = failure: scipy is right to about 1e-13, and one Newton step does the rest."""
    units = max(1, min(cap, math.floor(float(_inverse_tail([rank], size, failure)[0]) * ALPHA_UNIT)))
    tail, slope = binomial_tail(rank, size, units)
    with decimal.localcontext(DIGITS):
        return units + math.floor((Decimal(repr(failure)) - tail) / slope)


def _all_below(size: int, allowed: Decimal) -> int:
    """Solve c ** size <= allowed, in units, rounded down."""
    with decimal.localcontext(decimal.Context(prec=60)):
        return math.floor((allowed.ln() / size).exp() * (1 - ROUNDING) * ALPHA_UNIT)


def _safe_units(ranks: Sequence[int], size: int, failure: float) -> list[int]:
    """Return coverages in units, rounded outward: a little of `failure` and of the coverage is given away."""
    from scipy.special import betainc

    inner = [rank for rank in ranks if 0 < rank < size]
    r = np.array(inner, dtype=np.float64)
    grid = ALPHA_UNIT // COARSE
    # P(Bin(n, c) >= r) <= exp(-2n(r/n - c)^2), should scipy be further off than the margin.
    coarse = np.maximum(0, np.floor((r / size - math.sqrt(-math.log(failure) / (2 * size)) - MARGIN) * grid))
    if size <= FLOAT_SCORES:
        fine = np.floor(_inverse_tail(inner, size, failure * (1 - MARGIN)) * grid)
        checked = betainc(r, size - r + 1, fine / grid) <= failure * (1 - MARGIN / 10)
        coarse = np.where(checked, fine, coarse)
    found = dict(zip(inner, coarse.astype(np.int64).tolist(), strict=True))
    units = {rank: min(hoeffding_cap(rank, size), coarse * COARSE) for rank, coarse in found.items()}
    units[0] = 0
    if size in ranks:
        units[size] = min(hoeffding_cap(size, size), _all_below(size, Decimal(repr(failure))))
    return [units[rank] for rank in ranks]


def _inverse_tail(ranks: Sequence[int], size: int, failure: float) -> Floats:
    # P(Bin(n, c) >= r) is the incomplete beta function I_c(r, n - r + 1).
    from scipy.special import betaincinv

    r = np.array(ranks, dtype=np.float64)
    found: Floats = np.nan_to_num(np.asarray(betaincinv(r, size - r + 1, failure), dtype=np.float64))
    return found
