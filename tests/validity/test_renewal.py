"""Rows that raised the alarm do not calibrate the next predictor: from them its sets hold the truth too seldom.

Their number depends on their outcomes, so they are not exchangeable with the rows to come. After a change, the rows
that a watch has counted are partly from before it. Without a change, after a false alarm, they are those that looked
unlike the others. So a predictor from watched rows says "estimated"; were it certified, the first test would be red.
Rows that came after the alarm keep the promise in both cases. Rows of a planned time are selected as well, if a watch
counts them: the plan is followed only if they raise no alarm.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.monitoring.change import ChangeDetector
from tests.validity.simulation import Floats, mean

ALPHA = 0.1
WORSE = 1.25
"""Scores after the change are uniform up to this, before it up to one."""


EVIDENCE = 0.3
"""The evidence at which a detector raises an alarm: little, so that there are false ones."""


def predictor_of(scores: Floats) -> fc.Predictor:
    return fc.calibrate([fc.Summary.of_scores(scores, site="a", score=fc.LAC())], alpha=ALPHA, exact=True)


def renewed(old: fc.Predictor, scores: Floats, rows: str) -> fc.Predictor:
    return fc.recalibrate(
        old, [fc.Summary.of_scores(scores, site="a", score=fc.LAC())], why="alarm", rows=rows, exact=True
    )


def after_a_change(rows: str, rng: np.random.Generator) -> tuple[fc.Predictor, float] | None:
    """Watch misses, of which there are more after row 600; return the next predictor, and what it covers then."""
    old = predictor_of(rng.random(200))
    scores = np.append(rng.random(600), WORSE * rng.random(2400))
    watch = fc.Monitor.of(old).update(misses=scores > old.threshold)
    if watch.alarm_at is None or watch.alarm_at <= 600:
        return None
    found = renewed(old, scores[: watch.alarm_at] if rows == "watched" else WORSE * rng.random(99), rows)
    return found, min(1.0, float(found.threshold) / WORSE)


def after_a_false_alarm(rows: str, rng: np.random.Generator) -> tuple[fc.Predictor, float] | None:
    """Nothing changes; a detector takes scores to be smaller now, and the last 19 rows calibrate smaller sets."""
    calibration, scores = rng.random(100), rng.random(100)
    detector, at = ChangeDetector(calibration, random_state=int(rng.integers(2**32))), 20
    found = detector.update(scores[:at])
    while found.log_e_value < np.log(EVIDENCE) and at < len(scores):
        found, at = found.update(scores[at : at + 10]), at + 10
    if found.log_e_value < np.log(EVIDENCE):
        return None
    if scores[at - 19 : at].mean() > 0.5:
        return None
    new = renewed(predictor_of(calibration), scores[at - 19 : at] if rows == "watched" else rng.random(19), rows)
    return new, min(1.0, float(new.threshold))


def planned(rows: str, rng: np.random.Generator) -> tuple[fc.Predictor, float] | None:
    """Scores have become worse; the next 99 rows are to calibrate, unless they raise an alarm before."""
    old, scores = predictor_of(rng.random(200)), WORSE * rng.random(99)
    if fc.Monitor.of(old).update(misses=scores > old.threshold).alarm:
        return None
    found = renewed(old, scores if rows == "watched" else WORSE * rng.random(99), rows)
    return found, min(1.0, float(found.threshold) / WORSE)


Stream = Callable[[str, np.random.Generator], tuple[fc.Predictor, float] | None]
STREAMS: list[tuple[Stream, int]] = [(after_a_change, 250), (after_a_false_alarm, 1400), (planned, 400)]


@pytest.mark.long
@pytest.mark.parametrize("rows", ["watched", "new"])
@pytest.mark.parametrize(("stream", "count"), STREAMS)
def test_what_is_certified_after_an_alarm_holds(stream: Stream, count: int, rows: str) -> None:
    rng = np.random.default_rng(11)
    found = [one for one in (stream(rows, rng) for _ in range(count)) if one is not None]
    coverage, tolerance = mean(np.array([covers for _, covers in found]))
    assert len(found) > 100
    assert tolerance < 0.02
    for predictor, _ in found:
        assert predictor.certificate.status == "estimated" or coverage >= 1 - ALPHA - tolerance, (
            f"covers {coverage:.4f}"
        )
    if rows == "watched":  # so this check can fail
        assert coverage < 1 - ALPHA - tolerance
