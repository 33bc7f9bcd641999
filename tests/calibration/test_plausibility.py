"""Input that is valid and probably a mistake is said, at the site and at the coordinator."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.errors import SuspiciousInputWarning

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet([0.3, 0.3, 0.3], size=300)
LABELS = (PROBS.cumsum(axis=1) > RNG.random((300, 1))).argmax(axis=1)
SKEWED = RNG.dirichlet([1.5, 0.4, 0.2], size=300)


def messages(action: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [str(one.message) for one in caught if one.category is SuspiciousInputWarning]


@pytest.mark.parametrize(
    ("probs", "labels"),
    [
        (PROBS[:, [1, 2, 0]], LABELS),
        (PROBS, (LABELS + 1) % 3),
        (SKEWED[:, ::-1], (SKEWED.cumsum(axis=1) > RNG.random((300, 1))).argmax(axis=1)),
    ],
    ids=["classes in another order", "labels shifted by one", "reversed columns"],
)
def test_a_model_that_contradicts_the_labels_is_said_at_the_site(probs: Any, labels: Any) -> None:
    (said,) = messages(lambda: fc.summarize(probs, labels, site="a"))
    assert said.startswith("site 'a': ")
    assert "less often than the commonest class alone" in said
    halves = ((probs[part], labels[part]) for part in (slice(0, 150), slice(150, None)))
    assert messages(lambda: fc.summarize(halves, site="a")) == [said]


def test_a_model_that_fits_is_not_doubted() -> None:
    assert messages(lambda: fc.summarize(PROBS, LABELS)) == []
    assert messages(lambda: fc.summarize(PROBS[:10, [1, 2, 0]], LABELS[:10])) == []  # too few rows to tell
    one = LABELS == 0  # a site that sees one class: the commonest class is always right there
    assert messages(lambda: fc.summarize(PROBS[one], LABELS[one])) == []


def test_outputs_and_labels_of_different_rows_are_said() -> None:
    labels = (SKEWED.cumsum(axis=1) > np.random.default_rng(5).random((300, 1))).argmax(axis=1)
    assert messages(lambda: fc.summarize(SKEWED, labels)) == []
    (said,) = messages(lambda: fc.summarize(SKEWED, labels[::-1]))
    assert "of the same rows" in said


def test_two_swapped_classes_are_said_although_the_third_is_right() -> None:
    labels = np.repeat([0, 1, 2], [180, 90, 30])
    assert messages(lambda: fc.summarize(np.eye(3)[labels], labels)) == []
    (said,) = messages(lambda: fc.summarize(np.eye(3)[2 - labels], labels))
    assert "in the order of the columns" in said


def test_the_same_rows_under_two_names() -> None:
    scores = RNG.random(50)
    a, b, c = (fc.Summary.of_scores(s, site=n) for s, n in ((scores, "a"), (scores[::-1], "b"), (scores[:49], "c")))
    assert messages(lambda: fc.calibrate([a, c])) == []
    (said,) = messages(lambda: fc.calibrate([a, b, c]))
    assert said == "the sites a and b have the same scores; are they the same rows under two names?"
    few = [fc.Summary.of_scores([0, 1] * 20, site=name) for name in "ab"]  # the same by chance
    assert messages(lambda: fc.calibrate(few)) == []


def test_an_alpha_that_was_meant_as_the_coverage() -> None:
    site = fc.Summary.of_scores(np.arange(30), site="a")
    assert messages(lambda: fc.calibrate([site], alpha=0.5)) == []
    (said,) = messages(lambda: fc.calibrate([site], alpha=0.9))
    assert said.endswith("did you mean 0.1?")
