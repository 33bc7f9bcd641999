"""What is left of a promise if what it rests on may be wrong: by the union bound, as much less as that is likely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedconformal._base.arrays import Integers
from fedconformal.guarantees.guarantee import Counts, Guarantee
from fedconformal.guarantees.planning import missing


@dataclass(frozen=True, kw_only=True)
class Lessened(Guarantee):
    """Promise what another guarantee promises, less the probability that what it rests on is wrong.

    >>> from fedconformal import EverySite
    >>> Lessened(of=EverySite(), failure=Fraction(1, 10)).promised([4, 7], [4, 9])  # 7/10 - 1/10
    Fraction(3, 5)
    """

    of: Guarantee
    failure: Fraction

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        return max(Fraction(0), self.of.promised(counts, sizes) - self.failure)

    def promised_many(self, counts: Integers, sizes: Counts) -> list[Fraction]:
        return [max(Fraction(0), found - self.failure) for found in self.of.promised_many(counts, sizes)]

    def slack(self, gaps: Counts, sizes: Counts) -> Fraction:
        return self.of.slack(gaps, sizes)

    def promise(self, sites: Sequence[str]) -> str:
        return self.of.promise(sites)


@missing.register
def _(guarantee: Lessened, alpha: Fraction, sizes: Counts) -> dict[int, int]:
    return {} if alpha <= guarantee.failure else missing(guarantee.of, alpha - guarantee.failure, sizes)
