"""Where probabilities come from: an estimator of scikit-learn, a function, or the user, and what its classes are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.classes import class_names, table_of
from fedconformal._base.names import shown
from fedconformal.errors import InputError
from fedconformal.summaries.origin import Classes, Origin, as_classes


@dataclass(frozen=True, eq=False)
class Source:
    """Turns rows into probabilities, the columns in the order of the classes.

    >>> source = Source.of(lambda rows: [[1 - row, row] for row in rows], ["no", "yes"])
    >>> source.names, source.probabilities([0.25])
    (('no', 'yes'), [[0.75, 0.25]])
    """

    estimator: Any
    names: Classes | None = None
    """The names of the classes in order, or their number; None if that is not known yet."""
    classes: NDArray[Any] | None = None
    """The classes as labels have them, where an estimator has learned them."""

    @classmethod
    def of(cls, estimator: Any, names: Sequence[str] | None, classes: NDArray[Any] | None = None) -> Source:
        """Find out the classes: by default those that the estimator says."""
        if estimator is not None and not hasattr(estimator, "predict_proba") and not callable(estimator):
            raise InputError(
                f"estimator is {shown(estimator)}, which has no predict_proba; give a classifier that has, such as "
                "scikit-learn's LogisticRegression, or CalibratedClassifierCV around another"
            )
        if classes is None:  # those of a method, such as pipeline.predict_proba, are its object's
            found = getattr(estimator, "classes_", getattr(getattr(estimator, "__self__", None), "classes_", None))
            classes = None if found is None else np.asarray(found)
        said = None if names is None else as_classes(names)
        if classes is None:
            return cls(estimator, said)
        known = as_classes(class_names(classes))
        if said is not None and (differ := Origin(classes=said).difference(Origin(classes=known))):
            raise InputError(f"{differ}; the estimator has its own, so leave out classes=")
        return cls(estimator, known if said is None else said, classes)

    def probabilities(self, rows: Any) -> Any:
        """Return what the estimator says; a class that it has not seen in training has no probability."""
        if self.estimator is None:
            return rows
        has = hasattr(self.estimator, "predict_proba")
        probs = self.estimator.predict_proba(rows) if has else self.estimator(rows)
        seen = getattr(self.estimator, "classes_", None)
        if self.classes is None or seen is None or len(seen) == len(self.classes):
            return probs
        wide = np.zeros((len(probs), len(self.classes)), dtype=probs.dtype)
        wide[:, np.searchsorted(self.classes, seen)] = probs
        return wide

    def named_by(self, probs: Any) -> Source:
        """Take the names from the first table of probabilities, where nobody else says them."""
        return self if self.names is not None else replace(self, names=table_of(probs)[0])

    def classes_of(self, labels: int | Sequence[str] | None) -> NDArray[Any]:
        """Return the classes as users have them: the estimator's, or the names, or numbers."""
        if self.classes is not None:
            return self.classes
        return np.arange(labels) if isinstance(labels, int) else np.array(labels)
