"""Calibration over an engine: one question, one summary from every site, one predictor; and the temperature before it.

The temperature is found as in `calibration/temperature.py`: Newton steps in 1/T on the likelihood of all rows. Sites
answer with sums over their rows. The first question asks for the sums at many points at once, as every question over a
network takes a while.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.registry import build
from fedconformal.calibration.calibrate import calibrate as calibrate_summaries
from fedconformal.calibration.predictor import Predictor
from fedconformal.calibration.temperature import LEAST, MOST, likelihood_of, minimise
from fedconformal.certificates.certificate import Certificate
from fedconformal.certificates.text import explain_uninformative
from fedconformal.errors import InputError
from fedconformal.federated.ask import Record, Sites, decode
from fedconformal.federated.questions import LossQuestion, ScoreQuestion, SummaryQuestion, classes_text
from fedconformal.guarantees import Guarantee
from fedconformal.losses import Loss
from fedconformal.privacy.policy import TEMPERATURE, Outgoing, Policy
from fedconformal.scores import DEFAULT, AnyScore, RegressionScore
from fedconformal.summaries import Provenance, Summary

logger = logging.getLogger(__name__)

STARTS = tuple(np.geomspace(1 / MOST, 1 / LEAST, 33).tolist())
"""Inverse temperatures where the search may start."""
MOST_POINTS = 100
"""Most inverse temperatures in one question."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibrated:
    """The predictor, whose certificate states the promise, and the summaries from which it can be verified."""

    predictor: Predictor
    summaries: tuple[Summary, ...] = ()

    @property
    def certificate(self) -> Certificate:
        """The certificate of the predictor."""
        return self.predictor.certificate


def calibrate(  # noqa: PLR0913
    sites: Sites,
    model: Any,
    *,
    alpha: Any = 0.1,
    score: AnyScore | str = DEFAULT,
    guarantee: Guarantee | str = "mixture",
    temperature: float = 1.0,
    kind: str = "ranks",
    classes: Sequence[str] = (),
    min_scores: int = 1,
    trained: bool = False,
) -> Calibrated:
    """Ask every site for a summary of its scores, and calibrate.

    Parameters
    ----------
    sites
        The engine's sites, such as Flower's `Federation`.
    model
        The trained model in the engine's own form; every site gets it with the question.
    alpha
        The miss rate.
    score
        Of labels, or of numbers.
    guarantee
        The promise.
    temperature
        By which the sites divide logits.
    kind
        Of summary.
    classes
        The class names in the order of the model's outputs; a site with others is refused.
    min_scores
        With fewer in all there is no calibration.
    trained
        Whether the model was trained on these sites, so that nothing is promised to a new one.
    """
    question = ScoreQuestion.about(
        sites.fingerprint(model),
        alpha=alpha,
        score=score,
        guarantee=guarantee,
        temperature=temperature,
        kind=kind,
        trained=trained,
        classes=tuple(classes),
    )
    return _calibrated(sites, model, question, min_scores, alpha=alpha, guarantee=guarantee)


def calibrate_risk(
    sites: Sites,
    model: Any,
    *,
    risk: Any,
    loss: Loss | str,
    thresholds: ArrayLike | None = None,
    guarantee: Guarantee | str = "mixture",
    safe: str | None = None,
    min_scores: int = 1,
) -> Calibrated:
    """Ask every site for the sums of its losses, and calibrate a threshold that limits the expected loss.

    Parameters
    ----------
    sites, model, guarantee, min_scores
        As in `calibrate`.
    risk
        The limit on the expected loss.
    loss
        Such as "false-negative-rate".
    thresholds
        The grid, fixed beforehand, by default 0, 0.001, ..., 1.
    safe
        The action where no threshold is enough; by default that of the loss.
    """
    promised = build(guarantee, Guarantee)
    question = LossQuestion.about(sites.fingerprint(model), loss, thresholds)
    return _calibrated(sites, model, question, min_scores, risk=risk, safe=safe, guarantee=promised)


