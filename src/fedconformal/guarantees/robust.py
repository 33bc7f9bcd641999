"""Coverage whatever a few of the sites send (docs/proofs.md).

The promise at q is the least of (sum m_k - 1) / sum n_k over all sets of K - f sites, one of which is honest. The
price is intrinsic if sites may differ: beyond about f = K alpha / (1 + alpha) sites with huge scores no finite q
serves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Integers
from fedconformal.errors import InputError
from fedconformal.guarantees.guarantee import (
    Audience,
    Band,
    Counts,
    Guarantee,
    MissRateBound,
    Shortfall,
    SiteCounts,
    Stratum,
    check_whole,
    whole_type,
)
from fedconformal.guarantees.mixture import Mixture, in_proportion


@dataclass(frozen=True, kw_only=True)
class Robust(SiteCounts):
    """Coverage for the mixture of the honest sites, whatever at most `liars` of the sites send.

    A liar that claims 2^32 scores and sends huge ones outweighs everybody else and makes the threshold infinite.
    `most_scores`, fixed beforehand, bounds that.

    Parameters
    ----------
    liars
        The largest number of sites that may send anything.
    most_scores
        A site that claims more scores weighs as one that has this many.

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
    why_no_bound = (
        "the promise is for the mixture of the honest sites, and nobody knows which rows are of an honest site"
    )
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

    def bind(self, sites: Sequence[str], sizes: Counts, stratum: Stratum | None = None) -> Guarantee:
        """Take the least share of a stratum over the same sets of sites."""
        check_liars(self, self.liars, len(sizes))
        if stratum in (None, "end"):
            return self
        if self.most_scores is not None and max(sizes) > self.most_scores:
            raise InputError(
                f"robust: a site has more than most_scores={self.most_scores}, which does not go by {stratum}"
            )
        return replace(self, most_scores=None)

    def promised_many(self, counts: Integers, sizes: Counts, unit: int = 1) -> list[Fraction]:
        """Go from a set of sites to a worse one until there is none (Dinkelbach's method), all columns at once."""
        held, weights = self._capped(counts, sizes)
        honest = len(weights) - self.liars
        # A set that holds no more than the price is promised nothing, whatever the others hold.
        some = np.flatnonzero((np.sort(held, axis=0)[:honest].sum(axis=0) > unit).astype(np.bool_))
        tops = held[:honest].sum(axis=0) - unit
        bottoms = np.full(counts.shape[1], weights[:honest].sum(), dtype=held.dtype)
        columns = some
        while len(columns):
            # With t/b the share so far, the set with the least sum of b m_k - t n_k has the least share.
            found_tops, found_bottoms = tops[columns], bottoms[columns]
            order = np.argsort(found_bottoms * held[:, columns] - found_tops * weights[:, None], axis=0)[:honest]
            top = np.take_along_axis(held[:, columns], order, axis=0).sum(axis=0) - unit
            bottom = weights[order].sum(axis=0)
            less = top * found_bottoms < found_tops * bottom
            columns = columns[less.astype(np.bool_)]
            tops[columns], bottoms[columns] = top[less], bottom[less]
        found = [Fraction(0)] * counts.shape[1]
        for column in some.tolist():
            found[column] = Fraction(int(tops[column]), int(bottoms[column]) * unit)
        return found

    def _capped(self, counts: Integers, sizes: Counts) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return counts and n_k, those of sites that claim too much scaled down, the counts rounded down."""
        weights = [min(n, self.most_scores or n) for n in sizes]
        # A count times its weight, and the shares of two sets compared crosswise; counts may be of parts of rows.
        most = math.ceil(counts.sum(axis=0, dtype=np.float64).max(initial=1) * (1 + 1e-9))
        kind = whole_type((max(most, sum(weights)) + 1) * (sum(weights) + 1))
        held, weighing = counts.astype(kind), np.array(weights, dtype=kind)
        if self.most_scores is not None:
            held = held * weighing[:, None] // np.maximum(1, np.array(sizes, dtype=kind))[:, None]
        return held, weighing

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        """Return as slack the largest share over the sites, which no set of them exceeds."""
        shares = (Fraction(gap, max(1, n)) for gap, n in zip(gaps or [0] * len(sizes), sizes, strict=True))
        return Band(1 - alpha, Fraction(1), max(shares))

    def missing(self, alpha: Fraction, sizes: Counts) -> Shortfall:
        least = math.ceil(1 / (alpha * (len(sizes) - self.liars)))
        if self.most_scores is not None and self.most_scores < least:
            return Shortfall(parameter=("most_scores", self.most_scores, least))
        return super().missing(alpha, sizes)

    def miss_rate_bounds(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissRateBound]:
        """If nobody lies the promise is that of the mixture, from counts that are rounded down."""
        return [] if self.liars else Mixture(most_scores=self.most_scores).miss_rate_bounds(alpha, sizes, failure)

    def audience(self, sites: Sequence[str], stratum: Stratum | None = None) -> Audience:
        sent = f"whatever at most {self.liars} of the sites sent"
        return Audience(
            population=(
                f"from the mixture of the honest sites, {in_proportion(self.most_scores)}, "
                f"whichever they are and {sent}"
            ),
            sampling="the test row's site is drawn from the honest ones",
            lay_population=(
                "new cases of the honest sites together, where a site counts by how many calibration cases it has, "
                f"{sent}; a single site can be below"
            ),
        )


def check_liars(guarantee: Guarantee, liars: int, sites: int) -> None:
    """Check that some site is honest."""
    if liars >= sites:
        raise InputError(f"{guarantee.name}: {liars} liars among {sites} sites leave nobody honest; allow for fewer")
