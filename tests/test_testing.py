"""The contract checks for plug-ins notice a plug-in that breaks a contract."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.guarantees.guarantee import Shortfall
from fedconformal.summaries.exact import ExactSummary
from fedconformal.testing import check_guarantee, check_score, check_summary


def test_a_score_that_differs_in_the_last_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    right = fc.LAC.of_all
    monkeypatch.setattr(fc.LAC, "of_all", lambda self, probs: np.nextafter(right(self, probs), 2.0))
    with pytest.raises(AssertionError, match="of_labels and of_all agree"):
        check_score(fc.LAC())


def test_a_score_without_a_name() -> None:
    class Nameless(fc.Score):
        of_labels = fc.LAC.of_labels
        of_all = fc.LAC.of_all

    with pytest.raises(AssertionError, match="it has a name"):
        check_score(Nameless())


def test_a_guarantee_that_promises_certainty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fc.EverySite, "promised", lambda _, counts, sizes: Fraction(sum(counts), sum(sizes)))
    with pytest.raises(AssertionError, match="never promises certainty"):
        check_guarantee(fc.EverySite())


def test_a_guarantee_whose_advice_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fc.EverySite, "missing", lambda *_: Shortfall())
    with pytest.raises(AssertionError, match="names the missing scores"):
        check_guarantee(fc.EverySite())


def test_a_summary_that_counts_one_score_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ExactSummary.bounds

    def wrong(self: ExactSummary, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        counts = right(self, q)[0]
        more = np.minimum(counts + (counts > 0), self.n)
        return more, more

    monkeypatch.setattr(ExactSummary, "bounds", wrong)
    with pytest.raises(AssertionError, match="certified bounds contain the count"):
        check_summary("exact")
