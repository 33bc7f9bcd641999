"""Evaluation over an engine: sites count on their own test rows, and only the counts leave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from fedconformal._base.arrays import as_labels
from fedconformal._base.names import abbreviate
from fedconformal.calibration.membership import needed_groups, own_sites
from fedconformal.calibration.predictor import Predictor, check_coverage
from fedconformal.errors import InputError
from fedconformal.evaluation import evaluate_intervals, full_sets
from fedconformal.federated.ask import Question, Sites, whole_number
from fedconformal.federated.calibration import Outputs
from fedconformal.federated.outputs import for_score


class Counts(NamedTuple):
    """Counts of a site: rows, sets that hold the label, labels in all sets, correct top labels, sets of all labels."""

    rows: int
    covered: int
    labels: int
    correct: int
    full: int

    @classmethod
    def of(cls, predictor: Predictor, rows: Outputs, site: str) -> Counts:
        """Count on a site's own rows."""
        probs = np.asarray(rows.probs(predictor.certificate.provenance.temperature or 1.0))
        truth = as_labels(rows.truth, rows=len(probs), classes=probs.shape[1], name="labels")
        own, known = needed_groups(predictor.certificate, rows.groups), own_sites(predictor.certificate, site)
        sets = predictor.predict_set(probs, groups=own, sites=known)
        return cls(
            rows=len(truth),
            covered=int(sets[np.arange(len(truth)), truth].sum()),
            labels=int(sets.sum()),
            correct=int((probs.argmax(axis=1) == truth).sum()),
            full=full_sets(sets),
        )

    def check(self) -> Counts:
        """Refuse counts that such rows cannot have.

        >>> Counts(rows=2, covered=3, labels=3, correct=1, full=0).check()
        Traceback (most recent call last):
        fedconformal.errors.InputError: metrics: cannot be counts of 2 rows
        """
        shares = (self.covered, self.correct, self.full)
        if not (all(0 <= count <= self.rows for count in shares) and self.labels >= 0):
            raise InputError(f"metrics: cannot be counts of {self.rows} rows")
        return self

    def to_dict(self) -> dict[str, float]:
        """Return shares of the rows.

        >>> Counts(rows=4, covered=3, labels=8, correct=2, full=0).to_dict()
        {'rows': 4, 'coverage': 0.75, 'mean_size': 2.0, 'accuracy': 0.5, 'full_sets': 0}
        """
        return {
            "rows": self.rows,
            "coverage": self.covered / self.rows,
            "mean_size": self.labels / self.rows,
            "accuracy": self.correct / self.rows,
            "full_sets": self.full,
        }


class IntervalCounts(NamedTuple):
    """Counts of a site: rows, intervals that hold the truth, total width of the finite ones, infinite ones."""

    rows: int
    covered: int
    widths: float
    infinite: int

    @classmethod
    def of(cls, predictor: Predictor, rows: Outputs, site: str) -> IntervalCounts:
        """Count on a site's own rows."""
        known = own_sites(predictor.certificate, site)
        ends = predictor.predict_interval(for_score(rows.outputs, predictor.score), sites=known)
        covered = evaluate_intervals(ends, rows.truth).overall.coverage
        finite = np.isfinite(ends).all(axis=1)
        widths = float(np.diff(ends[finite], axis=1).sum())
        return cls(len(ends), round(covered * len(ends)), widths, int((~finite).sum()))

    def check(self) -> IntervalCounts:
        """Refuse counts that such rows cannot have.

        >>> IntervalCounts(rows=2, covered=1, widths=-1.0, infinite=0).check()
        Traceback (most recent call last):
        fedconformal.errors.InputError: metrics: cannot be counts of 2 rows
        """
        shares = (self.covered, self.infinite)
        if not (all(0 <= count <= self.rows for count in shares) and 0 <= self.widths < float("inf")):
            raise InputError(f"metrics: cannot be counts of {self.rows} rows")
        return self

    def to_dict(self) -> dict[str, float]:
        """Return shares of the rows; there is no mean width where an interval has no end.

        >>> IntervalCounts(rows=4, covered=3, widths=8.0, infinite=0).to_dict()
        {'rows': 4, 'coverage': 0.75, 'infinite': 0, 'mean_width': 2.0}
        """
        found = {"rows": self.rows, "coverage": self.covered / self.rows, "infinite": self.infinite}
        return found if self.infinite else found | {"mean_width": self.widths / self.rows}


AnyCounts = Counts | IntervalCounts


@dataclass(frozen=True, eq=False)
class EvaluationQuestion(Question[AnyCounts]):
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

    def answer(self, rows: Outputs, *, site: str) -> dict[str, Any]:
        """Count on a site's own rows."""
        if self.predictor.certificate.intervals:
            return IntervalCounts.of(self.predictor, rows, site)._asdict()
        return Counts.of(self.predictor, rows, site)._asdict()

    def read(self, reply: Mapping[str, Any], *, site: str) -> AnyCounts:
        """Refuse counts that no rows can have."""
        kind: Any = IntervalCounts if self.predictor.certificate.intervals else Counts
        if {name: type(value) for name, value in reply.items()} != get_type_hints(kind):
            raise InputError(f"sent {abbreviate(dict(reply))}, expected {', '.join(kind._fields)}")
        whole_number(reply, "rows", least=1)
        found: AnyCounts = kind(**reply).check()
        return found


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

    Args:
        sites: the engine's sites.
        model: the model in the engine's own form.
        predictor: the result of `calibrate`.
    """
    sites.fingerprint(model)  # refuses a model that is not finite
    return {answer.name: answer.value.to_dict() for answer in sites.ask(EvaluationQuestion(predictor), model)}


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
