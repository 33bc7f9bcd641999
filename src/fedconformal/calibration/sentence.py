"""The promise of a certificate, in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedconformal.certificates import text
from fedconformal.losses.loss import described_loss

if TYPE_CHECKING:
    from fedconformal.calibration.certificate import Certificate


def promise_sentence(about: Certificate) -> str:
    """Say what is promised, or estimated, to whom."""
    certified = about.status == "certified"
    if about.risk is None:
        answers = text.INTERVALS if about.intervals else text.SETS
        return text.sentence(about.promise, about.alpha, answers, certified=certified)
    risk, loss = about.risk, described_loss(about.risk.loss)
    means = loss.means if loss else "The expected loss"
    finite = about.threshold != "inf"
    return text.loss_sentence(about.promise, risk.limit, means, risk.safe, finite=finite, certified=certified)


def why_estimated(about: Certificate) -> str:
    """Say why nothing is promised, to follow "nothing is promised: "."""
    if about.replaces is not None and about.replaces.rows == "watched":
        return "rows that a watch has counted are not like those to come"
    if about.trained:
        return "the model was trained on the sites that calibrated it, and a new site is not like them"
    return "a summary without bounds, such as tdigest, or an estimate can be off either way"
