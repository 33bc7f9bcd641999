"""Coverage at every site of an engine: sites count on their own test rows, and only the counts leave them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import as_labels, softmax
from fedconformal._base.groups import Groups
from fedconformal.calibration.choose import AnyPredictor
from fedconformal.calibration.interval_predictor import IntervalPredictor
from fedconformal.calibration.membership import needed_of, own_sites
from fedconformal.calibration.predictor import Predictor
from fedconformal.errors import InputError
from fedconformal.evaluation import evaluate_intervals, full_sets
from fedconformal.federated.ask import Answer
from fedconformal.federated.outputs import for_score


class Counts(NamedTuple):
    """What a site counts: its rows, sets that hold the label, labels in all sets, top labels that are right, full sets.

    `full` is None from a site of an earlier version, which does not count the sets that hold every label.
    """

    rows: int
    covered: int
    labels: int
    correct: int
    full: int | None

    @classmethod
    def of(
        cls,
        predictor: Predictor,
        logits: ArrayLike,
        labels: ArrayLike,
        groups: Groups | None = None,
        site: str | None = None,
    ) -> Counts:
        """Count on a site's own rows."""
        probs = softmax(np.asarray(logits, dtype=np.float64), temperature=predictor.certificate.temperature or 1.0)
        truth = as_labels(labels, rows=len(probs), classes=probs.shape[1], name="labels")
        own, known = needed_of(predictor.certificate, groups), own_sites(predictor.certificate, site)
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
        shares = (self.covered, self.correct, self.full or 0)
        if not (all(0 <= count <= self.rows for count in shares) and self.labels >= 0):
            raise InputError(f"metrics: cannot be counts of {self.rows} rows")
        return self

    def to_dict(self) -> dict[str, float]:
        """Return shares of the rows.

        >>> Counts(rows=4, covered=3, labels=8, correct=2, full=None).to_dict()
        {'rows': 4, 'coverage': 0.75, 'mean_size': 2.0, 'accuracy': 0.5}
        """
        found = {
            "rows": self.rows,
            "coverage": self.covered / self.rows,
            "mean_size": self.labels / self.rows,
            "accuracy": self.correct / self.rows,
        }
        return found | ({} if self.full is None else {"full_sets": int(self.full)})


class IntervalCounts(NamedTuple):
    """What a site counts of intervals: its rows, those that hold the truth, their widths in all, those without an end.

    The widths are those of the intervals that have both ends.
    """

    rows: int
    covered: int
    widths: float
    infinite: int

    @classmethod
    def of(
        cls, predictor: IntervalPredictor, outputs: ArrayLike, y: ArrayLike, site: str | None = None
    ) -> IntervalCounts:
        """Count on a site's own rows."""
        known = own_sites(predictor.certificate, site)
        ends = predictor.predict_interval(for_score(outputs, predictor.score), sites=known)
        covered = evaluate_intervals(ends, y).overall.coverage
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


def counts_of(
    predictor: AnyPredictor,
    outputs: ArrayLike,
    truth: ArrayLike,
    groups: Groups | None = None,
    site: str | None = None,
) -> AnyCounts:
    """Count on a site's own rows, by what the predictor gives."""
    if isinstance(predictor, IntervalPredictor):
        return IntervalCounts.of(predictor, outputs, truth, site)
    return Counts.of(predictor, outputs, truth, groups, site)


def shares_by_site(answers: Iterable[Answer[AnyCounts]]) -> dict[str, dict[str, float]]:
    """Return how often the predictor's sets hold the label of each site's test rows."""
    return {answer.name: answer.value.to_dict() for answer in answers}


def overall(by_site: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return the means over all rows; how many sets are full only if every site says so.

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
