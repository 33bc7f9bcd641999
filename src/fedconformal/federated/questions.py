"""The question for a summary: a site turns its model's outputs and the truth into a summary of scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fedconformal._base import registry
from fedconformal._base.arrays import are_distributions, as_alpha, as_labels, as_temperature, softmax
from fedconformal._base.classes import in_order, names_and_values
from fedconformal._base.groups import Groups
from fedconformal._base.names import abbreviate, name_key
from fedconformal._base.registry import build
from fedconformal.calibration.temperature import check_temperature
from fedconformal.errors import InputError
from fedconformal.federated.ask import Record
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.policy import Outgoing, Policy, count_patients
from fedconformal.scores import DEFAULT, AnyScore, RegressionScore
from fedconformal.summaries import Provenance, Summary
from fedconformal.summaries.rows import summarize


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """A model's outputs on a site's own rows, which were not used for fitting.

    Parameters
    ----------
    outputs
        (n, J) logits or probabilities; or predictions of a regressor, in the format of its score.
    truth
        (n,) class indices or names; true numbers.
    probabilities
        Whether the outputs are probabilities, which may be zero.
    classes
        The class names in the order of the site's columns and label indices.
    groups
        Columns with one value per row, such as {"sex": [...]}, for a guarantee by group.
    ids
        Patient ids, one per row, for the site's policy; they are not sent.
    """

    outputs: Any
    truth: Any
    probabilities: bool = False
    classes: Sequence[str] | None = None
    groups: Groups | None = None
    ids: Iterable[Any] | None = None

    def matched(self, asked: tuple[str, ...]) -> tuple[tuple[str, ...] | None, Any, Any]:
        """Return the class names or None, with outputs and labels by them; other names than asked are refused."""
        truth, stated = np.asarray(self.truth), None if self.classes is None else tuple(map(str, self.classes))
        if stated is not None:
            check_classes(asked, stated)
        own, by_name = stated or names_and_values(self.outputs)[0], truth.dtype.kind in "OSU"
        if own and not by_name:
            truth = np.array(own)[as_labels(truth, rows=len(truth), classes=len(own), name="labels")]
        names = (asked or own if own or by_name else None) or None
        outputs = in_order(self.outputs, names)
        if not self.probabilities and outputs.size and are_distributions(outputs):
            raise InputError("outputs: every row is a distribution; pass probabilities=True", code="not-logits")
        return names, outputs, truth

    def in_order(self, asked: tuple[str, ...], temperature: float) -> tuple[tuple[str, ...] | None, Any, Any]:
        """Return the same with probabilities at this temperature."""
        names, matrix, truth = self.matched(asked)
        if not self.probabilities:
            matrix = softmax(matrix.astype(np.float64), temperature=temperature)
        elif temperature != 1:
            powers = matrix.astype(np.float64) ** (1 / temperature)
            matrix = powers / powers.sum(axis=1, keepdims=True)
        return names, matrix, truth


class ScoreQuestion(Record, frozen=True, kw_only=True, tag="scores"):
    """A question for a summary of conformal scores; the fields are those of `calibrate`.

    >>> question = ScoreQuestion(model="m", alpha=0.1, kind="exact")
    >>> question.summarize(Outputs(outputs=[[2.0, 0.0], [0.0, 1.0]], truth=[0, 0]), site="clinic-a").n
    2
    """

    stage: ClassVar[str] = "calibrate"

    model: str
    """The fingerprint of the model whose outputs are scored."""
    alpha: float = 0.1
    described: str = json.dumps(DEFAULT.to_dict())
    """Name and parameters of the score, in JSON."""
    temperature: float = 1.0
    kind: str = "ranks"
    by_class: bool = False
    by_group: bool = False
    trained: bool = False
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_temperature(as_temperature(self.temperature))
        self.provenance  # noqa: B018 (validates the score)

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
        """Return the question for the summary that a guarantee requires."""
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
    def provenance(self) -> Provenance:
        """The required provenance of a summary."""
        score = self.score
        at = None if isinstance(score, RegressionScore) else self.temperature
        return Provenance(score=score, model=self.model, temperature=at, trained=self.trained)

    def answer(self, rows: Outputs, *, site: str, model: str, policy: Policy) -> bytes:
        """Return a site's answer, unless its policy forbids it."""
        if model != self.model:
            raise InputError("the model in the message is not the one in the question")
        summary = self.summarize(rows, site=site)
        policy.check(Outgoing.of(summary, patients=count_patients(rows.ids)))
        return summary.to_bytes()

    def read(self, data: bytes, *, site: str) -> Summary:
        """Decode a summary; refused if it is not the requested one."""
        summary = Summary.from_bytes(data)
        check_provenance(self.provenance, summary.provenance)
        asked = self.kind + " by class" * self.by_class + " by group" * self.by_group
        if summary.name != asked:
            raise InputError(f"sent a summary of the kind {summary.name}, expected {asked}")
        if len(summary.sites) != 1 or name_key(summary.sites[0]) != name_key(site):
            raise InputError(f"is {site or 'unnamed'} and sent a summary of {summary}")
        check_classes(self.classes, summary.provenance.classes)
        return summary

    def summarize(self, rows: Outputs, *, site: str) -> Summary:
        """Score a site's rows, and summarise the scores."""
        if self.by_group and not rows.groups:
            raise InputError("the question is by group, and this site gives none; pass groups with outputs and truth")
        classes, truth, outputs = None, rows.truth, rows.outputs
        if not isinstance(self.score, RegressionScore):
            classes, outputs, truth = rows.in_order(self.classes, self.temperature)
            if self.classes and classes is None:
                raise InputError(
                    f"the question is for the classes {abbreviate(', '.join(self.classes))}, and this site names none; "
                    "pass classes in the order of its label indices, or labels as names"
                )
        return summarize(
            outputs,
            truth,
            kind=self.kind,
            score=self.score,
            alpha=self.alpha,
            model=self.model,
            site=site,
            trained=self.trained,
            groups=rows.groups if self.by_group else None,
            by_class=self.by_class,
            temperature=self.provenance.temperature,
            classes=classes,
        )


def check_classes(asked: tuple[str, ...], stated: Any) -> None:
    """Refuse other class names than those of the question, if it has any."""
    if asked and stated != asked:
        own = f"has {classes_text(stated)} classes" if stated is not None else "does not name its classes"
        raise InputError(f"{own}, the question has {classes_text(asked)}; use the same order")


def check_provenance(expected: Provenance, found: Provenance) -> None:
    """Refuse scores of another model, score or temperature than requested."""
    stated = replace(found, classes=None, precision=None)  # compared with those of the other sites
    if difference := expected.difference(stated):
        raise InputError(f"sent scores of other origin: {difference}")
    if stated != expected:
        raise InputError("sent a summary for a calibration of its own, or one that is marked as estimated")


def classes_text(classes: Any) -> str:
    """Return the number of classes, or their names, for a message."""
    return abbreviate(classes) if isinstance(classes, int) else f"the {len(classes)} ({abbreviate(', '.join(classes))})"
