"""Coverage with a bounded number of dishonest sites (docs/proofs.md).

The promise at q is the minimum of (sum m_k - 1) / sum n_k over all sets of K - f sites, one of which contains honest
sites only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np

from fedconformal._base.arrays import Integers
from fedconformal.errors import InputError
from fedconformal.guarantees.guarantee import (
    Audience,
    Band,
    Counts,
    Guarantee,
    Shortfall,
    SiteCounts,
    StratumKind,
    check_whole,
    whole_type,
)


@dataclass(frozen=True, kw_only=True)
class Robust(SiteCounts):
    """Coverage for the mixture of the honest sites, if the summaries of at most `liars` sites are arbitrary.

    A dishonest site that claims 2^32 huge scores dominates all others and makes the threshold infinite. `most_scores`,
    fixed beforehand, bounds its weight.

    Parameters
    ----------
    liars
        Maximum number of sites whose summaries may be arbitrary.
    most_scores
        Maximum weight of a site, in scores.

    Examples
    --------
    >>> Robust(liars=1).promised(counts=[9, 4, 7], sizes=[10, 5, 10])  # without the first: 10 of 15
    Fraction(2, 3)
    """

    name = "robust"
    assumption = (
        "at most the stated number of sites lie; at each of the others, given the rows of the other honest sites, the "
        "calibration rows and the test row are exchangeable"
    )
    excluded = ("site", "class", "set size")
    caveat = (
        "Liars can raise the threshold, never lower it too far: huge scores of more than about K alpha / (1 + alpha) "
        "of the K sites make it infinite."
    )
    why_no_bound = "it is not known which sites are honest"
    fractional = True

    liars: int
    most_scores: int | None = None

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return cls(liars=0), cls(liars=1), cls(liars=2, most_scores=10**16)

    def __post_init__(self) -> None:
        check_whole(self.liars, "liars", least=0)
        if self.most_scores is not None:
            check_whole(self.most_scores, "most_scores")

    def bind(self, sites: Sequence[str], sizes: Counts, stratum: StratumKind | None = None) -> Self:
        """Check the number of sites; the promise to a stratum is the minimum over the same sets of sites."""
        check_liars(self, self.liars, len(sizes))
        if self.most_scores is not None and stratum in ("class", "group"):
            raise InputError(f"robust: most_scores cannot be combined with a promise by {stratum}; leave it out")
        return self

    def promised_many(self, counts: Integers, sizes: Counts, unit: int = 1) -> list[Fraction]:
        """Minimise over sets of sites by Dinkelbach's method, for all columns at once."""
        capped = [min(n, self.most_scores or n) for n in sizes]
        # Bounds a count times a sum of sizes, and the cross products of the shares of two sets, with fractional counts.
        most = math.ceil(counts.sum(axis=0, dtype=np.float64).max(initial=unit) * (1 + 1e-9))
        kind = whole_type((max(most, sum(capped)) + 1) * (sum(capped) + 1))
        held, weights = counts.astype(kind), np.array(capped, dtype=kind)
        if self.most_scores is not None:  # scale down the sites above the maximum, with counts rounded down
            held = held * weights[:, None] // np.maximum(1, np.array(sizes, dtype=kind))[:, None]
        honest = len(weights) - self.liars
        tops = held[:honest].sum(axis=0) - unit
        bottoms = np.full(counts.shape[1], weights[:honest].sum(), dtype=kind)
        columns = np.arange(counts.shape[1])
        while len(columns):
            # With the current share t/b, the set with the smallest sum of b m_k - t n_k has the smallest share.
            old_tops, old_bottoms = tops[columns], bottoms[columns]
            order = np.argsort(old_bottoms * held[:, columns] - old_tops * weights[:, None], axis=0)[:honest]
            top = np.take_along_axis(held[:, columns], order, axis=0).sum(axis=0) - unit
            bottom = weights[order].sum(axis=0)
            less = (top * old_bottoms < old_tops * bottom).astype(np.bool_)
            columns = columns[less]
            tops[columns], bottoms[columns] = top[less], bottom[less]
        shares = zip(tops.tolist(), bottoms.tolist(), strict=True)
        return [Fraction(max(0, top), max(1, bottom) * unit) for top, bottom in shares]

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        """Return as slack the largest share of a site, an upper bound for every set of sites."""
        shares = (Fraction(gap, max(1, n)) for gap, n in zip(gaps or [0] * len(sizes), sizes, strict=True))
        return Band(1 - alpha, Fraction(1), max(shares))

    def missing(self, alpha: Fraction, sizes: Counts) -> Shortfall:
        least = math.ceil(1 / (alpha * (len(sizes) - self.liars)))
        if self.most_scores is not None and self.most_scores < least:
            return Shortfall(parameter=("most_scores", self.most_scores, least))
        return super().missing(alpha, sizes)

    def audience(self, sites: Sequence[str], stratum: StratumKind | None = None) -> Audience:
        sent = f"whatever at most {self.liars} of the sites sent"
        counted = "" if self.most_scores is None else f" (counted up to {self.most_scores})"
        return Audience(
            population=(
                f"from the mixture of the honest sites, in proportion to n_k{counted}, whichever they are and {sent}"
            ),
            sampling="the test row's site is drawn from the honest ones",
            lay_population=(
                "new cases of the honest sites together, where a site counts by how many calibration cases it has, "
                f"{sent}; a single site can do worse"
            ),
        )


def check_liars(guarantee: Guarantee, liars: int, sites: int) -> None:
    """Check that at least one site is honest."""
    if liars >= sites:
        raise InputError(f"{guarantee.name}: {liars} liars among {sites} sites leave no honest site; allow fewer")
