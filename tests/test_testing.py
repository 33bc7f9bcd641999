"""The contract checks for plug-ins notice plug-ins that break a contract."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.summaries.exact import ExactSummary
from fedconformal.testing import check_guarantee, check_score, check_summary


@dataclass(frozen=True, kw_only=True)
class OneBitOff(fc.LAC):
    """Calibration and prediction differ in the last bit."""

    name = "one-bit-off"

    def of_all(self, probs: Any) -> Any:
        return np.nextafter(super().of_all(probs), 2.0)


@dataclass(frozen=True, kw_only=True)
class Backwards(fc.LAC):
    """Probable labels score high."""

    name = "backwards"

    def of_labels(self, probs: Any, labels: Any) -> Any:
        return 1 - super().of_labels(probs, labels)

    def of_all(self, probs: Any) -> Any:
        return 1 - super().of_all(probs)


@pytest.mark.parametrize("score", [OneBitOff(), Backwards()], ids=repr)
def test_a_bad_score(score: fc.Score) -> None:
    with pytest.raises(AssertionError, match=r"agree|at most the threshold"):
        check_score(score)


@dataclass(frozen=True, kw_only=True)
class Certain(fc.EverySite):
    """A finite threshold promises everything."""

    name = "certain"

    def promised(self, counts: Any, sizes: Any) -> Fraction:
        return Fraction(sum(counts), sum(sizes))


@dataclass(frozen=True, kw_only=True)
class Generous(fc.Mixture):
    """The advice is not enough."""

    name = "generous"

    def missing(self, alpha: Fraction, sizes: Any) -> Any:
        return fc.EverySite().missing(alpha, [10**9] * len(sizes))


@pytest.mark.parametrize("guarantee", [Certain(), Generous()], ids=repr)
def test_a_bad_guarantee(guarantee: fc.Guarantee) -> None:
    with pytest.raises(AssertionError, match=r"certainty|how many scores"):
        check_guarantee(guarantee)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OneTooMany(ExactSummary):
    """Counts one score too many."""

    name = "one-too-many"

    def bounds(self, q: Any) -> Any:
        lower, upper = super().bounds(q)
        return np.minimum(lower + (lower > 0), self.n), np.minimum(upper + (lower > 0), self.n)


def test_a_bad_summary() -> None:
    with pytest.raises(AssertionError, match="certified counts hold the truth"):
        check_summary("one-too-many")
