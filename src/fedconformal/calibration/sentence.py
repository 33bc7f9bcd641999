"""The promise of a certificate, in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedconformal.losses.loss import described_loss

if TYPE_CHECKING:
    from fedconformal.calibration.certificate import Certificate, RiskRecord


def promise_sentence(about: Certificate) -> str:
    """Say what is promised, or estimated, to whom."""
    if about.risk is not None:
        return _of_losses(about.risk, about)
    verb = "hold" if about.status == "certified" else "are estimated to hold"
    answers, truth = ("intervals", "value") if about.intervals else ("sets", "label")
    return f"The {answers} {verb} the true {truth} with probability at least {1 - about.alpha:.10g} {about.promise}."


def why_estimated(about: Certificate) -> str:
    """Say why nothing is promised, to follow "nothing is promised: "."""
    if about.replaces is not None and about.replaces.rows == "watched":
        return "rows that a watch has counted are not like those to come"
    if about.trained:
        return "the model was trained on the sites that calibrated it, and a new site is not like them"
    return "a summary without bounds, such as tdigest, or an estimate can be off either way"


def _of_losses(risk: RiskRecord, about: Certificate) -> str:
    verb = "is" if about.status == "certified" else "is estimated to be"
    if about.threshold != "inf":
        loss = described_loss(risk.loss)
        return f"{loss.means if loss else 'The expected loss'} {verb} at most {risk.limit:.10g} {about.promise}."
    then = f"so take the safe action: {risk.safe}" if risk.safe else "so nothing is promised without a safe action"
    return f"No threshold of the grid keeps the expected loss at or below {risk.limit:.10g} {about.promise}, {then}."
