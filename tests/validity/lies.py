"""Guarantees that count wrongly, so that tests can show that the checks notice it."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Integers
from fedconformal.guarantees.guarantee import Promise, summed

NEARLY_ONE = Fraction(999, 1000)
"""Certainty is never promised, and a curve that promises it would be refused."""

Change = Callable[[Integers, list[int]], Integers]
"""From the true counts of each site and the sizes to other counts."""


def miscount(monkeypatch: pytest.MonkeyPatch, kind: type[fc.Guarantee], change: Change) -> None:
    """Let a guarantee promise what the changed counts of the sites promise; each site is counted by itself."""
    right = kind.grouped

    def grouped(self: fc.Guarantee, sizes: list[int], unit: int | None = None) -> tuple[Integers, Promise]:
        group, promised = right(self, sizes, unit)

        def promise(counts: Integers) -> list[Fraction]:
            found = promised(summed(change(counts, sizes), group, sum(sizes)))
            return [min(coverage, NEARLY_ONE) for coverage in found]

        return np.arange(len(sizes)), promise

    monkeypatch.setattr(kind, "grouped", grouped)
