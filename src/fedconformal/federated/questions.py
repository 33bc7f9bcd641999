"""Questions for summaries: a site turns its model's outputs and the truth into a summary of scores or of losses."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base import registry
from fedconformal._base.arrays import as_alpha, as_array, as_labels, as_temperature, softmax
from fedconformal._base.groups import Groups
from fedconformal._base.names import abbreviate, name_key
from fedconformal._base.spec import build
from fedconformal.calibration.temperature import check_temperature
from fedconformal.errors import InputError
from fedconformal.federated.ask import Question, payload
from fedconformal.guarantees import Guarantee
from fedconformal.losses import Loss
from fedconformal.losses.loss import as_grid
from fedconformal.privacy.policy import Outgoing, Policy, count_patients
from fedconformal.scores import DEFAULT, AnyScore, RegressionScore, Score
from fedconformal.summaries import LossSummary, Provenance, Summary
from fedconformal.summaries.rows import summarize

FORMAT = "fcs1"
MOST_POINTS = 2**16
"""Most thresholds of a grid in one message."""
COLUMNS = {1: ("prediction",), 2: ("lower", "upper"), 3: ("lower", "prediction", "upper")}
"""Outputs of a regressor by their number: of a squared loss, and of a pinball loss for two and for three quantiles."""


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """A model's outputs on a site's own rows, none of which was used to fit anything.

    Parameters
    ----------
    outputs
        (n, J) logits or probabilities; a regressor's predictions; scores in [0, 1] for a loss.
    truth
        (n,) class indices or names; true numbers; the truth in the shape of the scores.
    probabilities
        Whether the outputs are probabilities, which may be zero.
    classes
        The class names in the order of the site's columns and label indices.
    groups
        Columns with one value a row, such as {"sex": [...]}, for a guarantee by group.
    ids
        Patient ids, one a row; they stay at the site, for its policy.
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


@dataclass(frozen=True, kw_only=True)
class SummaryQuestion(Question[Summary]):
    """A question for a summary; `guarantee` is its name, for the policies of sites."""

    stage = "calibrate"

    model: str
    """The fingerprint of the model whose outputs are scored."""
    guarantee: str | None = None

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
        policy.check(Outgoing.of(summary, guarantee=self.guarantee, patients=patients))
        return {"data": summary.to_bytes(), "format": FORMAT}

    def read(self, reply: Mapping[str, Any], *, site: str) -> Summary:
        """Read a summary, and refuse it unless it is what was asked for."""
        summary = Summary.from_bytes(payload(reply, FORMAT))
        check_provenance(self.provenance, summary.provenance)
        if summary.name != self.sent:
            raise InputError(f"sent a summary of the kind {summary.name}, asked for was {self.sent}")
        if len(summary.sites) != 1 or name_key(summary.sites[0]) != name_key(site):
            raise InputError(f"is {site or 'nobody'} and sent a summary of {summary}")
        return summary


@dataclass(frozen=True, kw_only=True)
class ScoreQuestion(SummaryQuestion):
    """A question for a summary of conformal scores; the fields are those of `calibrate`.

    >>> question = ScoreQuestion(model="m", alpha=0.1, kind="exact")
    >>> read_question(question.to_dict()) == question
    True
    >>> question.summarize(Outputs(outputs=[[2.0, 0.0], [0.0, 1.0]], truth=[0, 0]), site="clinic-a").n
    2
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
        described = {"guarantee": self.guarantee or "", "score": json.dumps(self.score.to_dict())}
        numbers = {"alpha": float(as_alpha(self.alpha)), "temperature": float(self.temperature)}
        return {**vars(self), **described, **numbers, "classes": list(self.classes)}

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
            by_class=bool(found["by_class"]),
            by_group=bool(found["by_group"]),
            trained=bool(found["trained"]),
            classes=tuple(found["classes"]),
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

    def read(self, reply: Mapping[str, Any], *, site: str) -> Summary:
        """Read a summary, and refuse it unless it is what was asked for."""
        found = super().read(reply, site=site)
        self.check_classes(found.provenance.classes)
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

    sent = LossSummary.name

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
        named = {"model": self.model, "guarantee": self.guarantee or ""}
        return {**named, "loss": json.dumps(self.loss.to_dict()), "thresholds": list(self.thresholds)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> LossQuestion:
        """Read the values of `to_dict`."""
        loss = registry.build(json.loads(str(found["loss"])), Loss)
        return replace(cls.about(str(found["model"]), loss, found["thresholds"]), guarantee=found["guarantee"] or None)

    @cached_property
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


def check_provenance(expected: Provenance, found: Provenance) -> None:
    """Refuse scores of another model, score or temperature than was asked for."""
    stated = replace(found, classes=None, precision=None)  # compared with those of the other sites
    if difference := expected.difference(stated):
        raise InputError(f"sent scores of something else: {difference}")
    if stated != expected:
        raise InputError("sent a summary for a calibration of its own, or one that is marked as estimated")


def classes_text(classes: Any) -> str:
    """Return a number of classes, or their names, for a reason."""
    return abbreviate(classes) if isinstance(classes, int) else f"the {len(classes)} ({abbreviate(', '.join(classes))})"


def for_score(outputs: ArrayLike, score: RegressionScore) -> NDArray[Any]:
    """Return the columns that a score takes; two outputs are whatever the score calls them.

    >>> from fedconformal import CQR
    >>> for_score([[1.0, 2.0, 3.0]], CQR())
    array([[1., 3.]])
    """
    found = as_array(outputs, "outputs")
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim == 2 and found.shape[1] == len(score.columns):
        return found
    there = COLUMNS.get(found.shape[1], ()) if found.ndim == 2 else ()
    if not {*score.columns} <= {*there}:
        wanted = " and ".join(score.columns)
        raise InputError(f"outputs: the model's have shape {found.shape}, and {score.name} takes {wanted}")
    return np.ascontiguousarray(found[:, [there.index(name) for name in score.columns]])