def _calibrated(sites: Sites, model: Any, question: SummaryQuestion, min_scores: int, **wanted: Any) -> Calibrated:
    answers = sites.ask(question, model)
    answers = sites.refuse(answers, unusual([answer.value.provenance for answer in answers]))
    summaries = tuple(answer.value for answer in answers)
    scores = sum(summary.n for summary in summaries)
    if scores < min_scores:
        raise InputError(f"calibrate: the sites sent {scores} scores, at least {min_scores} are needed")
    predictor = calibrate_summaries(summaries, **wanted)
    if left_out := sites.left_out(answers):
        changed = msgspec.structs.replace(predictor.certificate, left_out=left_out)
        predictor = replace(predictor, certificate=changed)
    if why := explain_uninformative(predictor.certificate):
        logger.warning("calibrate: %s", why)
    return Calibrated(predictor=predictor, summaries=summaries)


def unusual(origins: Sequence[Provenance]) -> list[str | None]:
    """Say why a site's classes, or the precision of its numbers, differ from most others', or None.

    A site with other classes than most is refused by itself, and cannot stop the calibration of the others.

    >>> unusual([Provenance(classes=classes) for classes in (3, 3, None, 2)])
    [None, None, None, 'has 2 classes, most others have 3']
    >>> from fedconformal import Residual
    >>> unusual([Provenance(score=Residual(), precision=one) for one in ("float32", None, "float32")])
    [None, 'has predictions in float64, most others have float32', None]
    """
    if origins and all(isinstance(origin.score, RegressionScore) for origin in origins):
        rounded = [origin.precision or "float64" for origin in origins]
        most = Counter(rounded).most_common(1)[0][0]
        return [None if one == most else f"has predictions in {one}, most others have {most}" for one in rounded]
    found = [origin.classes for origin in origins]
    stated = Counter(classes for classes in found if classes is not None)
    if len(stated) < 2:
        return [None] * len(found)
    usual = stated.most_common(1)[0][0]
    others = f"most others have {classes_text(usual)}"
    return [None if one in (None, usual) else f"has {classes_text(one)} classes, {others}" for one in found]


class TemperatureQuestion(Record, frozen=True, kw_only=True, tag="temperature"):
    """A question for the likelihood of a site's rows at some inverse temperatures: its value, slope and curvature."""

    stage: ClassVar[str] = "temperature"

    points: Annotated[tuple[float, ...], msgspec.Meta(max_length=MOST_POINTS)]

    def answer(self, logits: ArrayLike, labels: ArrayLike, *, model: str, policy: Policy) -> bytes:
        """Return three sums over a site's rows at each inverse temperature, unless its policy forbids it."""
        policy.check(Outgoing(kind=TEMPERATURE, rows=len(np.asarray(labels)), model=model))
        sums = likelihood_of(logits, labels)
        return msgspec.msgpack.encode([list(map(float, sums(b))) for b in self.points])

    def read(self, data: bytes, *, site: str) -> NDArray[np.float64]:
        """Refuse sums that no rows can have."""
        rows = decode(data, list[tuple[float, float, float]], "answer")
        if len(rows) != len(self.points):
            raise InputError(f"sent sums at {len(rows)} points, asked for were {len(self.points)}")
        sums: NDArray[np.float64] = np.array(rows)
        if not np.isfinite(sums).all() or sums[:, 2].min() < 0:
            raise InputError("a sum is not finite, or a curvature negative")
        return sums


def fit_temperature(sites: Sites, model: Any) -> float:
    """Find the temperature that makes the labels of all sites' rows most likely."""
    sites.fingerprint(model)  # refuses a model that is not finite

    def total(*points: float) -> list[tuple[float, float, float]]:
        answers = sites.ask(TemperatureQuestion(points=points), model)
        return [(a, b, c) for a, b, c in np.sum([answer.value for answer in answers], axis=0).tolist()]

    known = dict(zip(STARTS, total(*STARTS), strict=True))
    start = min(STARTS, key=lambda b: abs(known[b][1]))
    return minimise(lambda b: known.get(b) or total(b)[0], start)
