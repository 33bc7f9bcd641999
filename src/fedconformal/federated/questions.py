"""Questions for summaries: a site turns its model's outputs and the truth into a summary of scores or of losses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base import registry
from fedconformal._base.arrays import as_alpha, as_array, as_labels, as_temperature, softmax
from fedconformal._base.groups import Groups
from fedconformal._base.names import abbreviate, name_key
from fedconformal._base.registry import build
from fedconformal.calibration.temperature import check_temperature
from fedconformal.errors import InputError
from fedconformal.federated.ask import Record
from fedconformal.guarantees import Guarantee
from fedconformal.losses import Loss
from fedconformal.losses.loss import as_grid
from fedconformal.privacy.policy import Outgoing, Policy, count_patients
from fedconformal.scores import DEFAULT, AnyScore, RegressionScore, Score
from fedconformal.summaries import LossSummary, Provenance, Summary
from fedconformal.summaries.rows import summarize

MOST_POINTS = 2**16
"""Most thresholds of a grid in one message."""
COLUMNS = {1: ("prediction",), 2: ("lower", "upper"), 3: ("lower", "prediction", "upper")}
"""Columns of a regressor's outputs, by their number."""


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


class SummaryQuestion(Record, frozen=True, kw_only=True):
    """A question for a summary."""

    stage: ClassVar[str] = "calibrate"

    model: str
    """The fingerprint of the model whose outputs are scored."""

    @property
    def provenance(self) -> Provenance:
        """The provenance that a summary has to state."""
        raise NotImplementedError

    @property
    def sent(self) -> str:
        """The kind of summary that has to be sent."""
        raise NotImplementedError

    def summarize(self, rows: Outputs, *, site: str) -> Summary:
        """Summarise a site's rows."""
        raise NotImplementedError

    def answer(self, rows: Outputs, *, site: str, model: str, policy: Policy) -> bytes:
        """Return a site's answer, unless its policy forbids it."""
        if model != self.model:
            raise InputError("the model in the message is not the one that is asked about")
        summary = self.summarize(rows, site=site)
        policy.check(Outgoing.of(summary, patients=count_patients(rows.ids)))
        return summary.to_bytes()

    def read(self, data: bytes, *, site: str) -> Summary:
        """Read a summary, and refuse it unless it is what was asked for."""
        summary = Summary.from_bytes(data)
        check_provenance(self.provenance, summary.provenance)
        if summary.name != self.sent:
            raise InputError(f"sent a summary of the kind {summary.name}, asked for was {self.sent}")
        if len(summary.sites) != 1 or name_key(summary.sites[0]) != name_key(site):
            raise InputError(f"is {site or 'nobody'} and sent a summary of {summary}")
        return summary


