"""Answer only the easy rows: by a limit that a certificate promises, or by a heuristic that says it is one."""

from __future__ import annotations

from html import escape

import numpy as np

from fedconformal.calibration.predictor import Predictor
from fedconformal.calibration.risk_predictor import RiskPredictor
from fedconformal.errors import InputError
from fedconformal.evaluation import selective_classification
from fedconformal.losses import SelectiveError
from fedconformal.report.charts import selective_chart
from fedconformal.report.html import card, soft, table
from fedconformal.report.rows import LabelledRows

WANTED = (0.8, 0.9, 0.95)
"""Accuracies for which the report says which sets to answer, where the model does not have them anyway."""

HEURISTIC = (
    "Accuracy of the top label if only rows with small sets are answered. A heuristic: the promise is for all rows, "
    "and a limit that was chosen on these rows looks better on them than it is. Losses of the kind selective-error "
    "and the guarantee learn-then-test certify a limit."
)


def easy_rows(predictor: Predictor, rows: LabelledRows, answers: RiskPredictor | None) -> str:
    """Write the card; `answers` is what promises how often answers are wrong."""
    found = selective_classification(predictor.predict_set(rows.probs, **rows.strata_at()), rows.probs, rows.labels)
    if answers is None:
        advice = [
            f"to be right {wanted:.0%} of the time, answer sets of at most {limit.size} ({limit.kept:.1%} of the rows)"
            for wanted in WANTED
            if wanted > found.limits[-1].accuracy and (limit := found.limit_for(wanted)) is not None
        ]
        text = soft(HEURISTIC) + (f"<p>On these rows: {'; '.join(advice)}.</p>" if advice else "")
    else:
        text = _certified(answers, rows) + soft(
            "Below, for comparison, a heuristic: only rows with small sets are answered."
        )
    cells = [
        (f"{one.size}", f"{one.kept:.1%}", f"{one.accuracy:.1%}", f"{one.coverage:.1%}") for one in found.limits[:30]
    ]
    head = ("largest set", "rows answered", "accuracy", "coverage")
    return card("Answer only the easy rows", text + selective_chart(found), table(head, cells))


def _certified(answers: RiskPredictor, rows: LabelledRows) -> str:
    """Say which rows to answer, what is promised of these answers, and how they did on these rows."""
    if not isinstance(answers.loss, SelectiveError):
        raise InputError(f"answers: limits {answers.loss or 'a loss without a name'}, expected a selective error")
    limit = answers.certificate.limit
    if np.isinf(limit):
        return f"<p>{escape(answers.certificate.sentence())} So no row is answered.</p>"
    given = answers.loss.predict(rows.probs, float(limit))
    answered = given.any(axis=1)
    wrong = answered & ~given[np.arange(len(given)), rows.labels]
    share = f"{wrong.sum() / answered.sum():.1%} of these answers are wrong" if answered.any() else "none is answered"
    status = "Certified" if answers.certificate.status == "certified" else "Estimated, not certified"
    return (
        f"<p><b>{status}:</b> answer a row if the largest probability is at least {limit:.4g}. "
        f"{escape(answers.certificate.sentence())} On these rows: {answered.mean():.1%} are answered, {share}.</p>"
    )
