"""Guarantees that count wrongly, so that tests can show that the checks notice it."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Integers
from fedconformal.guarantees.guarantee import Promise

NEARLY_ONE = Fraction(999, 1000)
"""Certainty is never promised, and a curve that promises it would be refused."""

Change = Callable[[Integers, list[int]], Integers]
"""From the true counts of each site and the sizes to other counts."""


def miscount(monkeypatch: pytest.MonkeyPatch, kind: type[fc.Guarantee], change: Change) -> None:
    """Let a guarantee promise what the changed counts of the sites promise; each site is counted by itself."""

    def grouped(self: fc.Guarantee, sizes: list[int]) -> tuple[Integers, Promise]:
        def promise(counts: Integers) -> list[Fraction]:
            promised = fc.Guarantee.promised_many(self, change(counts, sizes), sizes)
            return [min(coverage, NEARLY_ONE) for coverage in promised]

        return np.arange(len(sizes)), promise

    monkeypatch.setattr(kind, "grouped", grouped)
