"""Calibration on NVFlare: one more call to every site, through its Collab API.

Roth et al., "NVIDIA FLARE: federated learning from simulation to real-world", 2022. A site publishes `calibrate`, which
answers with a summary of its scores; the server's main function calls `calibrate` here, once, after training. The same
data give the threshold that they give on Flower, to the last bit.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.names import shown
from fedconformal.calibration.certificate import LeftOut
from fedconformal.errors import InputError
from fedconformal.evaluation import why_full
from fedconformal.federated import calibration as exchange
from fedconformal.federated.calibration import Calibrated, Question, Reader, conclude
from fedconformal.guarantees import ByClass, Guarantee
from fedconformal.scores import DEFAULT, Score
from fedconformal.summaries import Summary

try:
    from nvflare.collab import CollabCallError, collab
except ImportError:
    raise InputError("running on NVFlare needs nvflare 2.9 or newer: pip install 'fedconformal[nvflare]'") from None

__all__ = ["Calibrated", "calibrate", "calibrate_reply", "fingerprint"]

logger = logging.getLogger(__name__)

KEYS = {"data", "format", "num-examples"}


def calibrate_reply(
    question: Mapping[str, Any], weights: Mapping[str, ArrayLike], logits: ArrayLike, labels: ArrayLike
) -> dict[str, Any]:
    """Answer the server's `calibrate(question, weights)`: score rows that nothing was fitted to, and summarise.

    Args:
        question: the server's; it says which score, temperature and kind of summary.
        weights: the model that came with it.
        logits: of that model, (n, J).
        labels: (n,) class indices.
    """
    asked = Question.from_dict(question)
    if fingerprint(weights) != asked.model:
        raise InputError("the model in the call is not the one that is asked about")
    summary = asked.answer(logits, labels, site=collab.site_name)
    return {"data": summary.to_bytes(), "format": exchange.FORMAT, "num-examples": summary.n}


def calibrate(  # noqa: PLR0913
    weights: Mapping[str, ArrayLike],
    *,
    alpha: Any = 0.1,
    score: Score | None = None,
    guarantee: Guarantee | None = None,
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
    question = Question(
        model=fingerprint(weights),
        alpha=alpha,
        score=DEFAULT if score is None else score,
        temperature=temperature,
        kind=kind,
        by_class=isinstance(guarantee, ByClass),
    )
    summaries, left_out = _gather(question, weights, timeout)
    if len(summaries) < min_sites:
        whys = "; ".join(f"{one.site}: {one.reason}" for one in left_out[-3:])
        raise InputError(
            f"calibrate: {len(summaries)} sites answered properly, at least {min_sites} are needed ({whys or 'none'})"
        )
    found = conclude(summaries, left_out, alpha=alpha, guarantee=guarantee, min_scores=min_scores)
    if why := why_full(found.certificate):
        logger.warning("calibrate: %s", why)
    return found


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


def _gather(
    question: Question, weights: Mapping[str, ArrayLike], timeout: float
) -> tuple[list[Summary], list[LeftOut]]:
    """Collect the summaries of all sites, and name those that sent none that can be used."""
    sites = sorted(client.name for client in collab.clients)
    if not sites:
        return [], []
    replies = collab.clients(timeout=timeout).calibrate(question.to_dict(), dict(weights))
    answers, reader, found, reasons = dict(replies), Reader(question), {}, {}
    for site in sites:
        try:
            if site not in answers:
                raise InputError(_why_none(replies.failures.get(site), timeout))
            found[site] = _read(reader, site, answers[site])
        except exchange.MALFORMED as error:
            reasons[site] = exchange.reason(error)
    for site, reason in zip(list(found), exchange.spoken_for(list(found.items())), strict=True):
        if reason is not None:
            reasons[site] = reason
            del found[site]
    for site, reason in reasons.items():
        logger.warning("calibrate: %s %s", site, reason)
    return list(found.values()), [LeftOut(site=site, reason=reasons[site]) for site in sorted(reasons)]


def _why_none(failure: CollabCallError | None, timeout: float) -> str:
    """Say why there is no answer: NVFlare tells what a site raised, and which calls it gave up."""
    if failure is None or isinstance(failure.cause, TimeoutError):
        return f"gave no answer within {timeout:g} s"
    return f"failed: {exchange.last_line(str(failure.cause))}"


def _read(reader: Reader, site: str, reply: Any) -> Summary:
    if not isinstance(reply, dict) or set(reply) != KEYS:
        raise InputError(f"sent {shown(reply)}, expected what calibrate_reply gives")
    return reader.read(reply["data"], reply["format"], rows=reply["num-examples"], site=site)
