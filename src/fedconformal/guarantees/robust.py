"""Coverage whatever a few of the sites send (docs/proofs.md).

The promise at q is the least of (sum m_k - 1) / sum n_k over all sets of K - f sites, one of which is honest. The
price is intrinsic if sites may differ: beyond about f = K alpha / (1 + alpha) sites with huge scores no finite q
serves.
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
    Stratum,
    check_whole,
    whole_type,
)


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
    why_no_bound = "nobody knows which rows are of an honest site"
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

    def bind(self, sites: Sequence[str], sizes: Counts, stratum: Stratum | None = None) -> Self:
        """Take the least share of a stratum over the same sets of sites."""
        check_liars(self, self.liars, len(sizes))
        if self.most_scores is not None and stratum in ("class", "group"):
            raise InputError(f"robust: most_scores does not go by {stratum}; leave it out")
        return self

    def promised_many(self, counts: Integers, sizes: Counts, unit: int = 1) -> list[Fraction]:
        """Go from a set of sites to a worse one until there is none (Dinkelbach's method), all columns at once."""
        capped = [min(n, self.most_scores or n) for n in sizes]
        # A count times a total of sizes, and the shares of two sets compared crosswise; counts may be of parts of rows.
        most = math.ceil(counts.sum(axis=0, dtype=np.float64).max(initial=unit) * (1 + 1e-9))
        kind = whole_type((max(most, sum(capped)) + 1) * (sum(capped) + 1))
        held, weights = counts.astype(kind), np.array(capped, dtype=kind)
        if self.most_scores is not None:  # sites that claim too much are scaled down, their counts rounded down
            held = held * weights[:, None] // np.maximum(1, np.array(sizes, dtype=kind))[:, None]
        honest = len(weights) - self.liars
        tops = held[:honest].sum(axis=0) - unit
        bottoms = np.full(counts.shape[1], weights[:honest].sum(), dtype=kind)
        columns = np.arange(counts.shape[1])
        while len(columns):
            # With t/b the share so far, the set with the least sum of b m_k - t n_k has the least share.
            found_tops, found_bottoms = tops[columns], bottoms[columns]
            order = np.argsort(found_bottoms * held[:, columns] - found_tops * weights[:, None], axis=0)[:honest]
            top = np.take_along_axis(held[:, columns], order, axis=0).sum(axis=0) - unit
            bottom = weights[order].sum(axis=0)
            less = (top * found_bottoms < found_tops * bottom).astype(np.bool_)
            columns = columns[less]
            tops[columns], bottoms[columns] = top[less], bottom[less]
        found = zip(tops.tolist(), bottoms.tolist(), strict=True)
        return [Fraction(max(0, top), max(1, bottom) * unit) for top, bottom in found]

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        """Return as slack the largest share over the sites, which no set of them exceeds."""
        shares = (Fraction(gap, max(1, n)) for gap, n in zip(gaps or [0] * len(sizes), sizes, strict=True))
        return Band(1 - alpha, Fraction(1), max(shares))

    def missing(self, alpha: Fraction, sizes: Counts) -> Shortfall:
        least = math.ceil(1 / (alpha * (len(sizes) - self.liars)))
        if self.most_scores is not None and self.most_scores < least:
            return Shortfall(parameter=("most_scores", self.most_scores, least))
        return super().missing(alpha, sizes)

    def audience(self, sites: Sequence[str], stratum: Stratum | None = None) -> Audience:
        sent = f"whatever at most {self.liars} of the sites sent"
        counted = "" if self.most_scores is None else f" (counted up to {self.most_scores})"
        return Audience(
            population=(
                f"from the mixture of the honest sites, in proportion to n_k{counted}, whichever they are and {sent}"
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
