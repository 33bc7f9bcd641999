"""A promise that holds whatever a few of the sites send.

If at most f sites lie, some set of K - f sites is honest. With d_k(q) = m_k(q) - (1 - alpha) n_k, the smallest q at
which the K - f smallest d_k(q) add up to one or more serves every such set, so also the honest one: coverage is at
least 1 - alpha under the mixture of the honest sites, as in `Mixture`. What liars send can only raise q. In terms of
what is promised at q, that is the least of (sum m_k - 1) / sum n_k over all sets of K - f sites.

The price is intrinsic when sites may differ: f sites that send huge scores look like f sites that are hard, and beyond
about f = K alpha / (1 + alpha) no finite q can serve both readings.
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
from fedconformal._base.names import shown
from fedconformal.errors import InputError
from fedconformal.guarantees.guarantee import Counts, Guarantee, whole_type
from fedconformal.guarantees.luck import MissLimit
from fedconformal.guarantees.mixture import Mixture, as_number_of_scores, capped_words, is_whole
from fedconformal.guarantees.planning import shortfall, what_is_missing


@dataclass(frozen=True, kw_only=True)
class Robust(Guarantee):
    """Cover a test row from the mixture of the honest sites, if at most `liars` of all sites are not.

    A liar that claims 2^32 scores and sends huge ones outweighs everybody else and puts every label into every set.
    `most_scores`, fixed beforehand, bounds that.

    Attributes:
        liars: the promise holds whatever at most this many of the sites send.
        most_scores: a site that claims more scores weighs as one that has this many.

    >>> Robust(liars=1).promised(counts=[9, 4, 7], sizes=[10, 5, 10])  # without the first: 10 of 15
    Fraction(2, 3)
    >>> Robust(liars=1).withstands(Fraction(1, 10), sizes=[100] * 30)  # not three: 30 * 0.1 / 1.1 = 2.7
    2
    """

    name = "robust"
    assumption = (
        "at most the stated number of sites lie; at each of the others, given the rows of the other honest sites, the "
        "calibration rows and the test row are exchangeable; the "
        "test row's site is drawn from the honest ones; "
        "the model was not fitted to the calibration rows"
    )
    caveat = (
        "Liars can make the sets larger, never too small: huge scores of more than about K alpha / (1 + alpha) of the "
        "K sites put every label into every set. This is not a promise to a single site, class or set size."
    )
    why_no_limit = (
        "the promise is for the mixture of the honest sites, and nobody knows which rows are of an honest site"
    )

    fractional = True

    liars: int
    most_scores: int | None = None

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return cls(liars=0), cls(liars=1), cls(liars=2, most_scores=10**16)

    def __post_init__(self) -> None:
        as_liars(self.liars)
        as_number_of_scores(self.most_scores, "most_scores")

    def bind(self, sites: Sequence[str], sizes: Counts) -> Guarantee:
        return bind_liars(self, self.liars, len(sizes))

    def in_class(self, sizes: Counts) -> Guarantee:
        """Take the least share of the class over the same sets of sites."""
        if self.most_scores is not None and max(sizes) > self.most_scores:
            raise InputError(f"robust: a site has more than most_scores={self.most_scores}, which does not go by class")
        return replace(self, most_scores=None)

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Return the least share over all sets of sites that may be the honest ones."""
        return self.promised_many(np.array(counts, dtype=np.int64)[:, None], sizes)[0]

    def promised_many(self, counts: Integers, sizes: Counts) -> list[Fraction]:
        return self.promised_parts(counts, sizes, 1)

    def promised_parts(self, sums: Integers, sizes: Counts, unit: int) -> list[Fraction]:
        """Go from a set of sites to a worse one until there is none (Dinkelbach's method), all columns at once."""
        held, weights = self._capped(sums, sizes)
        honest = len(weights) - self.liars
        # A set that holds no more than the price is promised nothing, whatever the others hold.
        some = np.flatnonzero((np.sort(held, axis=0)[:honest].sum(axis=0) > unit).astype(np.bool_))
        tops = held[:honest].sum(axis=0) - unit
        bottoms = np.full(sums.shape[1], weights[:honest].sum(), dtype=held.dtype)
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
        found = [Fraction(0)] * sums.shape[1]
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

    def withstands(self, alpha: Fraction, sizes: Counts) -> int:
        """Return the largest number of liars for which huge scores, at any of the sites, leave the threshold finite."""
        claimed = sorted(min(n, self.most_scores or n) for n in sizes)
        most = 0
        for liars in range(1, (len(claimed) + 1) // 2):
            # The largest sites lie. Of the others, all scores counted, the least are in the worst set.
            lost = sum((1 - alpha) * n for n in claimed[-liars:])
            left = sum(alpha * n for n in claimed[: len(claimed) - 2 * liars])
            if left < lost + 1:
                break
            most = liars
        return most

    def slack(self, gaps: Counts, sizes: Counts) -> Fraction:
        """Return the largest share over the sites, which no set of them exceeds."""
        return max(Fraction(gap, max(1, n)) for gap, n in zip(gaps, sizes, strict=True))

    def miss_limits(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissLimit]:
        """If nobody lies the promise is that of the mixture, from counts that are rounded down."""
        return [] if self.liars else Mixture(most_scores=self.most_scores).miss_limits(alpha, sizes, failure)

    def plainly(self, sites: Sequence[str]) -> str:
        return (
            "new cases of the honest sites together, where a site counts by how many calibration cases it has, "
            f"whatever at most {self.liars} of the sites sent; a single site can be below"
        )

    def promise(self, sites: Sequence[str]) -> str:
        weights = capped_words(self.most_scores)
        return (
            f"for a test row from the mixture of the honest sites, in proportion to {weights}, whichever they are and "
            f"whatever at most {self.liars} of the sites sent, on average over calibration draws"
        )


@shortfall.register
def _(guarantee: Robust, alpha: Fraction, sizes: Counts, sites: Sequence[str]) -> str:
    least = math.ceil(1 / (alpha * (len(sizes) - guarantee.liars)))
    if guarantee.most_scores is not None and guarantee.most_scores < least:
        return f"most_scores is {guarantee.most_scores}, needed: {least} or more"
    most = guarantee.withstands(alpha, sizes)
    return (
        f"{what_is_missing(guarantee, alpha, sizes, sites)} (and should more than {most} of these {len(sizes)} sites "
        "send huge scores, the threshold is +inf again)"
    )


def as_liars(liars: Any) -> None:
    """Check a number of liars."""
    if not is_whole(liars) or liars < 0:
        raise InputError(f"liars is {shown(liars)}, expected a whole number of sites, 0 or more")


def bind_liars(guarantee: Guarantee, liars: int, sites: int) -> Guarantee:
    """Check that not everybody may lie."""
    if liars >= sites:
        raise InputError(f"{guarantee.name}: {liars} liars among {sites} sites leave nobody honest; allow for fewer")
    return guarantee
