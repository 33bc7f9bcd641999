"""Calibration over an engine: one question, one summary of scores or of losses from every site, one predictor."""

from __future__ import annotations

import contextlib
import json
import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base import registry
from fedconformal._base.arrays import as_alpha, as_labels, as_temperature, softmax
from fedconformal._base.groups import Groups
from fedconformal._base.names import abbreviate, as_name, name_key
from fedconformal._base.spec import build
from fedconformal.calibration.calibrate import calibrate as calibrate_summaries
from fedconformal.calibration.temperature import check_temperature
from fedconformal.certificates.certificate import Certificate, LeftOut
from fedconformal.certificates.uninformative import explain_uninformative
from fedconformal.errors import InputError
from fedconformal.federated.ask import MAX_BYTES, MAX_REASON, Answer, Question, Sites, payload, whole_number
from fedconformal.federated.outputs import for_score
from fedconformal.guarantees import Guarantee
from fedconformal.losses import Loss
from fedconformal.losses.loss import as_grid
from fedconformal.privacy.policy import Leaving, Policy, count_patients
from fedconformal.scores import DEFAULT, AnyScore, RegressionScore, Score
from fedconformal.summaries import LossSummary, Provenance, Summary, pool
from fedconformal.summaries.batch import SummaryBatch
from fedconformal.summaries.rows import summarize

logger = logging.getLogger(__name__)

FORMAT = "fcs1"
MAX_LEFT_OUT = 10_000
"""Most sites that may be missing behind one aggregator; a certificate names them all."""
MOST_POINTS = 2**16
"""Most thresholds of a grid in one message."""


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """A model's outputs on a site's own rows, none of which was used to fit anything.

    Attributes:
        outputs: (n, J) logits or probabilities; a regressor's predictions; scores in [0, 1] for a loss.
        truth: (n,) class indices or names; true numbers; the truth in the shape of the scores.
        probabilities: whether the outputs are probabilities, which may be zero.
        classes: the class names in the order of the site's columns and label indices.
        groups: columns with one value a row, such as {"sex": [...]}, for a guarantee by group.
        ids: of the patients, one a row; they stay at the site, and its policy may want a number of different ones.
    """

    outputs: Any
    truth: Any
    probabilities: bool = False
    classes: Sequence[str] | None = None
    groups: Groups | None = None
    ids: Iterable[Any] | None = None

    def probs(self, temperature: float) -> Any:
        """Return the probabilities at a temperature."""
        if not self.probabilities:
            return softmax(np.asarray(self.outputs, dtype=np.float64), temperature=temperature)
        if temperature == 1:
            return self.outputs
        powers = np.asarray(self.outputs, dtype=np.float64) ** (1 / temperature)
        return powers / powers.sum(axis=1, keepdims=True)


class SiteSummary(NamedTuple):
    """The answer of a site: a summary, and, from an aggregator, the sites that it left out."""

    summary: Summary
    left_out: Sequence[LeftOut] = ()


