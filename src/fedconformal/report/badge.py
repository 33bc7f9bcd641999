"""The badge beside the promise: its words and its colour follow from where the certificate stands."""

from __future__ import annotations

from html import escape

from fedconformal.calibration.certificate import Certificate
from fedconformal.evaluation import Evaluation
from fedconformal.evaluation.verdict import standing


def badge(certificate: Certificate, evaluation: Evaluation | None) -> str:
    """Return the badge; it is green only where `standing` finds nothing against it. A board calls rows cases."""
    found = standing(certificate, None if evaluation is None else evaluation.verdict)
    return f'<span class="badge {found.level}">{escape(found.words.replace("rows", "cases"))}</span>'


def verdict_words(evaluation: Evaluation | None) -> str:
    """Return the paragraph with the verdict, where there is one."""
    if evaluation is None or evaluation.verdict is None:
        return ""
    return f'<p class="verdict">{escape(evaluation.verdict.words)}</p>'
