"""Coverage at every site of an engine: sites count on their own test rows, and only the counts leave them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import as_labels, softmax
from fedconformal.calibration.predictor import Predictor
from fedconformal.errors import InputError
from fedconformal.evaluation import full_sets
from fedconformal.federated.ask import Answer


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
    def of(cls, predictor: Predictor, logits: ArrayLike, labels: ArrayLike) -> Counts:
        """Count on a site's own rows."""
        probs = softmax(np.asarray(logits, dtype=np.float64), temperature=predictor.certificate.temperature or 1.0)
        truth = as_labels(labels, rows=len(probs), classes=probs.shape[1], name="labels")
        sets = predictor.predict_set(probs)
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


def shares_by_site(answers: Iterable[Answer[Counts]]) -> dict[str, dict[str, float]]:
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
    names = ("coverage", "mean_size", "accuracy")
    found = {name: sum(one["rows"] * one[name] for one in by_site.values()) / rows for name in names}
    if all("full_sets" in one for one in by_site.values()):
        found["full_sets"] = sum(one["full_sets"] for one in by_site.values())
    return found
