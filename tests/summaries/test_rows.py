"""From rows to a summary: probabilities, numbers, masks, batches and chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from tests.contracts.tools import refused

CLASSES = ["benign", "malignant", "other"]
ABOUT: dict[str, Any] = {"alpha": 0.1, "site": "clinic-a", "model": "m", "calibration": "x", "expires": "2027-06-30"}
RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet([1, 0.5, 0.2], 700)
LABELS = RNG.choice(CLASSES, 700)
PREDICTIONS, Y = RNG.normal(size=(2, 700))


def in_batches(outputs: Any, truth: Any, size: int = 70) -> Iterator[tuple[Any, Any]]:
    for start in range(0, len(outputs), size):
        yield outputs[start : start + size], truth[start : start + size]


def test_rows_are_scored_and_their_classes_and_precision_recorded() -> None:
    site = fc.summarize(PROBS, LABELS, score="raps:penalty=0.25", classes=CLASSES, kind="exact", **ABOUT)
    assert site.provenance == fc.Summary.of_scores(
        [0.5], score=fc.RAPS(penalty=0.25), classes=CLASSES, precision="float32", **ABOUT
    ).provenance  # fmt: skip
    truth = np.searchsorted(CLASSES, LABELS)
    assert site.points.tolist() == np.sort(fc.RAPS(penalty=0.25).evaluate(PROBS.astype(np.float32), truth)).tolist()


@pytest.mark.parametrize("rounded", [False, True])
def test_numbers_are_not_rounded(rounded: bool) -> None:
    predictions = PREDICTIONS.astype(np.float32) if rounded else PREDICTIONS
    site = fc.summarize(predictions, Y, score="residual", kind="exact")
    assert site.points.tolist() == np.sort(np.abs(Y - predictions)).tolist()
    assert (site.provenance.precision, site.provenance.classes) == ("float32" if rounded else None, None)


def test_losses_of_masks() -> None:
    truth, scores = RNG.random((2, 40, 8)) > 0.5, RNG.random((40, 8))
    loss, grid = fc.FalseNegativeRate(), np.arange(11) / 10
    whole = fc.summarize(scores, truth[0], loss="false-negative-rate", thresholds=grid, site="a", model="m")
    losses = loss.evaluate(scores, truth[0], thresholds=grid)
    assert (
        whole.to_bytes() == fc.LossSummary.of_losses(losses, thresholds=grid, loss=loss, site="a", model="m").to_bytes()
    )
    parts = fc.summarize(in_batches(scores, truth[0], 7), loss=loss, thresholds=grid, site="a", model="m")
    assert parts.to_bytes() == whole.to_bytes()
    for more in ({"by_class": True}, {"kind": "exact"}, {"score": "lac"}):
        with refused(param="loss"):
            fc.summarize(scores, truth[0], loss=loss, **more)
    with refused(param="thresholds"):
        fc.summarize(PROBS, LABELS, thresholds=grid)


@pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")
@pytest.mark.parametrize("more", [{}, {"by_class": True}, {"groups": {"sex": ["F", "M"] * 350}}], ids=str)
def test_batches_give_the_bytes_of_all_rows(more: dict[str, Any]) -> None:
    about = {"classes": CLASSES, **more, **ABOUT}
    whole = fc.summarize(PROBS, LABELS, **about)
    assert fc.summarize(in_batches(PROBS, LABELS), **about).to_bytes() == whole.to_bytes()
    if not more:
        numbers = fc.summarize(PREDICTIONS, Y, score=fc.Signed(), **ABOUT)
        assert fc.summarize(in_batches(PREDICTIONS, Y), score=fc.Signed(), **ABOUT).to_bytes() == numbers.to_bytes()


def test_batches_that_differ_are_refused() -> None:
    with refused("batch 1: has other classes than batch 0"):
        fc.summarize(iter([([[0.5, 0.25, 0.25]], [0]), ([[0.5, 0.5]], [0])]))
    with refused("batch 1: has other precision than batch 0"):
        fc.summarize(iter([([0.5], [0.5]), (np.array([0.5], dtype=np.float32), [0.5])]), score="residual")
    with refused("there are no batches"):
        fc.summarize(iter([]))


def test_what_is_missing_is_said() -> None:
    with refused(param="truth"):
        fc.summarize(PROBS)
    with refused(param="by_class"):
        fc.summarize(PREDICTIONS, Y, score="residual", by_class=True)
    with refused(param="score"):
        fc.summarize(PROBS, LABELS, score=5)  # type: ignore[arg-type]
