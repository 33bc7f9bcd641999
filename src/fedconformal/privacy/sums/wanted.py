"""Which sum a guarantee needs, in whole numbers.

It serves guarantees for which the coordinator has to know sum w_k m_k(q) alone. Others compare the sites with each
other (every-site, worst-case, robust, quantile-of-quantiles), or concern one site only: a sum does not tell enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from fedconformal.errors import InputError
from fedconformal.guarantees import FCP, PAC, Guarantee, Mixture, NewSite
from fedconformal.guarantees.guarantee import Counts

MOST = 2**62
"""Sums stay below this."""
MOST_SIZES = 2_000
"""Where sites weigh by their sizes, more different ones than this would keep everybody busy for long."""


@dataclass(frozen=True, kw_only=True)
class SumTarget:
    """The threshold is the smallest q at which sum w_k m_k(q) reaches the target; all of them whole numbers."""

    weights: tuple[int, ...]
    target: int
    most: int
    """What the sum can be at most."""


def summable(guarantee: Guarantee) -> Guarantee:
    """Refuse a guarantee that needs more than one sum."""
    if isinstance(guarantee, Mixture | FCP | PAC | NewSite):
        return guarantee
    raise InputError(
        f"{guarantee.name} needs every site's own counts, and sums hide them; with sums only there are "
        "mixture, fcp, pac and new-site"
    )


def weighted_sum(guarantee: Guarantee, alpha: Fraction, sizes: Counts) -> SumTarget:
    """Write a guarantee as a weighted sum, or refuse.

    >>> weighted_sum(Mixture(), Fraction(1, 10), [10, 20])
    SumTarget(weights=(1, 1), target=28, most=30)
    >>> weighted_sum(NewSite(), Fraction(1, 2), [1, 2])  # m_1 + m_2 / 2 is at least half of 3
    SumTarget(weights=(2, 1), target=3, most=4)
    """
    if not summable(guarantee).sites_apart:
        rank = guarantee.band(alpha, sizes).rank or 0
        return SumTarget(weights=(1,) * len(sizes), target=rank, most=sum(sizes))
    different = len(set(sizes))
    if different > MOST_SIZES:  # their common denominator has a word or so for each
        raise InputError(
            f"{guarantee.name} weighs sites by their sizes: {different} different ones, expected {MOST_SIZES} at most"
        )
    weights, whole, price = cast("Mixture | NewSite", guarantee).terms(sizes)  # all others have a rank
    return _whole([Fraction(weight, whole) for weight in weights or ()], 1 - alpha + Fraction(price, whole), sizes)


def _whole(worth: Sequence[Fraction], target: Fraction, sizes: Counts) -> SumTarget:
    """Go over to whole numbers: exactly if these are not too large, else rounded to the safe side."""
    scale = math.lcm(*(w.denominator for w in worth))
    if scale * sum(w * n for w, n in zip(worth, sizes, strict=True)) >= MOST:
        scale = MOST  # sum w_k n_k is one at most
    weights = tuple(math.floor(w * scale) for w in worth)
    common = math.gcd(*weights) or 1
    return SumTarget(
        weights=tuple(w // common for w in weights),
        target=math.ceil(target * scale / common),
        most=sum(w // common * n for w, n in zip(weights, sizes, strict=True)),
    )
