"""Calibration over an engine, from one summary of every site, and temperature scaling before it.

The temperature is fitted as in `calibration/temperature.py`: Newton steps in 1/T on the likelihood of all rows. Sites
answer with sums over their rows. The first question requests the sums at many points at once, to save round trips over
the network.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedconformal._base.classes import as_class_indices
from fedconformal.calibration.calibrate import calibrate as calibrate_summaries
from fedconformal.calibration.predictor import Predictor
from fedconformal.calibration.temperature import LEAST, MOST, likelihood_of, minimise
from fedconformal.certificates.certificate import Certificate
from fedconformal.certificates.text import explain_uninformative
from fedconformal.errors import InputError
from fedconformal.federated.ask import Record, Sites, decode
from fedconformal.federated.questions import Outputs, ScoreQuestion, classes_text
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.policy import TEMPERATURE, Outgoing, Policy, count_patients
from fedconformal.scores import DEFAULT, AnyScore, RegressionScore
from fedconformal.summaries import Provenance, Summary

logger = logging.getLogger(__name__)

STARTS = tuple(np.geomspace(1 / MOST, 1 / LEAST, 33).tolist())
"""Candidate inverse temperatures for the start of the search."""
TINY = 2.0**-149
"""Smallest probability whose logarithm is taken, as of float32."""
MOST_POINTS = 100
"""Maximum number of inverse temperatures in one question."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibrated:
    """A predictor with its certificate, and the summaries for its verification."""

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
        The trained model in the engine's format, which is sent to every site with the question.
    alpha
        The miss rate.
    score
        The classification or regression score.
    guarantee
        The guarantee.
    temperature
        Divisor of the logits at the sites.
    kind
        The kind of summary.
    classes
        The class names in the order of the model's outputs; a site with other classes is refused.
    min_scores
        Minimum total number of scores.
    trained
        Whether the model was trained on these sites, so that there is no promise for a new site.
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
    answers = sites.ask(question, model)
    answers = sites.refuse(answers, deviations([answer.value.provenance for answer in answers]))
    summaries = tuple(answer.value for answer in answers)
    scores = sum(summary.n for summary in summaries)
    if scores < min_scores:
        raise InputError(f"calibrate: the sites sent {scores} scores, at least {min_scores} are needed")
    predictor = calibrate_summaries(summaries, alpha=alpha, guarantee=guarantee)
    if left_out := sites.left_out(answers):
        changed = msgspec.structs.replace(predictor.certificate, left_out=left_out)
        predictor = replace(predictor, certificate=changed)
    if why := explain_uninformative(predictor.certificate):
        logger.warning("calibrate: %s", why)
    return Calibrated(predictor=predictor, summaries=summaries)


def deviations(origins: Sequence[Provenance]) -> list[str | None]:
    """Return for each site how its classes or precision differ from the majority, or None; such are refused."""
    numbers = all(isinstance(origin.score, RegressionScore) for origin in origins)
    found = [(origin.precision or "float64") if numbers else origin.classes for origin in origins]
    stated = Counter(one for one in found if one is not None)
    usual = max(stated, key=stated.__getitem__, default=None)

    def text(value: Any) -> str:
        return f"predictions in {value}" if numbers else f"{classes_text(value)} classes"

    return [None if one in (None, usual) else f"has {text(one)}, most others have {text(usual)}" for one in found]


class TemperatureQuestion(Record, frozen=True, kw_only=True, tag="temperature"):
    """A question for value, slope and curvature of the likelihood of a site's rows at some inverse temperatures."""

    stage: ClassVar[str] = "temperature"

    points: Annotated[tuple[float, ...], msgspec.Meta(max_length=MOST_POINTS)]
    classes: tuple[str, ...] = ()

    def answer(self, rows: Outputs, *, model: str, policy: Policy) -> bytes:
        """Return three sums over a site's rows at each inverse temperature, unless its policy forbids it."""
        names, outputs, truth = rows.matched(self.classes)
        policy.check(Outgoing(kind=TEMPERATURE, rows=len(outputs), model=model, patients=count_patients(rows.ids)))
        labels = as_class_indices(truth, rows=len(outputs), classes=names or outputs.shape[1])
        logits = np.log(np.maximum(outputs.astype(np.float64), TINY)) if rows.probabilities else outputs
        sums = likelihood_of(logits, labels)
        return msgspec.msgpack.encode([list(map(float, sums(b))) for b in self.points])

    def read(self, data: bytes, *, site: str) -> NDArray[np.float64]:
        """Decode the sums; impossible values are refused."""
        rows = decode(data, list[tuple[float, float, float]], "answer")
        if len(rows) != len(self.points):
            raise InputError(f"sent sums at {len(rows)} points, expected {len(self.points)}")
        sums: NDArray[np.float64] = np.array(rows)
        if not np.isfinite(sums).all() or sums[:, 2].min() < 0:
            raise InputError("a sum is not finite, or a curvature negative")
        return sums


def fit_temperature(sites: Sites, model: Any, classes: Sequence[str] = ()) -> float:
    """Return the temperature of maximum likelihood over all sites' rows; a site with other classes is refused."""
    sites.fingerprint(model)  # refuses a model that is not finite

    def total(*points: float) -> list[tuple[float, float, float]]:
        answers = sites.ask(TemperatureQuestion(points=points, classes=tuple(classes)), model)
        return [(a, b, c) for a, b, c in np.sum([answer.value for answer in answers], axis=0).tolist()]

    known = dict(zip(STARTS, total(*STARTS), strict=True))
    start = min(STARTS, key=lambda b: abs(known[b][1]))
    return minimise(lambda b: known.get(b) or total(b)[0], start)