@dataclass(frozen=True, kw_only=True)
class SummaryQuestion(Question[SiteSummary]):
    """A question for a summary of scores, or of losses.

    Attributes:
        model: the fingerprint of the model whose outputs are scored.
        guarantee: the name of the guarantee, for the policies of sites.
    """

    stage = "calibrate"

    model: str
    guarantee: str | None = None
    _decoded: dict[bytes, Summary] = field(default_factory=dict, init=False, compare=False, repr=False)
    _checked: list[Provenance] = field(default_factory=list, init=False, compare=False, repr=False)

    @property
    @abstractmethod
    def provenance(self) -> Provenance:
        """The provenance that a summary has to state."""

    @property
    @abstractmethod
    def sent(self) -> str:
        """The kind of summary that has to be sent."""

    @abstractmethod
    def summarize(self, rows: Outputs, *, site: str) -> Summary:
        """Summarise a site's rows."""

    def answer(self, rows: Outputs, *, site: str, model: str, policy: Policy) -> dict[str, Any]:
        """Return a site's reply, unless its policy forbids it."""
        if model != self.model:
            raise InputError("the model in the message is not the one that is asked about")
        return self.reply(self.summarize(rows, site=site), policy=policy, patients=count_patients(rows.ids))

    def reply(self, summary: Summary, *, policy: Policy, patients: int | None = None) -> dict[str, Any]:
        """Return the reply with this summary, unless the site's policy forbids it."""
        policy.check(Leaving.of(summary, guarantee=self.guarantee, patients=patients))
        return {"data": summary.to_bytes(), "format": FORMAT, "rows": summary.n}

    def pooled_reply(
        self, summaries: Sequence[Summary], left_out: Sequence[LeftOut], *, policy: Policy
    ) -> dict[str, Any]:
        """Return the reply of an aggregator, which pools the summaries of its sites."""
        reply = self.reply(pool(summaries), policy=policy)
        return reply | {"left-out": [f"{one.site}\n{one.reason}" for one in left_out]}  # also empty: it marks a pool

    def look_ahead(self, replies: Iterable[Mapping[str, Any]]) -> None:
        """Decode summaries together, several times faster; if one is bad, each by itself later."""
        found = [reply.get("data") for reply in replies]
        messages = [data for data in found if isinstance(data, bytes) and len(data) <= MAX_BYTES]
        self._decoded.clear()
        with contextlib.suppress(InputError):
            self._decoded.update(zip(messages, SummaryBatch.from_bytes(messages), strict=True))

    def read(self, reply: Mapping[str, Any], *, site: str) -> SiteSummary:
        """Read a summary, and refuse it unless it is what was asked for."""
        pooled = "left-out" in reply
        data = payload(reply, FORMAT, "rows", *(["left-out"] if pooled else []))
        summary = self._decoded.get(data) or Summary.from_bytes(data)
        if not any(
            summary.provenance is one for one in self._checked
        ):  # summaries that were decoded together share one
            check_origin(self.provenance, summary.provenance)
            self._checked[:] = [summary.provenance]
        if summary.name != self.sent:
            raise InputError(f"sent a summary of the kind {summary.name}, asked for was {self.sent}")
        if summary.n != whole_number(reply, "rows", least=1):
            raise InputError(
                f"sent a summary of {summary.n} scores and says that it has {abbreviate(reply['rows'])} rows"
            )
        alone = len(summary.sites) == 1 and not pooled
        if not summary.sites or (alone and name_key(summary.sites[0]) != name_key(site)):
            raise InputError(f"is {site or 'nobody'} and sent a summary of {summary}")
        return SiteSummary(summary, _read_left_out(reply["left-out"]) if pooled else ())


