"""Guarantees that count wrongly, so that tests can show that the checks notice it."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Integers
from fedconformal.testing import summed

NEARLY_ONE = Fraction(999, 1000)
"""Certainty is never promised, and a curve that promises it would be refused."""

MISSED = r"is below|is above|, expected|has probability"
"""Messages of a check that finds wrong coverage, as opposed to too little evidence."""

Change = Callable[[Integers, list[int]], Integers]
"""From the true counts of each site and the sizes to other counts."""


def miscount(monkeypatch: pytest.MonkeyPatch, kind: type[fc.Guarantee], change: Change) -> None:
    """Let a guarantee promise what the changed counts of the sites promise; each site is counted by itself."""
    right = kind.grouped

    def grouped(self: fc.Guarantee, sizes: list[int], unit: int | None = None) -> Any:
        group, promised = right(self, sizes, unit)
        if type(self) is not kind:  # a subclass counts as it does
            return group, promised

        def promise(counts: Integers) -> list[Fraction]:
            found = promised(summed(change(counts, sizes), group, sizes))
            return [min(coverage, NEARLY_ONE) for coverage in found]

        return np.arange(len(sizes)), promise

    monkeypatch.setattr(kind, "grouped", grouped)


def count_more(
    monkeypatch: pytest.MonkeyPatch,
    kind: type[fc.Guarantee],
    sites: slice | Sequence[int] = slice(None),
    more: int = 1,
    *,
    capped: bool = True,
) -> None:
    """Count so many scores more at these sites, if `capped` up to all that they have: a rank too low."""

    def change(counts: Integers, sizes: list[int]) -> Integers:
        found = counts.astype(np.int64)
        found[sites] += more
        return np.asarray(np.minimum(found, np.array(sizes)[:, None]) if capped else found)

    miscount(monkeypatch, kind, change)
