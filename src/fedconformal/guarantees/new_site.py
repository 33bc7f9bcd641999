"""Coverage for an unseen site from the same population of sites (docs/proofs.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedconformal.guarantees.guarantee import Audience, Band, Counts, Shortfall, StratumKind
from fedconformal.guarantees.mixture import SumTerms, WeightedSum


@dataclass(frozen=True, kw_only=True)
class NewSite(WeightedSum):
    """Coverage for a test row of an unseen site from the same population of sites.

    It needs 1 / alpha - 1 sites, of any sizes, and a model that was not trained on any of them.

    Examples
    --------
    >>> NewSite().promised(counts=[3, 2, 3], sizes=[3, 3, 3])
    Fraction(2, 3)
    >>> NewSite().missing(Fraction(1, 10), [50] * 4).sites
    5

    References
    ----------
    Lee, Barber and Willett, "Distribution-free inference with hierarchical data", 2023.
    Dunn, Wasserman and Ramdas, "Distribution-free prediction sets for two-layer hierarchical models", 2022.
    """

    name = "new-site"
    assumption = (
        "the sites and the next one, with their numbers of rows, are exchangeable draws from one population, and rows "
        "are exchangeable within each; whether a site takes part has nothing to do with its scores"
    )
    caveat = (
        "This is an average over fresh sites and calibration draws, not a promise to each fresh site; "
        "a model that was trained on the calibration sites voids it."
    )
    why_no_bound = "rows of these sites do not show how the next one differs"
    has_strata = False
    fractional = True
    untrained = True

    def terms(self, sizes: Counts) -> SumTerms:
        """Return the terms of the mean share of scores over K + 1 sites, where the unseen site has scores of +inf."""
        whole = math.lcm(*set(sizes))
        of_one = {n: whole // n for n in set(sizes)}
        return SumTerms([of_one[n] for n in sizes], whole * (len(sizes) + 1))

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        """Return at most 1 - alpha + 2/(K + 1), for one unseen site and one score, plus the slack."""
        # The scores of the unseen site raise the mean share by at most 1/(K + 1), and the score at which the target is
        # reached by at most 1/(K + 1) again, also if n_k is part of the draw.
        band = super().band(alpha, sizes, gaps)
        return band._replace(most=min(Fraction(1), 1 - alpha + Fraction(2, len(sizes) + 1) + band.slack))

    def missing(self, alpha: Fraction, sizes: Counts) -> Shortfall:
        return Shortfall(sites=max(0, math.ceil(1 / alpha - 1) - len(sizes)))

    def audience(self, sites: Sequence[str], stratum: StratumKind | None = None) -> Audience:
        return Audience(
            population="of a fresh site from the same population",
            averaged_over="such sites and calibration draws",
            lay_population=(
                "new cases of a further site of the same kind, on average over such sites; "
                "a single new site can do worse"
            ),
        )