class ScoreQuestion(SummaryQuestion, frozen=True, kw_only=True, tag="scores"):
    """A question for a summary of conformal scores; the fields are those of `calibrate`.

    >>> question = ScoreQuestion(model="m", alpha=0.1, kind="exact")
    >>> question.summarize(Outputs(outputs=[[2.0, 0.0], [0.0, 1.0]], truth=[0, 0]), site="clinic-a").n
    2
    """

    alpha: float = 0.1
    described: str = json.dumps(DEFAULT.to_dict())
    """The score, by its name and parameters in JSON."""
    temperature: float = 1.0
    kind: str = "ranks"
    by_class: bool = False
    by_group: bool = False
    trained: bool = False
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_temperature(as_temperature(self.temperature))
        self.provenance  # noqa: B018 (which builds the score)

    @classmethod
    def about(
        cls,
        model: str,
        *,
        alpha: Any = 0.1,
        score: AnyScore | str = DEFAULT,
        guarantee: Guarantee | str = "mixture",
        **others: Any,
    ) -> ScoreQuestion:
        """Ask for what a guarantee needs."""
        promised = build(guarantee, Guarantee)
        return cls(
            model=model,
            alpha=float(as_alpha(alpha)),
            described=json.dumps(build(score, AnyScore).to_dict()),
            by_class=promised.by_class,
            by_group=promised.by_group,
            **others,
        )

    @property
    def score(self) -> AnyScore:
        """The score."""
        return registry.rebuild(json.loads(self.described), AnyScore)

    @property
    def sent(self) -> str:
        """The kind of summary that has to be sent."""
        return self.kind + " by class" * self.by_class + " by group" * self.by_group

    @property
    def provenance(self) -> Provenance:
        """The provenance that a summary has to state."""
        score = self.score
        at = None if isinstance(score, RegressionScore) else self.temperature
        return Provenance(score=score, model=self.model, temperature=at, trained=self.trained)

    def read(self, data: bytes, *, site: str) -> Summary:
        """Read a summary, and refuse it unless it is what was asked for."""
        found = super().read(data, site=site)
        self.check_classes(found.provenance.classes)
        return found

    def check_classes(self, stated: Any) -> None:
        """Refuse other class names than those of the question."""
        if self.classes and stated != self.classes:
            own = f"has {classes_text(stated)} classes" if stated is not None else "does not name its classes"
            raise InputError(f"{own}, the question has {classes_text(self.classes)}; use the same order")

    def summarize(self, rows: Outputs, *, site: str) -> Summary:
        """Score a site's rows, and summarise the scores."""
        if self.by_group and not rows.groups:
            raise InputError("asked is by group, and this site gives no groups; pass groups with outputs and truth")
        classes, truth, outputs, score = None, rows.truth, rows.outputs, self.score
        if isinstance(score, RegressionScore):
            outputs = for_score(outputs, score)
        elif isinstance(score, Score):
            classes, truth = self._classes_of(rows)
            outputs = rows.probs(self.temperature)
        else:
            raise InputError(f"asked is for {abbreviate(score.name)}, which is neither for labels nor for numbers")
        return summarize(
            outputs,
            truth,
            kind=self.kind,
            score=score,
            alpha=self.alpha,
            model=self.model,
            site=site,
            trained=self.trained,
            groups=rows.groups if self.by_group else None,
            by_class=self.by_class,
            temperature=self.provenance.temperature,
            classes=classes,
        )

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


class LossQuestion(SummaryQuestion, frozen=True, kw_only=True, tag="losses"):
    """A question for the sums of a loss over a site's rows, at each threshold of a grid.

    >>> from fedconformal import FalseNegativeRate
    >>> question = LossQuestion.about("m", FalseNegativeRate(), [0.0, 0.5, 1.0])
    >>> question.summarize(Outputs(outputs=[[0.75, 0.25]], truth=[[True, True]]), site="clinic-a").mean_losses
    array([1. , 0.5, 0. ])
    """

    described: str
    """The loss, by its name and parameters in JSON."""
    thresholds: tuple[float, ...]

    sent = LossSummary.name

    def __post_init__(self) -> None:
        if len(self.thresholds) > MOST_POINTS:
            raise InputError(
                f"thresholds: has {len(self.thresholds)} points, at most {MOST_POINTS} fit into a question"
            )
        self.provenance  # noqa: B018 (which builds the loss, and checks the grid)

    @property
    def loss(self) -> Loss:
        """The loss."""
        return registry.rebuild(json.loads(self.described), Loss)

    @classmethod
    def about(cls, model: str, loss: Loss | str, thresholds: ArrayLike | None = None) -> LossQuestion:
        """Ask for a loss on a grid, by default 0, 0.001, ..., 1."""
        grid = tuple(as_grid(thresholds).tolist())
        return cls(model=model, described=json.dumps(build(loss, Loss).to_dict()), thresholds=grid)

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
        loss, grid = self.loss, self.thresholds
        return LossSummary.of_losses(
            losses, thresholds=grid, loss=loss, rising=not loss.monotone, site=site, model=self.model
        )


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
