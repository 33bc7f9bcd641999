"""Calibration and evaluation on NVFlare: one more call to every site each, through its Collab API.

Roth et al., "NVIDIA FLARE: federated learning from simulation to real-world", 2022. A site publishes `calibrate`, which
answers with a summary of its scores; the server's main function calls `calibrate` here, once, after training. The same
data give the threshold that they give on Flower, to the last bit.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.groups import Groups
from fedconformal._base.names import shown
from fedconformal.calibration.certificate import LeftOut
from fedconformal.calibration.choose import AnyPredictor, as_predictor
from fedconformal.calibration.document import Document, read_document
from fedconformal.calibration.interval_predictor import IntervalPredictor
from fedconformal.errors import InputError
from fedconformal.evaluation import why_full
from fedconformal.federated import calibration as exchange
from fedconformal.federated.ask import Answer
from fedconformal.federated.calibration import Calibrated, Question, Reader, SiteSummary, calibrate_summaries
from fedconformal.federated.evaluation import AnyCounts, Counts, IntervalCounts, counts_of, shares_by_site
from fedconformal.federated.risk import AnyQuestion, LossQuestion, read_question
from fedconformal.federated.watching import Source, Watched, WatchQuestion
from fedconformal.guarantees import Guarantee
from fedconformal.losses import Loss
from fedconformal.monitoring.messages import Period
from fedconformal.privacy.policy import Leaving, count_patients
from fedconformal.privacy.policy_file import policy_of
from fedconformal.scores import AnyScore

try:
    from nvflare.collab import CollabCallError, collab
except ImportError:
    raise InputError("running on NVFlare needs nvflare 2.9 or newer: pip install 'fedconformal[nvflare]'") from None

__all__ = [
    "Calibrated",
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

KEYS = {"data", "format", "num-examples"}


def calibrate_reply(
    question: Mapping[str, Any],
    weights: Mapping[str, ArrayLike],
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    groups: Groups | None = None,
    ids: Iterable[Any] | None = None,
    policy: str | Path | None = None,
) -> dict[str, Any]:
    """Answer the server's `calibrate(question, weights)`: score rows that nothing was fitted to, and summarise.

    Args:
        question: the server's; it says which score, temperature and kind of summary.
        weights: the model that came with it.
        logits: of that model, (n, J); where the score is of numbers, what it predicts.
        labels: (n,) class indices, or true numbers.
        groups: columns with a value a row, such as {"sex": [...]}, for a guarantee by group.
        ids: of the patients, one a row, which stay here: the site's policy may want a number of different ones.
        policy: the path of the site's policy, by default what FEDCONFORMAL_POLICY names.
    """
    asked = read_question(question)
    if fingerprint(weights) != asked.model:
        raise InputError("the model in the call is not the one that is asked about")
    summary = asked.answer(logits, labels, site=collab.site_name, groups=groups)
    policy_of(policy).check(Leaving.of(summary, guarantee=asked.guarantee, patients=count_patients(ids)))
    return {"data": summary.to_bytes(), "format": exchange.FORMAT, "num-examples": summary.n}


def calibrate(  # noqa: PLR0913
    weights: Mapping[str, ArrayLike],
    *,
    alpha: Any = 0.1,
    score: AnyScore | str = "lac",
    guarantee: Guarantee | str = "mixture",
    temperature: float = 1.0,
    kind: str = "ranks",
    min_sites: int = 2,
    min_scores: int = 1,
    timeout: float = 600.0,
) -> Calibrated:
    """Ask every site for a summary of its scores, and turn them into a predictor and its certificate.

    Args:
        weights: the trained model, arrays by name; every site gets it with the question.
        alpha: how often the sets may miss.
        score: by default `scores.DEFAULT`, which is LAC.
        guarantee: what is promised, by default `Mixture()`.
        temperature: what the sites divide logits by.
        kind: of summary.
        min_sites: with fewer that answer properly there is no calibration.
        min_scores: nor with fewer scores in all.
        timeout: seconds that sites have for an answer.
    """
    asked = {"alpha": alpha, "score": score, "temperature": temperature, "kind": kind}
    question = Question.about(fingerprint(weights), guarantee=guarantee, **asked)
    wanted: dict[str, Any] = {"alpha": alpha, "guarantee": guarantee, "min_scores": min_scores}
    return _found(question, weights, SitesOnNVFlare("calibrate", min_sites=min_sites, timeout=timeout), wanted)


def calibrate_risk(  # noqa: PLR0913
    weights: Mapping[str, ArrayLike],
    *,
    risk: Any,
    loss: Loss | str,
    thresholds: ArrayLike | None = None,
    guarantee: Guarantee | str = "mixture",
    safe: str | None = None,
    min_sites: int = 2,
    min_scores: int = 1,
    timeout: float = 600.0,
) -> Calibrated:
    """Ask every site for the sums of its losses, and turn them into a threshold with a limit on the expected loss.

    Args:
        weights: the trained model, arrays by name; every site gets it with the question.
        risk: what the expected loss is to be at most.
        loss: such as `FalseNegativeRate()`.
        thresholds: the grid, fixed beforehand, by default 0, 0.001, ..., 1.
        guarantee: what is promised, by default `Mixture()`.
        safe: what is answered where no threshold is enough; by default what the loss says.
        min_sites: with fewer that answer properly there is no calibration.
        min_scores: nor with fewer rows in all.
        timeout: seconds that sites have for an answer.
    """
    question = LossQuestion.about(fingerprint(weights), loss, thresholds, guarantee)
    wanted: dict[str, Any] = {"risk": risk, "safe": safe, "guarantee": guarantee, "min_scores": min_scores}
    return _found(question, weights, SitesOnNVFlare("calibrate", min_sites=min_sites, timeout=timeout), wanted)


def _found(
    question: AnyQuestion, weights: Mapping[str, ArrayLike], sites: SitesOnNVFlare, wanted: dict[str, Any]
) -> Calibrated:
    reader = Reader(question)

    def read(site: str, reply: Any) -> SiteSummary:
        if not isinstance(reply, dict) or set(reply) != KEYS:
            raise InputError(f"sent {shown(reply)}, expected what calibrate_reply gives")
        return SiteSummary(reader.read(reply["data"], reply["format"], rows=reply["num-examples"], site=site))

    answers, left_out = exchange.gather(sites, sites.call(question.to_dict(), dict(weights), read=read))
    summaries = [answer.value.summary for answer in answers]
    found = calibrate_summaries(summaries, left_out, **wanted)
    if why := why_full(found.certificate):
        logger.warning("calibrate: %s", why)
    return found


def evaluate_reply(
    predictor: bytes, logits: ArrayLike, labels: ArrayLike, *, groups: Groups | None = None
) -> dict[str, Any]:
    """Answer the server's `evaluate(predictor, weights)`: count how the sets do on the site's own test rows.

    Args:
        predictor: the server's, as bytes.
        logits: of the model that came with it, (n, J).
        labels: (n,) class indices.
        groups: columns with a value a row, for a predictor by group.
    """
    return counts_of(as_predictor(read_document(predictor)), logits, labels, groups, collab.site_name)._asdict()


def evaluate(
    predictor: AnyPredictor, weights: Mapping[str, ArrayLike], *, min_sites: int = 2, timeout: float = 600.0
) -> dict[str, dict[str, float]]:
    """Ask every site how often the predictor's sets hold the label of its test rows: rows, coverage, size, accuracy.

    Args:
        predictor: what `calibrate` gave.
        weights: the model, arrays by name.
        min_sites: fewer that answer properly are an error.
        timeout: seconds that sites have for an answer.
    """
    sites = SitesOnNVFlare("evaluate", min_sites=min_sites, timeout=timeout)
    kind = IntervalCounts if isinstance(predictor, IntervalPredictor) else Counts
    answers = sites.call(predictor.to_bytes(), dict(weights), read=partial(_read_counts, kind))
    return shares_by_site(sites.refuse(answers, [None] * len(answers)))


def watch_reply(question: Mapping[str, Any], source: Source, *, policy: str | Path | None = None) -> dict[str, Any]:
    """Answer the server's `watch(question)`: send the counts of the site's watch, nothing about a row.

    Args:
        question: the server's; it says which predictor.
        source: a .fcw file, or a function that returns the messages sent so far, such as `Watch.sent`.
        policy: the path of the site's policy, by default what FEDCONFORMAL_POLICY names.
    """
    return WatchQuestion.from_dict(question).answer(source, site=collab.site_name, policy=policy_of(policy))


def watch(
    predictor: Document | str,
    *,
    earlier: Sequence[Period] = (),
    min_sites: int = 2,
    timeout: float = 600.0,
) -> Watched:
    """Ask every site what its watch counted; one that cannot be used is refused, and named on the page.

    Args:
        predictor: what is watched, or its SHA-256.
        earlier: messages that came before, which new ones must not contradict.
        min_sites: fewer that answer properly are an error.
        timeout: seconds that sites have for an answer.
    """
    question = WatchQuestion.about(predictor)

    def read(site: str, reply: Any) -> list[Period]:
        return question.read(reply if isinstance(reply, dict) else {}, site=site, earlier=earlier)

    sites = SitesOnNVFlare("watch", min_sites=min_sites, timeout=timeout)
    answers = sites.call(question.to_dict(), read=read)
    kept = sites.refuse(answers, [None] * len(answers))
    return Watched.of([answer.value for answer in kept], sites.left_out(kept), earlier)


def fingerprint(weights: Mapping[str, ArrayLike]) -> str:
    """Return what says which model scores are from; the same arrays have the same one on Flower.

    >>> fingerprint({"w": np.zeros(2)})[:8] != fingerprint({"w": np.ones(2)})[:8]
    True
    """
    arrays = ((name, np.asarray(values)) for name, values in weights.items())
    return exchange.fingerprint((name, str(array.dtype), array.shape, _npy(array)) for name, array in arrays)


def _npy(array: np.typing.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


class SitesOnNVFlare:
    """Calls one published function of every site, which the stage is called after, and keeps who is refused."""

    def __init__(self, stage: str, *, min_sites: int, timeout: float) -> None:
        self._stage = stage
        self._min_sites = min_sites
        self._timeout = timeout
        self._reasons: dict[str, str] = {}

    def call(self, *arguments: Any, read: Callable[[str, Any], T]) -> list[Answer[T]]:
        """Call every site, and read what can be read."""
        sites = sorted(client.name for client in collab.clients)
        if not sites:
            return []
        replies = getattr(collab.clients(timeout=self._timeout), self._stage)(*arguments)
        found, answers = dict(replies), []
        for site in sites:
            try:
                if site not in found:
                    raise InputError(self._why_none(replies.failures.get(site)))
                answers.append(Answer(site, read(site, found[site])))
            except exchange.MALFORMED as error:
                self._refuse(site, exchange.reason(error))
        return answers

    def refuse(self, answers: Sequence[Answer[T]], reasons: Sequence[str | None]) -> list[Answer[T]]:
        """Refuse the answers that have a reason, and return the others."""
        kept = []
        for answer, reason in zip(answers, reasons, strict=True):
            if reason is None:
                kept.append(answer)
            else:
                self._refuse(answer.name, reason)
        if len(kept) < self._min_sites:
            whys = "; ".join(f"{site}: {self._reasons[site]}" for site in sorted(self._reasons)[-3:]) or "none"
            raise InputError(
                f"{self._stage}: {len(kept)} sites answered properly, at least {self._min_sites} are needed ({whys})"
            )
        return kept

    def left_out(self, answers: Iterable[Answer[Any]]) -> list[LeftOut]:
        """Name the sites that were refused."""
        return [LeftOut(site=site, reason=self._reasons[site]) for site in sorted(self._reasons)]

    def _refuse(self, site: str, reason: str) -> None:
        self._reasons[site] = reason
        logger.warning("%s: %s %s", self._stage, site, reason)

    def _why_none(self, failure: CollabCallError | None) -> str:
        """Say why there is no answer: NVFlare keeps what a site raised, and which calls it gave up."""
        if failure is None or isinstance(failure.cause, TimeoutError):
            return f"gave no answer within {self._timeout:g} s"
        return f"failed: {exchange.failure(str(failure.cause))}"


def _read_counts(kind: type[AnyCounts], _site: str, reply: Any) -> AnyCounts:
    types = {name: float if name == "widths" else int for name in kind._fields}
    if not isinstance(reply, dict) or {name: type(value) for name, value in reply.items()} != types:
        raise InputError(f"sent {shown(reply)}, expected what evaluate_reply gives")
    return kind(**reply).check()
