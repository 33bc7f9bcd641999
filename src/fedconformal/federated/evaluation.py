"""Evaluation over an engine: sites count on their own test rows, and only the counts leave them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedconformal._base.arrays import as_labels
from fedconformal._base.names import abbreviate
from fedconformal.calibration.membership import needed_groups, own_sites
from fedconformal.calibration.predictor import Predictor, check_coverage
from fedconformal.errors import InputError
from fedconformal.evaluation import evaluate_intervals, full_sets
from fedconformal.federated.ask import Question, Sites
from fedconformal.federated.questions import Outputs, for_score
from fedconformal.privacy.policy import EVALUATION, Outgoing, Policy, count_patients


class Counts(NamedTuple):
    """Counts of a predictor's sets or intervals on the test rows of one site."""

    rows: int
    covered: int
    size: float
    """Labels in all sets; or the total width of the finite intervals."""
    unbounded: int
    """Sets that hold every label; or intervals without an end."""
    correct: int = 0
    """Rows whose most likely label is the true one."""

    @classmethod
    def of_sets(cls, predictor: Predictor, rows: Outputs, site: str) -> Counts:
        """Count sets on a site's own rows."""
        probs = np.asarray(rows.probs(predictor.certificate.provenance.temperature or 1.0))
        truth = as_labels(rows.truth, rows=len(probs), classes=probs.shape[1], name="labels")
        own, known = needed_groups(predictor.certificate, rows.groups), own_sites(predictor.certificate, site)
        sets = predictor.predict_set(probs, groups=own, sites=known)
        covered, correct = int(sets[np.arange(len(truth)), truth].sum()), int((probs.argmax(axis=1) == truth).sum())
        return cls(len(truth), covered, float(sets.sum()), full_sets(sets), correct)

    @classmethod
    def of_intervals(cls, predictor: Predictor, rows: Outputs, site: str) -> Counts:
        """Count intervals on a site's own rows."""
        known = own_sites(predictor.certificate, site)
        ends = predictor.predict_interval(for_score(rows.outputs, predictor.score), sites=known)
        covered = evaluate_intervals(ends, rows.truth).overall.coverage
        finite = np.isfinite(ends).all(axis=1)
        width = float(np.diff(ends[finite], axis=1).sum())
        return cls(len(ends), round(covered * len(ends)), width, int((~finite).sum()))

    def check(self) -> Counts:
        """Refuse counts that no rows can have.

        >>> Counts(rows=2, covered=3, size=3.0, unbounded=0).check()
        Traceback (most recent call last):
        fedconformal.errors.InputError: sent counts that 2 rows cannot have
        """
        shares = (self.covered, self.unbounded, self.correct)
        if self.rows < 1 or not all(0 <= count <= self.rows for count in shares) or not 0 <= self.size < math.inf:
            raise InputError(f"sent counts that {self.rows} rows cannot have")
        return self

    def to_dict(self, *, intervals: bool) -> dict[str, float]:
        """Return shares of the rows; there is no mean width where an interval has no end.

        >>> Counts(rows=4, covered=3, size=8.0, unbounded=0, correct=2).to_dict(intervals=False)
        {'rows': 4, 'coverage': 0.75, 'mean_size': 2.0, 'accuracy': 0.5, 'full_sets': 0}
        >>> Counts(rows=4, covered=3, size=8.0, unbounded=1).to_dict(intervals=True)
        {'rows': 4, 'coverage': 0.75, 'infinite': 1}
        """
        found, mean = {"rows": self.rows, "coverage": self.covered / self.rows}, self.size / self.rows
        if not intervals:
            return found | {"mean_size": mean, "accuracy": self.correct / self.rows, "full_sets": self.unbounded}
        return found | {"infinite": self.unbounded} | ({} if self.unbounded else {"mean_width": mean})


@dataclass(frozen=True, eq=False)
class EvaluationQuestion(Question[Counts]):
    """A question for counts of a predictor's sets or intervals on a site's test rows."""

    stage = "evaluate"

    predictor: Predictor

    def to_dict(self) -> dict[str, Any]:
        """Return the question in plain values."""
        return {"predictor": self.predictor.to_bytes()}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> EvaluationQuestion:
        """Read the values of `to_dict`."""
        return cls(check_coverage(Predictor.from_bytes(found["predictor"])))

    def answer(self, rows: Outputs, *, site: str, model: str, policy: Policy) -> dict[str, Any]:
        """Return the counts on a site's own rows, unless its policy forbids it."""
        certificate = self.predictor.certificate
        found = (Counts.of_intervals if certificate.intervals else Counts.of_sets)(self.predictor, rows, site)
        name, patients = str(certificate.guarantee["name"]), count_patients(rows.ids)
        policy.check(Outgoing(kind=EVALUATION, rows=found.rows, model=model, guarantee=name, patients=patients))
        return found._asdict()

    def read(self, reply: Mapping[str, Any], *, site: str) -> Counts:
        """Refuse counts that no rows can have."""
        wanted = {name: float if name == "size" else int for name in Counts._fields}
        if {name: type(value) for name, value in reply.items()} != wanted:
            raise InputError(f"sent {abbreviate(dict(reply))}, expected {', '.join(wanted)}")
        return Counts(**reply).check()


@dataclass(frozen=True, eq=False)
class PredictorQuestion(Question[None]):
    """Sends every site the predictor, to keep."""

    stage = "broadcast"

    predictor: Predictor

    def to_dict(self) -> dict[str, Any]:
        """Return the question in plain values."""
        return {"predictor": self.predictor.to_bytes()}

    def read(self, reply: Mapping[str, Any], *, site: str) -> None:
        """Expect an empty reply."""
        if reply:
            raise InputError(f"sent {abbreviate(dict(reply))}, expected nothing")


def evaluate(sites: Sites, model: Any, predictor: Predictor) -> dict[str, dict[str, float]]:
    """Ask every site for the coverage on its test rows: rows, coverage, size and accuracy, or width, by site.

    Parameters
    ----------
    sites
        The engine's sites.
    model
        The model in the engine's own form.
    predictor
        The result of `calibrate`.
    """
    sites.fingerprint(model)  # refuses a model that is not finite
    intervals = predictor.certificate.intervals
    answers = sites.ask(EvaluationQuestion(predictor), model)
    return {answer.name: answer.value.to_dict(intervals=intervals) for answer in answers}


def overall(by_site: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return the means over the rows of all sites; there is no mean width if a site has none.

    >>> overall({"a": {"rows": 1, "coverage": 1.0, "mean_size": 2.0, "accuracy": 0.0}})["coverage"]
    1.0
    """
    rows = sum(one["rows"] for one in by_site.values())
    if not rows:
        return {}
    means = ("coverage", "mean_size", "accuracy", "mean_width")
    said = [name for name in (*means, "full_sets", "infinite") if all(name in one for one in by_site.values())]
    sums = {name: sum((one["rows"] if name in means else 1) * one[name] for one in by_site.values()) for name in said}
    return {name: found / rows if name in means else found for name, found in sums.items()}
