"""What the report admits: sets that hold every label, what intervals assume, coverage of the certified mixture."""

import dataclasses
import re
from html import unescape
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.report import CheckedRows, report_page
from fedconformal.report.slider import slider
from tests.contracts.tools import changed, maybe_infeasible

RNG = np.random.default_rng(0)
SURE = RNG.uniform(0.55, 0.99, 600)
PROBS = np.stack([SURE, 1 - SURE], axis=1)
LABELS = (RNG.random(600) < 0.2).astype(np.int64)
SITES = np.array(["a", "b"])[np.arange(600) % 2]


def predictor_of(score: fc.Score, rows: int = 300, **more: Any) -> fc.Predictor:
    with maybe_infeasible():
        return fc.calibrate(
            [
                fc.Summary.of_scores(score.evaluate(PROBS[k:rows:2], LABELS[k:rows:2]), score=score, site=site)
                for k, site in enumerate("ab")
            ],
            **more,
            exact=True,
        )


def page_of(predictor: fc.Predictor, **more: Any) -> str:
    with maybe_infeasible():
        found = predictor.evaluate(PROBS[300:], LABELS[300:], sites=SITES[300:], **more)
        return unescape(report_page(predictor, found, rows=CheckedRows(outputs=PROBS[300:], truth=LABELS[300:])))


def box(page: str) -> str | None:
    """Return what is in the summary's warning, without its tags."""
    found = re.findall(r'<p class="warning" role="note">(.*?)</p>', page)
    assert len(found) <= 1
    return re.sub("<.*?>", "", found[0]) if found else None


def test_sets_that_hold_every_label_are_in_the_summary() -> None:
    page = page_of(predictor_of(fc.RAPS()))
    said = box(page)
    assert said is not None
    assert said.startswith("300 of 300 sets hold every label: no label can score more than the threshold 1.001 (raps")
    assert "lac gives smaller sets" in said
    assert page.index('class="board"') < page.index('class="warning"') < page.index("Coverage by site")
    assert page.count("300 of 300 sets hold every label") == 2  # and beside the sizes
    assert "300 of 300 name every answer and so say nothing" in page
    assert "Each of the 300 lists names every answer, so none can miss the right one." in page


def test_a_few_of_them_are_said_beside_the_sizes() -> None:
    predictor = predictor_of(fc.LAC())
    full = predictor.evaluate(PROBS[300:], LABELS[300:]).full_sets
    assert 0 < full < 150
    page = page_of(predictor)
    assert box(page) is None
    assert f'<h2>Set sizes</h2><p class="soft">{full} of 300 sets hold every label.</p>' in page


def test_half_of_them_are_in_the_summary() -> None:
    predictor = predictor_of(fc.LAC(), alpha=0.05)
    full = predictor.evaluate(PROBS[300:], LABELS[300:]).full_sets
    assert 150 <= full < 300
    said = box(page_of(predictor))
    assert said is not None
    assert said.startswith(f"{full} of 300 sets hold every label: the model does not tell the labels of these rows")


def test_the_score_is_named_without_any_rows() -> None:
    predictor = predictor_of(fc.RAPS())
    labels = changed(predictor.certificate, class_names=2)
    said = box(unescape(report_page(dataclasses.replace(predictor, certificate=labels))))
    assert said is not None
    assert said.startswith("no label can score more than the threshold 1.001 (raps, 2 labels), so every label is in ")
    assert "lac gives smaller sets" in said


def test_too_few_scores_are_in_the_summary_without_any_rows() -> None:
    said = box(unescape(report_page(predictor_of(fc.LAC(), rows=6))))
    assert said is not None
    assert said.startswith("alpha=0.1 cannot be promised from these scores, so every label is in every set; calibr")
    assert box(report_page(predictor_of(fc.LAC()))) is None


def test_intervals_say_what_they_assume() -> None:
    predictor = predictor_of(fc.LAC())
    plain, clustered = page_of(predictor), page_of(predictor, clusters=np.arange(300) // 10)
    assert plain.count(", if cases are independent)") == 1  # on the first screen
    assert clustered.count(", if clusters are independent)") == 1
    assert "Lines: 95% interval, if rows are independent." in plain
    assert "Lines: 95% interval, if clusters are independent." in clustered
    assert '<th scope="col">clusters</th>' in clustered
    assert '<th scope="col">clusters</th>' not in plain


def test_one_cluster_has_a_dot_and_no_line() -> None:
    page = page_of(predictor_of(fc.LAC()), clusters=np.zeros(300))
    assert "(no interval: all cases are of one cluster)" in page
    assert 'class="interval s0"' not in page
    assert "none (one cluster)" in page


def test_coverage_of_the_certified_mixture_is_on_the_first_screen() -> None:
    predictor = predictor_of(fc.LAC(), guarantee=fc.Mixture(weights=(0.9, 0.1)))
    flipped = np.where(SITES == "b", 1 - LABELS, LABELS)[300:]
    evaluation = predictor.evaluate(PROBS[300:], flipped, sites=SITES[300:])
    found = evaluation.reweighted
    assert found is not None
    assert found.coverage is not None
    assert found.coverage > evaluation.coverage + 0.05
    page = unescape(report_page(predictor, evaluation))
    assert f"With the sites counted as promised it is {found.coverage:.1%}." in page
    assert "counted as promised" not in page_of(predictor)  # where both are nearly the same
    assert found.sentence in page
    lacking = report_page(predictor, predictor.evaluate(PROBS[300:], LABELS[300:]))
    assert "not reweighted to the certified mixture: it needs the site of each test row" in lacking


@pytest.mark.parametrize("alpha", [0.005, 0.1, 0.25, 0.5])
def test_the_slider_counts_them(alpha: float) -> None:
    predictor = predictor_of(fc.LAC())
    steps = slider(predictor, CheckedRows(outputs=PROBS[300:], truth=LABELS[300:])).steps
    (step,) = (one for one in steps if one.alpha == alpha)
    with maybe_infeasible():
        found = predictor.evaluate(PROBS[300:], LABELS[300:], alpha=alpha)
    assert step.full == found.full_sets / 300


def test_the_slider_does_not_count_one_label() -> None:
    site = fc.Summary.of_scores([1.0] * 30, score=fc.APS(), site="a")
    steps = slider(fc.calibrate([site]), CheckedRows(outputs=np.ones((3, 1)), truth=np.zeros(3, dtype=int)))
    assert {step.full for step in steps.steps} == {0.0}


def test_the_badge_is_green_only_if_nothing_is_against_it() -> None:
    predictor = predictor_of(fc.LAC())
    assert '<span class="badge good">certified</span>' in report_page(predictor)
    wrong = predictor.evaluate(PROBS[300:], 1 - LABELS[300:], sites=SITES[300:])
    page = unescape(report_page(predictor, wrong))
    assert wrong.verdict is not None
    assert f'<p class="verdict">{wrong.verdict.words}</p>' in page
    assert '<span class="badge bad">below the promise</span>' in page
    infeasible = report_page(predictor_of(fc.LAC(), rows=6))
    assert '<span class="badge caution">nothing is promised</span>' in infeasible
    for text in (page, infeasible):
        assert 'class="badge good"' not in text
