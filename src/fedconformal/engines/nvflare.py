"""NVFlare as a transport: a site publishes `calibrate`, `evaluate` or `watch`; the server calls the same name here.

Roth et al., "NVIDIA FLARE: federated learning from simulation to real-world", 2022, and its Collab API.
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

    Parameters
    ----------
    question, weights
        From the server.
    outputs, truth, **rows
        The fields of `Outputs`.
    policy
        The path of the site's policy, by default that of FEDCONFORMAL_POLICY.
    """
    found = Outputs(outputs=outputs, truth=truth, **rows)
    about = {"site": collab.site_name, "model": fingerprint(weights)}
    return read_question(question).answer(found, policy=policy_of(policy), **about)


def evaluate_reply(
    question: Mapping[str, Any],
    weights: Weights,
    outputs: ArrayLike,
    truth: ArrayLike,
    *,
    policy: str | Path | None = None,
    **rows: Any,
) -> dict[str, Any]:
    """Answer the server's `evaluate(question, weights)` by counts on the site's own test rows, as `calibrate_reply`."""
    found = Outputs(outputs=outputs, truth=truth, **rows)
    about = {"site": collab.site_name, "model": fingerprint(weights)}
    return EvaluationQuestion.from_dict(question).answer(found, policy=policy_of(policy), **about)


def watch_reply(question: Mapping[str, Any], source: Source, *, policy: str | Path | None = None) -> dict[str, Any]:
    """Answer the server's `watch(question)` by the counts of the site's monitor: a .fcw file, or `Watch.sent`."""
    return WatchQuestion.from_dict(question).answer(source, site=collab.site_name, policy=policy_of(policy))


def fingerprint(weights: Weights) -> str:
    """Return the fingerprint of a model; the same arrays have the same one on Flower.

    >>> fingerprint({"w": np.zeros(2)})[:8] != fingerprint({"w": np.ones(2)})[:8]
    True
    """

    def described(name: str, array: np.typing.NDArray[Any]) -> tuple[str, str, tuple[int, ...], bytes]:
        np.save(file := io.BytesIO(), array, allow_pickle=False)
        return name, str(array.dtype), array.shape, file.getvalue()

    return ask.fingerprint(described(name, np.asarray(values)) for name, values in weights.items())


class NVFlareSites:
    """The sites of a job; fewer good answers than `min_sites` within `timeout` seconds are an error."""

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
