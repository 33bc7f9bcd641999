"""Which score has smaller sets: named for what was measured, and for nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import fedconformal as fc
from fedconformal.scores.advice import before, smaller_sets


@dataclass(frozen=True, kw_only=True)
class Other(fc.APS):
    """A score of another package."""


@pytest.mark.parametrize("classes", [None, 1, 2, 10, 11, 100, 101])
def test_no_advice_without_evidence(classes: int | None) -> None:
    assert smaller_sets(Other(), classes) == ""
    assert smaller_sets(fc.RAPS(randomized=True), 11) == ""  # no problem with full sets was seen
    assert bool(smaller_sets(fc.APS(), classes)) == (classes in (2, 10, 11, 100))
    assert bool(smaller_sets(fc.LAC(), classes)) == (classes in (11, 100))


@pytest.mark.parametrize("score", [fc.APS(), fc.RAPS(penalty=0.5)], ids=repr)
def test_a_score_that_is_not_randomised_has_two_ways_out(score: fc.Score) -> None:
    assert smaller_sets(score, 2).startswith(
        "the score lac gives smaller sets on most problems of this kind, "
        f"and so does a randomised {score.name} (docs/scores.md); "
    )


def test_before_there_is_a_row() -> None:
    assert "not measured" in before(Other(), 2)
    assert "the second label of every row" in before(fc.RAPS(), 2)
    less = "the score lac gives smaller sets on most data (docs/scores.md)"
    assert before(fc.RAPS(), 3) == before(fc.RAPS()) == f"score raps: {less}"
    assert before(fc.RAPS(randomized=True), 2) == f"score raps, randomised: {less}"
    assert before(fc.LAC(), 2) == before(fc.LAC(), 100) == before(fc.LAC())
