"""The theorem of Lu et al. (2023) as printed, with a cost of one row per site (docs/proofs.md).

The printed proof conditions on a quantity that is not fixed; comparison with the r-th smallest of the augmented N + K
scores repairs it. "Largest" in the paper means smallest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedconformal.guarantees.binomial import rank_bound
from fedconformal.guarantees.guarantee import Audience, Counts, MissRateBound, StratumKind, ceil_rank
from fedconformal.guarantees.mixture import BY_CASES, EACH_SITE, WITHIN_SITES, SumTerms, WeightedSum


@dataclass(frozen=True, kw_only=True)
class FCP(WeightedSum):
    """Coverage for a test row from the sites in proportion to n_k + 1, at rank ceil((1 - alpha)(N + K)).

    It also holds if calibration patients have rows at several sites and the test patient is new. Otherwise `Mixture`
    promises the same with fewer rows.

    Examples
    --------
    >>> FCP().promised(counts=[9, 4], sizes=[10, 5])  # 13 of N + K = 17
    Fraction(13, 17)

    References
    ----------
    Lu et al., "Federated conformal predictors for distributed uncertainty quantification", ICML 2023, Theorem 1.
    """

    name = "fcp"
    assumption = (
        f"{WITHIN_SITES}; or patients, some of them at several sites, and a test patient who is new everywhere are "
        "exchangeable"
    )
    excluded = ("site", "class", "set size")
    caveat = EACH_SITE
    patients = "no patient, or other source of rows, has more than one calibration row at one site"
    has_strata = False
    why_not_fractional = "it is the paper's theorem, which is for one threshold of scores"

    @property
    def sites_apart(self) -> bool:
        return False

    def terms(self, sizes: Counts) -> SumTerms:
        """Return N + K as the total: one additional score of +inf per site."""
        return SumTerms(None, sum(sizes) + len(sizes))

    def site_shares(self, sizes: Counts, stratum: StratumKind | None = None) -> tuple[Fraction, ...]:
        whole = max(1, sum(sizes) + len(sizes))
        return tuple(Fraction(n + 1, whole) for n in sizes)

    def miss_rate_bounds(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissRateBound]:
        total = sum(sizes)
        rate = rank_bound(ceil_rank(alpha, total + len(sizes)), total, failure)
        return [MissRateBound(rate, tuple(Fraction(n, max(1, total)) for n in sizes))]

    def audience(self, sites: Sequence[str], stratum: StratumKind | None = None) -> Audience:
        return Audience(
            population="from the mixture of the sites, in proportion to n_k + 1",
            sampling="the test row's site is drawn in proportion to n_k + 1",
            lay_population=f"{BY_CASES}; a single site can do worse",
        )
