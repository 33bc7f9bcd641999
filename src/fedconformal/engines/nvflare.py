"""NVFlare as a carrier of questions: one call to every site each, through its Collab API.

Roth et al., "NVIDIA FLARE: federated learning from simulation to real-world", 2022. A site publishes `calibrate`,
`evaluate` or `watch`; the server's main function calls the function of the same name here with `NVFlareSites`. The same
data give the threshold that they give on Flower, to the last bit.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.names import abbreviate
from fedconformal.certificates.certificate import LeftOut
from fedconformal.errors import InputError
from fedconformal.federated import ask
from fedconformal.federated.ask import Answer, Question
from fedconformal.federated.calibration import Calibrated, calibrate, calibrate_risk
from fedconformal.federated.evaluation import EvaluationQuestion, evaluate
from fedconformal.federated.questions import Outputs, read_question
from fedconformal.federated.watch import Source, Watched, WatchQuestion, watch
from fedconformal.privacy.policy import policy_of

try:
    from nvflare.collab import collab
except ImportError:
    raise InputError("running on NVFlare needs nvflare 2.9 or newer: pip install 'fedconformal[nvflare]'") from None

__all__ = [
    "Calibrated",
    "NVFlareSites",
    "Watched",
    "calibrate",
    "calibrate_reply",
    "calibrate_risk",
    "evaluate",
    "evaluate_reply",
    "fingerprint",
    "watch",
    "watch_reply",
]

logger = logging.getLogger(__name__)

T = TypeVar("T")
Weights = Mapping[str, ArrayLike]


def calibrate_reply(
    question: Mapping[str, Any],
    weights: Weights,
    outputs: ArrayLike,
    truth: ArrayLike,
    *,
    policy: str | Path | None = None,
    **rows: Any,
) -> dict[str, Any]:
    """Answer the server's `calibrate(question, weights)`: score rows that nothing was fitted to, and summarise.

    Args:
        question: the server's.
        weights: the model that came with it.
        outputs: (n, J) logits of that model; a regressor's predictions; scores in [0, 1] for a loss.
        truth: (n,) class indices or names; true numbers; the truth in the shape of the scores.
        policy: the path of the site's policy, by default that of FEDCONFORMAL_POLICY.
        **rows: `probabilities`, `classes`, `groups` and `ids`, as in `Outputs`.
    """
    found = Outputs(outputs=outputs, truth=truth, **rows)
    about = {"site": collab.site_name, "model": fingerprint(weights)}
    return read_question(question).answer(found, policy=policy_of(policy), **about)


def evaluate_reply(question: Mapping[str, Any], outputs: ArrayLike, truth: ArrayLike, **rows: Any) -> dict[str, Any]:
    """Answer the server's `evaluate(question, weights)`: count how the sets do on the site's own test rows.

    Args:
        question: the server's.
        outputs: of the model that came with it.
        truth: class indices, or true numbers.
        **rows: `probabilities` and `groups`, as in `Outputs`.
    """
    found = Outputs(outputs=outputs, truth=truth, **rows)
    return EvaluationQuestion.from_dict(question).answer(found, site=collab.site_name)


def watch_reply(question: Mapping[str, Any], source: Source, *, policy: str | Path | None = None) -> dict[str, Any]:
    """Answer the server's `watch(question)`: send the counts of the site's monitor, nothing about a row.

    Args:
        question: the server's.
        source: a .fcw file, or a function that returns the messages sent so far, such as `Watch.sent`.
        policy: the path of the site's policy, by default that of FEDCONFORMAL_POLICY.
    """
    return WatchQuestion.from_dict(question).answer(source, site=collab.site_name, policy=policy_of(policy))


def fingerprint(weights: Weights) -> str:
    """Return the fingerprint of a model; the same arrays have the same one on Flower.

    >>> fingerprint({"w": np.zeros(2)})[:8] != fingerprint({"w": np.ones(2)})[:8]
    True
    """
    arrays = ((name, np.asarray(values)) for name, values in weights.items())
    return ask.fingerprint((name, str(array.dtype), array.shape, _npy(array)) for name, array in arrays)


def _npy(array: np.typing.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


class NVFlareSites:
    """The sites of a job.

    Args:
        min_sites: fewer that answer properly are an error.
        timeout: seconds that sites have for an answer.
    """

    def __init__(self, *, min_sites: int = 2, timeout: float = 600.0) -> None:
        self.min_sites = min_sites
        self.timeout = timeout
        self._stage = ""
        self._reasons: dict[str, str] = {}

    def fingerprint(self, model: Weights) -> str:
        """Return the fingerprint of a model; refuse weights that are not finite, which no site could use."""
        for name, values in model.items():
            array = np.asarray(values)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise InputError(f"model: {name} holds a value that is not finite (NaN or inf); look at the training")
        return fingerprint(model)

    def ask(self, question: Question[T], model: Weights | None = None) -> list[Answer[T]]:
        """Call the published function of every site that has the name of the question's stage."""
        self._stage, self._reasons = question.stage, {}
        sites = sorted(client.name for client in collab.clients)
        arguments = (question.to_dict(),) if model is None else (question.to_dict(), dict(model))
        replies: Any = getattr(collab.clients(timeout=self.timeout), self._stage)(*arguments) if sites else {}
        found, answers = dict(replies), []
        for site in sites:
            try:
                if site not in found:
                    raise InputError(self._why_none(replies.failures.get(site)))
                if not isinstance(found[site], dict):
                    raise InputError(f"sent {abbreviate(found[site])}, expected a reply of {self._stage}")
                answers.append(Answer(site, question.read(found[site], site=site)))
            except ask.MALFORMED as error:
                self._refuse(site, ask.refusal(error))
        return self.refuse(answers, [None] * len(answers))

    def refuse(self, answers: Sequence[Answer[T]], reasons: Sequence[str | None]) -> list[Answer[T]]:
        """Refuse the answers that have a reason, and return the others; too few of them are an error."""
        for answer, reason in zip(answers, reasons, strict=True):
            if reason is not None:
                self._refuse(answer.name, reason)
        kept = [answer for answer in answers if answer.name not in self._reasons]
        if len(kept) < self.min_sites:
            whys = "; ".join(f"{site}: {self._reasons[site]}" for site in sorted(self._reasons)[-3:]) or "none"
            raise InputError(
                f"{self._stage}: {len(kept)} sites answered properly, at least {self.min_sites} are needed ({whys})"
            )
        return kept

    def left_out(self, answers: Iterable[Answer[Any]]) -> list[LeftOut]:
        """Return the sites that were refused, with the reason."""
        return [LeftOut(site=site, reason=self._reasons[site]) for site in sorted(self._reasons)]

    def _refuse(self, site: str, reason: str) -> None:
        self._reasons[site] = reason
        logger.warning("%s: %s %s", self._stage, site, reason)

    def _why_none(self, error: Any) -> str:
        """Return why there is no answer: NVFlare keeps what a site raised, and which calls it gave up."""
        if error is None or isinstance(error.cause, TimeoutError):
            return f"gave no answer within {self.timeout:g} s"
        return f"failed: {ask.failure(str(error.cause))}"