@dataclass(frozen=True, kw_only=True)
class ScoreQuestion(SummaryQuestion):
    """A question for a summary of conformal scores.

    >>> question = ScoreQuestion(model="m", alpha=0.1, kind="exact")
    >>> read_question(question.to_dict()) == question
    True
    >>> question.summarize(Outputs(outputs=[[2.0, 0.0], [0.0, 1.0]], truth=[0, 0]), site="clinic-a").n
    2

    Attributes:
        alpha: where precision matters most.
        score: of labels, or of numbers.
        temperature: by which the sites divide logits.
        kind: of summary.
        by_class: whether the summary separates classes.
        by_group: whether it separates groups, which the site's rows must then have.
        trained: whether the model was trained on the sites that are asked.
        classes: the class names in the order of the model's outputs; a site with others is refused.
    """

    alpha: float = 0.1
    score: AnyScore = DEFAULT
    temperature: float = 1.0
    kind: str = "ranks"
    by_class: bool = False
    by_group: bool = False
    trained: bool = False
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_temperature(as_temperature(self.temperature))

    @classmethod
    def about(
        cls, model: str, *, score: AnyScore | str = DEFAULT, guarantee: Guarantee | str | None = None, **others: Any
    ) -> ScoreQuestion:
        """Ask for what a guarantee needs."""
        named: dict[str, Any] = {}
        if guarantee is not None:
            found = build(guarantee, Guarantee)
            named = {"guarantee": found.name, "by_class": found.by_class, "by_group": found.by_group}
        return cls(model=model, score=build(score, AnyScore), **named, **others)

    def to_dict(self) -> dict[str, Any]:
        """Return the question in plain values."""
        return {
            "model": self.model,
            "guarantee": self.guarantee or "",
            "alpha": float(as_alpha(self.alpha)),
            "score": json.dumps(self.score.to_dict()),
            "temperature": float(self.temperature),
            "kind": self.kind,
            "by-class": self.by_class,
            "by-group": self.by_group,
            "trained": self.trained,
            **({"classes": list(self.classes)} if self.classes else {}),
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> ScoreQuestion:
        """Read the values of `to_dict`."""
        return cls(
            model=str(found["model"]),
            guarantee=found["guarantee"] or None,
            alpha=found["alpha"],
            score=registry.build(json.loads(str(found["score"])), AnyScore),
            temperature=found["temperature"],
            kind=str(found["kind"]),
            by_class=bool(found["by-class"]),
            by_group=bool(found["by-group"]),
            trained=bool(found["trained"]),
            classes=tuple(found.get("classes", ())),
        )

    @property
    def sent(self) -> str:
        """The kind of summary that has to be sent."""
        return self.kind + " by class" * self.by_class + " by group" * self.by_group

    @property
    def provenance(self) -> Provenance:
        """The provenance that a summary has to state."""
        at = None if isinstance(self.score, RegressionScore) else self.temperature
        return Provenance(score=self.score, model=self.model, temperature=at, trained=self.trained)

    def read(self, reply: Mapping[str, Any], *, site: str) -> SiteSummary:
        """Read a summary, and refuse it unless it is what was asked for."""
        found = super().read(reply, site=site)
        self.check_classes(found.summary.provenance.classes)
        return found

    def check_classes(self, stated: Any) -> None:
        """Refuse other class names than those of the question."""
        if self.classes and stated != self.classes:
            own = f"has {classes_text(stated)} classes" if stated is not None else "does not name its classes"
            raise InputError(f"{own}, the question has {classes_text(self.classes)}; use the same order")

    def summarize(self, rows: Outputs, *, site: str) -> Summary:
        """Score a site's rows, and summarise the scores."""
        about: dict[str, Any] = {"alpha": self.alpha, "model": self.model, "site": site, "trained": self.trained}
        if self.by_group:
            if not rows.groups:
                raise InputError("asked is by group, and this site gives no groups; pass groups with outputs and truth")
            about["groups"] = rows.groups
        if isinstance(self.score, RegressionScore):
            outputs = for_score(rows.outputs, self.score)
            return summarize(outputs, rows.truth, kind=self.kind, score=self.score, **about)
        if not isinstance(self.score, Score):
            raise InputError(f"asked is for {abbreviate(self.score.name)}, which is neither for labels nor for numbers")
        classes, truth = self._classes_of(rows)
        about |= {"by_class": self.by_class, "temperature": self.temperature, "classes": classes}
        return summarize(rows.probs(self.temperature), truth, kind=self.kind, score=self.score, **about)

    def _classes_of(self, rows: Outputs) -> tuple[Sequence[str] | None, Any]:
        """Return the class names and the labels by name, or None and the label indices if nobody names classes."""
        truth, stated = np.asarray(rows.truth), None if rows.classes is None else tuple(map(str, rows.classes))
        named = truth.dtype.kind in "OSU"
        if self.classes:
            if stated is None and not named:
                raise InputError(
                    f"asked is about the classes {abbreviate(', '.join(self.classes))}, and this site names none; pass "
                    "classes in the order of its label indices, or labels as names"
                )
            self.check_classes(stated or self.classes)
        if stated is not None and not named:
            truth = np.array(stated)[as_labels(truth, rows=len(truth), classes=len(stated), name="labels")]
        return stated or self.classes or None, truth


@dataclass(frozen=True, kw_only=True)
class LossQuestion(SummaryQuestion):
    """A question for the sums of a loss over a site's rows, at each threshold of a grid.

    >>> from fedconformal import FalseNegativeRate
    >>> question = LossQuestion.about("m", FalseNegativeRate(), [0.0, 0.5, 1.0])
    >>> read_question(question.to_dict()) == question
    True
    >>> question.summarize(Outputs(outputs=[[0.75, 0.25]], truth=[[True, True]]), site="clinic-a").mean_losses
    array([1. , 0.5, 0. ])
    """

    loss: Loss
    thresholds: tuple[float, ...]

    @classmethod
    def about(
        cls,
        model: str,
        loss: Loss | str,
        thresholds: ArrayLike | None = None,
        guarantee: Guarantee | str | None = None,
    ) -> LossQuestion:
        """Ask for a loss on a grid, by default 0, 0.001, ..., 1."""
        grid = as_grid(thresholds)
        if len(grid) > MOST_POINTS:
            raise InputError(f"thresholds: has {len(grid)} points, at most {MOST_POINTS} fit into a question")
        name = None if guarantee is None else build(guarantee, Guarantee).name
        return cls(model=model, loss=build(loss, Loss), thresholds=tuple(grid.tolist()), guarantee=name)

    def to_dict(self) -> dict[str, Any]:
        """Return the question in plain values."""
        described = json.dumps(self.loss.to_dict())
        named = {"model": self.model, "guarantee": self.guarantee or ""}
        return {**named, "loss": described, "thresholds": list(self.thresholds)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> LossQuestion:
        """Read the values of `to_dict`."""
        loss = registry.build(json.loads(str(found["loss"])), Loss)
        return replace(cls.about(str(found["model"]), loss, found["thresholds"]), guarantee=found["guarantee"] or None)

    @property
    def sent(self) -> str:
        """The kind of summary that has to be sent."""
        return LossSummary.name

    @property
    def provenance(self) -> Provenance:
        """The provenance that a summary has to state."""
        return self._summary([[0.0] * len(self.thresholds)], site="any").provenance

    def summarize(self, rows: Outputs, *, site: str) -> LossSummary:
        """Evaluate the loss on a site's rows, and add it up."""
        if rows.groups is not None:
            raise InputError("groups: losses are added up over all rows; leave them out")
        return self._summary(self.loss.evaluate(rows.outputs, rows.truth, thresholds=self.thresholds), site=site)

    def _summary(self, losses: ArrayLike, *, site: str) -> LossSummary:
        about: dict[str, Any] = {"thresholds": self.thresholds, "loss": self.loss, "rising": not self.loss.monotone}
        return LossSummary.of_losses(losses, site=site, model=self.model, **about)


def read_question(found: Mapping[str, Any]) -> ScoreQuestion | LossQuestion:
    """Read either kind of question for a summary."""
    return LossQuestion.from_dict(found) if "loss" in found else ScoreQuestion.from_dict(found)


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibrated:
    """The predictor, whose certificate states the promise, and the summaries from which it can be verified."""

    predictor: Any
    summaries: tuple[Summary, ...] = ()

    @property
    def certificate(self) -> Certificate:
        """The certificate of the predictor."""
        found: Certificate = self.predictor.certificate
        return found


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

    Args:
        sites: the engine's sites, such as Flower's `Federation`.
        model: the trained model in the engine's own form; every site gets it with the question.
        alpha: the miss rate.
        score: of labels, or of numbers.
        guarantee: the promise.
        temperature: by which the sites divide logits.
        kind: of summary.
        classes: the class names in the order of the model's outputs; a site with others is refused.
        min_scores: with fewer in all there is no calibration.
        trained: whether the model was trained on these sites, so that nothing is promised to a new one.
    """
    about = {"temperature": temperature, "kind": kind, "trained": trained, "classes": tuple(classes)}
    fingerprint = sites.fingerprint(model)
    question = ScoreQuestion.about(fingerprint, alpha=alpha, score=score, guarantee=guarantee, **about)
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

    Args:
        sites: the engine's sites.
        model: the trained model in the engine's own form.
        risk: the limit on the expected loss.
        loss: such as "false-negative-rate".
        thresholds: the grid, fixed beforehand, by default 0, 0.001, ..., 1.
        guarantee: the promise.
        safe: the action where no threshold is enough; by default that of the loss.
        min_scores: with fewer rows in all there is no calibration.
    """
    question = LossQuestion.about(sites.fingerprint(model), loss, thresholds, guarantee)
    return _calibrated(sites, model, question, min_scores, risk=risk, safe=safe, guarantee=guarantee)


def gather(sites: Sites, model: Any, question: SummaryQuestion) -> tuple[Sequence[Answer[SiteSummary]], list[LeftOut]]:
    """Collect the summaries of all sites, and name the sites without a usable one; an aggregator does the same."""
    answers = sites.ask(question, model)
    answers = sites.refuse(answers, reasons_to_refuse([(answer.name, answer.value.summary) for answer in answers]))
    left_out = sites.left_out(answers)
    covered = {site for answer in answers for site in answer.value.summary.sites}
    for answer in answers:
        # Under the aggregator's name, as its sites may have names, or numbers, that others have.
        found = [one for one in answer.value.left_out if one.site not in covered]
        left_out += [LeftOut(site=f"{answer.name}/{one.site}", reason=one.reason) for one in found]
    return answers, left_out


def _calibrated(sites: Sites, model: Any, question: SummaryQuestion, min_scores: int, **wanted: Any) -> Calibrated:
    answers, left_out = gather(sites, model, question)
    summaries = tuple(answer.value.summary for answer in answers)
    scores = sum(summary.n for summary in summaries)
    if scores < min_scores:
        raise InputError(f"calibrate: the sites sent {scores} scores, at least {min_scores} are needed")
    predictor = calibrate_summaries(summaries, **wanted)
    if left_out:
        changed = msgspec.structs.replace(predictor.certificate, left_out=list(left_out))
        predictor = replace(predictor, certificate=changed)
    if why := explain_uninformative(predictor.certificate):
        logger.warning("calibrate: %s", why)
    return Calibrated(predictor=predictor, summaries=summaries)


def check_origin(expected: Provenance, found: Provenance) -> None:
    """Refuse scores of another model, score or temperature than was asked for."""
    stated = replace(found, classes=None, precision=None)  # compared with those of the other sites
    if difference := expected.difference(stated):
        raise InputError(f"sent scores of something else: {difference}")
    if stated != expected:
        raise InputError("sent a summary for a calibration of its own, or one that is marked as estimated")


def unusual(provenances: Sequence[Provenance]) -> list[str | None]:
    """Say why a site's classes, or the precision of its numbers, differ from most others', or None.

    >>> unusual([Provenance(classes=classes) for classes in (3, 3, None, 2)])
    [None, None, None, 'has 2 classes, most others have 3']
    >>> from fedconformal import Residual
    >>> unusual([Provenance(score=Residual(), precision=one) for one in ("float32", None, "float32")])
    [None, 'has predictions in float64, most others have float32', None]
    """
    if provenances and all(isinstance(provenance.score, RegressionScore) for provenance in provenances):
        rounded = [provenance.precision or "float64" for provenance in provenances]
        most = Counter(rounded).most_common(1)[0][0]
        return [None if one == most else f"has predictions in {one}, most others have {most}" for one in rounded]
    found = [provenance.classes for provenance in provenances]
    stated = Counter(classes for classes in found if classes is not None)
    if len(stated) < 2:
        return [None] * len(found)
    usual = stated.most_common(1)[0][0]
    others = f"most others have {classes_text(usual)}"
    return [None if one in (None, usual) else f"has {classes_text(one)} classes, {others}" for one in found]


def reasons_to_refuse(found: Sequence[tuple[str, Summary]]) -> list[str | None]:
    """Say for every sender's summary why it cannot be used, or None: each site counts in one summary only.

    A pool cannot answer for a site that answers for itself, so no sender can push another one out. Nor can a site with
    another number of classes than most stop the calibration of the others.

    >>> from fedconformal import Summary, pool
    >>> a, b, c = (Summary.of_scores([0.5], site=site) for site in "abc")
    >>> reasons_to_refuse([("a", pool([a, b])), ("b", b), ("c", c)])
    ['sent a summary of b, which answers for itself', None, None]
    """
    compared = [(name_key(sender), tuple(map(name_key, summary.sites))) for sender, summary in found]
    themselves = {sender for sender, sites in compared if sender in sites}
    seen: set[str] = set()
    reasons: list[str | None] = []
    for (sender, sites), odd in zip(compared, unusual([summary.provenance for _, summary in found]), strict=True):
        if odd is not None:
            reasons.append(odd)
            continue
        other = next((one for one in sites if one != sender and one in themselves), None)
        twice = next((one for one in sites if one in seen), None)
        if other is not None:
            reasons.append(f"sent a summary of {abbreviate(other)}, which answers for itself")
        elif twice is not None:
            reasons.append(f"sent a summary of {abbreviate(twice)}, which has been sent before")
        else:
            seen.update(sites)
            reasons.append(None)
    return reasons


def classes_text(classes: Any) -> str:
    """Return a number of classes, or their names, for a reason."""
    return abbreviate(classes) if isinstance(classes, int) else f"the {len(classes)} ({abbreviate(', '.join(classes))})"


def _read_left_out(found: Any) -> list[LeftOut]:
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise InputError("does not say properly whom it left out")
    if len(found) > MAX_LEFT_OUT:
        raise InputError(f"says that it left out {len(found)} sites, more than {MAX_LEFT_OUT}")
    parts = [one.partition("\n") for one in found]
    return [
        LeftOut(site=as_name(site, "a site left out"), reason=abbreviate(reason, MAX_REASON))
        for site, _, reason in parts
    ]
