"""NVFlare as a transport: a site publishes `calibrate`, `evaluate` or `watch`, and the server calls the same name here.

Roth et al., "NVIDIA FLARE: federated learning from simulation to real-world", 2022, and its Collab API.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from fedconformal.certificates.certificate import LeftOut
from fedconformal.errors import InputError
from fedconformal.federated import ask
from fedconformal.federated.ask import Answer, Question, decode, fingerprint
from fedconformal.federated.calibration import calibrate
from fedconformal.federated.evaluation import EvaluationQuestion, evaluate
from fedconformal.federated.questions import Outputs, ScoreQuestion
from fedconformal.federated.watch import Source, WatchQuestion, watch
from fedconformal.privacy.policy import policy_of

try:
    from nvflare.collab import collab
except ImportError:
    raise InputError("running on NVFlare needs nvflare 2.9 or newer: pip install 'fedconformal[nvflare]'") from None

__all__ = [
    "NVFlareSites",
    "calibrate",
    "calibrate_reply",
    "evaluate",
    "evaluate_reply",
    "fingerprint",
    "watch",
    "watch_reply",
]

logger = logging.getLogger(__name__)

T = TypeVar("T")
Weights = Mapping[str, ArrayLike]


def calibrate_reply(question: bytes, weights: Weights, outputs: ArrayLike, truth: ArrayLike, **rows: Any) -> bytes:
    """Answer the server's `calibrate(question, weights)`: summarise the scores of rows not used for fitting.

    Parameters
    ----------
    question, weights
        The arguments of the server's call.
    outputs, truth, **rows
        The fields of `Outputs`; and `policy`, the path of the site's policy, by default that of FEDCONFORMAL_POLICY.
    """
    return _reply(decode(question, ScoreQuestion), weights, outputs=outputs, truth=truth, **rows)


def evaluate_reply(question: bytes, weights: Weights, outputs: ArrayLike, truth: ArrayLike, **rows: Any) -> bytes:
    """Answer the server's `evaluate(question, weights)` with counts on the site's test rows; see `calibrate_reply`."""
    return _reply(decode(question, EvaluationQuestion), weights, outputs=outputs, truth=truth, **rows)


def _reply(question: Any, weights: Weights, *, policy: str | Path | None = None, **rows: Any) -> bytes:
    site, model = collab.site_name, fingerprint(weights)
    answer: bytes = question.answer(Outputs(**rows), site=site, model=model, policy=policy_of(policy))
    return answer


def watch_reply(question: bytes, source: Source, *, policy: str | Path | None = None) -> bytes:
    """Answer the server's `watch(question)` with the counts of the site's monitor: a .fcw file, or `Watch.sent`."""
    asked: WatchQuestion = decode(question, WatchQuestion)
    return asked.answer(source, site=collab.site_name, policy=policy_of(policy))


class NVFlareSites:
    """The sites of a job; fewer valid answers than `min_sites` within `timeout` seconds are an error."""

    fingerprint = staticmethod(fingerprint)

    def __init__(self, *, min_sites: int = 2, timeout: float = 600.0) -> None:
        self.min_sites = min_sites
        self.timeout = timeout
        self._stage = ""
        self._reasons: dict[str, str] = {}

    def ask(self, question: Question[T], model: Weights | None = None) -> list[Answer[T]]:
        """Call the function that every site publishes under the name of the question's stage."""
        self._stage, self._reasons = question.stage, {}
        sites = sorted(client.name for client in collab.clients)
        arguments = (question.to_bytes(),) if model is None else (question.to_bytes(), dict(model))
        replies: Any = getattr(collab.clients(timeout=self.timeout), self._stage)(*arguments) if sites else {}
        data, answers = dict(replies), []
        for site in sites:
            try:
                if site not in data:
                    raise InputError(self._why_none(replies.failures.get(site)))
                answers.append(Answer(site, ask.read_answer(question, data[site], site)))
            except ask.MALFORMED as error:
                self._refuse(site, ask.refusal(error))
        return self.refuse(answers, [None] * len(answers))

    def refuse(self, answers: Sequence[Answer[T]], reasons: Sequence[str | None]) -> list[Answer[T]]:
        """Refuse the answers with a reason, and return the others; too few of them are an error."""
        for answer, reason in zip(answers, reasons, strict=True):
            if reason is not None:
                self._refuse(answer.name, reason)
        valid = [answer for answer in answers if answer.name not in self._reasons]
        ask.check_enough(self._stage, len(valid), self.min_sites, sorted(self._reasons.items()))
        return valid

    def left_out(self, answers: Iterable[Answer[Any]]) -> list[LeftOut]:
        """Return the sites that were refused, with the reason."""
        return [LeftOut(site=site, reason=reason) for site, reason in sorted(self._reasons.items())]

    def _refuse(self, site: str, reason: str) -> None:
        self._reasons[site] = reason
        logger.warning("%s: %s %s", self._stage, site, reason)

    def _why_none(self, error: Any) -> str:
        """Return the reason for a missing answer: NVFlare records errors of sites and abandoned calls."""
        if error is None or isinstance(error.cause, TimeoutError):
            return f"gave no answer within {self.timeout:g} s"
        return f"failed: {ask.failure(str(error.cause))}"
