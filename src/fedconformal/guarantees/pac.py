"""Coverage, or a limit on a risk, with high probability over calibration sets, not on average (docs/proofs.md)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

from fedconformal._base.arrays import ALPHA_UNIT, Integers
from fedconformal.errors import InputError
from fedconformal.guarantees.binomial import coverage_units, means_at_most, rank_bound
from fedconformal.guarantees.guarantee import (
    Audience,
    Band,
    Counts,
    Guarantee,
    MissRateBound,
    PromiseFunction,
    StratumKind,
    ceil_rank,
    check_whole,
    checked_share,
)
from fedconformal.guarantees.mixture import BY_CASES

MOST_WALKS = 2**14


@dataclass(frozen=True, kw_only=True)
class PAC(Guarantee):
    """Coverage for the mixture of the sites, except with probability `failure` over the calibration draws.

    Parameters
    ----------
    failure
        Maximum probability, over calibration draws, of a coverage below 1 - alpha.

    Examples
    --------
    >>> PAC(failure=0.05).rank(Fraction(1, 10), sizes=[250, 250])
    (462, 501)
    >>> round(float(PAC(failure=0.05).promised(counts=[230, 232], sizes=[250, 250])), 6)
    0.901572

    References
    ----------
    Vovk, "Conditional validity of inductive conformal predictors", 2012.
    Hoeffding, "On the distribution of the number of successes in independent trials", 1956.
    """

    name = "pac"
    assumption = "all calibration rows are independent, within and between sites, and each has the law of its site"
    excluded = ("site", "class", "set size")
    caveat = (
        "Patients that several sites share void it. The promise curve and p-values hold for each alpha by itself, "
        "not for all of them at once."
    )
    fractional = True

    failure: float = 0.05

    def __post_init__(self) -> None:
        failure = checked_share(self.failure, "failure")
        if not 1 / ALPHA_UNIT <= failure < 1:
            raise InputError(f"failure is {self.failure!r}, expected a number between 0 and 1, not below 1e-15")
        object.__setattr__(self, "failure", failure)

    @property
    def spent(self) -> float:
        """Failure probability of a single threshold."""
        return self.failure

    @property
    def sites_apart(self) -> bool:
        return False

    def bind(self, sites: Sequence[str], sizes: Counts, stratum: StratumKind | None = None) -> Self:
        """Halve the failure probability for each end of an interval (union bound)."""
        return replace(self, failure=self.failure / 2) if stratum == "end" else self

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Return the coverage promised by these counts at or below q, rounded down to 1e-15."""
        return Fraction(coverage_units([sum(counts)], sum(sizes), self.spent)[0], ALPHA_UNIT)

    def grouped(self, sizes: Counts, unit: int | None = None) -> tuple[None, PromiseFunction]:
        """Pool all sites; fractional counts have no rank, so the mean loss is bounded instead."""
        rows = sum(sizes)

        def promise(sums: Integers) -> list[Fraction]:
            if unit is not None:
                lost = [rows - Fraction(int(kept), unit) for kept in sums[0].tolist()]
                return [1 - mean for mean in means_at_most(rows, lost, self.spent)]
            return [Fraction(units, ALPHA_UNIT) for units in coverage_units(sums[0].tolist(), rows, self.spent)]

        return None, promise

    def rank(self, alpha: Fraction, sizes: Counts) -> tuple[int, int]:
        """Return the smallest sufficient rank, of N + 1; rank N + 1 is +inf."""
        size, wanted = sum(sizes), ceil_rank(alpha, ALPHA_UNIT)
        rank = bisect_left(range(size + 1), wanted, key=lambda rank: coverage_units([rank], size, self.spent)[0])
        return rank, size + 1

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        """Return 1 - alpha as the promise of the rank, and the share of uncertain counts as slack."""
        slack = Fraction(sum(gaps or ()), max(1, sum(sizes)))
        return Band(1 - alpha, Fraction(1), slack, *self.rank(alpha, sizes))

    def miss_rate_bounds(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissRateBound]:
        """Return alpha if `failure` is at least the promised failure probability; otherwise the bound of the rank."""
        rank, total = self.rank(alpha, sizes)[0], sum(sizes)
        holds = rank <= total and failure >= self.failure
        rate = float(alpha) if holds else rank_bound(rank, total, replace(self, failure=failure).spent)
        return [MissRateBound(rate, self.site_shares(sizes))]

    def site_shares(self, sizes: Counts, stratum: StratumKind | None = None) -> tuple[Fraction, ...] | None:
        """Return n_k / N; None for a stratum, as every stratum has a different mixture."""
        return None if stratum else tuple(Fraction(n, max(1, sum(sizes))) for n in sizes)

    def audience(self, sites: Sequence[str], stratum: StratumKind | None = None) -> Audience:
        population = "from the mixture of the sites, in proportion to n_k"
        sampling = "the sizes n_k were fixed beforehand; the test row's site is drawn in proportion to n_k"
        if stratum is not None:
            drawn = "drawn in proportion to the calibration rows of"
            population = f"whose site is {drawn} its {stratum}"
            sampling = f"given its {stratum}, the test row's site is {drawn} that {stratum}"
        return Audience(
            population=population,
            sampling=sampling,
            failure=self.failure,
            lay_population=(
                f"{BY_CASES}; at most {self.failure:.3g} of all calibrations fail to do so, and a single site can be "
                "below"
            ),
        )


@dataclass(frozen=True, kw_only=True)
class LearnThenTest(PAC):
    """A limit on the risk, except with probability `failure`; losses may rise along the grid.

    For each threshold, the null hypothesis of a risk above the limit has a Hoeffding-Bentkus p-value. The promise holds
    simultaneously for all rejected thresholds. With one walk this is fixed-sequence testing; with one walk per
    threshold it is the Bonferroni correction.

    Parameters
    ----------
    failure
        Maximum probability, over calibration draws, of a risk above the limit.
    walks
        Number of parts of the grid, of equal length and with equal shares of `failure`; each is tested from its safest
        threshold down.

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
        check_whole(self.walks, "walks", most=MOST_WALKS)

    @property
    def spent(self) -> float:
        """The failure probability of one walk, rounded down."""
        part = self.failure / self.walks
        return part if part * self.walks <= self.failure else math.nextafter(part, 0)
