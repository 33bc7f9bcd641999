"""The paper's theorem as printed, which pays one row for each site.

Lu, Yu, Karimireddy, Jordan and Raskar, "Federated Conformal Predictors for Distributed Uncertainty Quantification",
ICML 2023, Theorem 1. The theorem's proof conditions on something that is not fixed; comparing with the r-th smallest of
the augmented N + K scores repairs it. "Largest" in the paper means smallest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedconformal.errors import InputError
from fedconformal.guarantees.guarantee import Counts, Guarantee, Terms, WeightedSum, ceil_rank
from fedconformal.guarantees.luck import MissLimit, rank_limit

ONE_THRESHOLD = "fcp is the paper's theorem, which has no thresholds for classes or groups; use mixture"


@dataclass(frozen=True, kw_only=True)
class FCP(WeightedSum):
    """Coverage for a test row from the sites in proportion to n_k + 1, at rank ceil((1 - alpha)(N + K)).

    It holds also where calibration patients are at several sites and the test patient is new. Everywhere else
    `Mixture` promises the same from fewer rows.

    >>> FCP().promised(counts=[9, 4], sizes=[10, 5])  # 13 of N + K = 17
    Fraction(13, 17)
    """

    name = "fcp"
    assumption = (
        "within each site, given the rows of the others, the calibration rows and the test row are exchangeable; or "
        "patients, some of them at several sites, and a test patient who is new everywhere are exchangeable; the test "
        "row's site is drawn in proportion to n_k + 1; the model was not fitted to the calibration rows"
    )
    caveat = (
        "This is not a promise to a single site, class or set size: one that falls below is not a violation "
        "(the guarantee every-site promises it to each site)."
    )
    patients = "no patient, or other source of rows, has more than one calibration row at one site"
    why_not_fractional = "it is the paper's theorem, which is for one threshold of scores"

    @property
    def sites_apart(self) -> bool:
        return False

    def terms(self, sizes: Counts) -> Terms:
        """Return N + K as the whole: one stand-in at +inf for each site."""
        return Terms(None, sum(sizes) + len(sizes))

    def in_class(self, sizes: Counts) -> Guarantee:
        raise InputError(ONE_THRESHOLD)

    def miss_limits(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissLimit]:
        total = sum(sizes)
        rate = rank_limit(ceil_rank(alpha, total + len(sizes)), total, failure)
        return [MissLimit(rate, tuple(Fraction(n, max(1, total)) for n in sizes))]

    def plainly(self, sites: Sequence[str]) -> str:
        return (
            "new cases of all sites together, where a site counts by how many calibration cases it has; "
            "a single site can be below"
        )

    def promise(self, sites: Sequence[str]) -> str:
        return (
            "for a test row from the mixture of the sites, in proportion to n_k + 1, on average over calibration draws"
        )
