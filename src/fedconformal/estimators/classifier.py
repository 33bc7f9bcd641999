"""scikit-learn classifier with prediction sets."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets

from fedconformal._base.arrays import Integers, Probabilities
from fedconformal._base.classes import class_names, format_sets, in_order, names_and_values, rows_at
from fedconformal._base.groups import Groups
from fedconformal._base.names import abbreviate
from fedconformal._base.registry import build
from fedconformal.errors import ClassCountsWarning, InputError
from fedconformal.estimators.conformal_estimator import ConformalEstimator, Model
from fedconformal.guarantees import Guarantee
from fedconformal.scores import Score
from fedconformal.summaries import Summary, summarize
from fedconformal.summaries.provenance import Classes, as_classes


@dataclass(frozen=True, eq=False)
class ProbabilityModel(Model):
    """Model with class probabilities, with columns in class order."""

    names: Classes | None = None
    """Names of the classes in order, or their number; None if unknown."""
    classes: NDArray[Any] | None = None
    """Classes of the estimator, with the dtype of the labels."""

    @classmethod
    def of(cls, estimator: Any, names: Any, classes: NDArray[Any] | None = None) -> ProbabilityModel:
        """Validate the estimator; its classes are `classes_` unless given."""
        if estimator is not None and not hasattr(estimator, "predict_proba") and not callable(estimator):
            raise InputError(
                f"estimator is {abbreviate(estimator)}, which has no predict_proba; give a classifier that has, such "
                "as LogisticRegression, or CalibratedClassifierCV around another"
            )
        if classes is None:  # for a bound method, such as pipeline.predict_proba, the classes of its object
            learned = getattr(estimator, "classes_", getattr(getattr(estimator, "__self__", None), "classes_", None))
            classes = None if learned is None else np.asarray(learned)
        if classes is None:
            return cls(estimator, None if names is None else as_classes(names))
        if names is not None:
            raise InputError("the estimator has classes of its own, so leave out classes=", param="classes")
        return cls(estimator, as_classes(class_names(classes)), classes)

    def fitted(self, X: Any, y: NDArray[Any], train: Integers) -> ProbabilityModel:
        """Train a clone; the classes are those of all labels."""
        check_classification_targets(y)
        trained = clone(self.estimator).fit(rows_at(X, train), y[train])
        return ProbabilityModel.of(trained, self.names if self.classes is None else None, np.unique(y))

    def outputs(self, rows: Any) -> Any:
        """Return probabilities, zero for classes without training rows."""
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

    def named_by(self, outputs: Any) -> ProbabilityModel:
        """Adopt the column names of a table of probabilities, if the class names are unknown."""
        return self if self.names is not None else replace(self, names=names_and_values(outputs)[0])


class FederatedConformalClassifier(ConformalEstimator, ClassifierMixin, BaseEstimator):
    """Classifier with prediction sets, calibrated on the rows of several sites.

    Parameters
    ----------
    estimator
        A fitted classifier (wrapped in `FrozenEstimator`, so that `clone` keeps it), a classifier to be trained by
        `fit`, a function that returns probabilities, or None if the inputs are probabilities.
    score
        The nonconformity score, such as "aps" or `APS()`. The method `score` is the accuracy, as in scikit-learn.
    alpha
        Miscoverage level.
    guarantee
        The guarantee, such as "every-site" or `EverySite()`.
    kind
        The kind of the summaries.
    allow_empty
        Whether sets may be empty; by default they contain at least the most probable label.
    classes
        Names of the classes in order, if neither the estimator nor the columns define them.
    test_size, random_state
        Share of the rows of each site that `fit` holds out for calibration, and the seed of the split.

    Examples
    --------
    >>> sites = {"a": ([[0.9, 0.1]] * 9, ["no"] * 9), "b": ([[0.3, 0.7]] * 9, ["yes"] * 9)}
    >>> classifier = FederatedConformalClassifier(alpha=0.1, classes=["no", "yes"]).calibrate(sites)
    >>> sets = classifier.predict_set([[0.95, 0.05], [0.5, 0.5], [0.2, 0.8]])
    >>> sets
    array([[ True, False],
           [ True, False],
           [False,  True]])
    >>> [classifier.classes_[row].tolist() for row in sets]
    [['no'], ['no'], ['yes']]
    """

    def __init__(  # noqa: PLR0913
        self,
        estimator: Any = None,
        *,
        score: Score | str = "lac",
        alpha: Any = 0.1,
        guarantee: Guarantee | str = "mixture",
        kind: str = "exact",
        allow_empty: bool = False,
        classes: Sequence[str] | None = None,
        test_size: float = 0.25,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.score = score
        self.alpha = alpha
        self.guarantee = guarantee
        self.kind = kind
        self.allow_empty = allow_empty
        self.classes = classes
        self.test_size = test_size
        self.random_state = random_state

    def _model(self) -> ProbabilityModel:
        return ProbabilityModel.of(self.estimator, self.classes)

    def _summarize(
        self, model: ProbabilityModel, site: str, outputs: Any, truth: Any, groups: Groups | None
    ) -> Summary:
        score, by_class = build(vars(self)["score"], Score), build(self.guarantee, Guarantee).by_class
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ClassCountsWarning)  # nothing leaves this process
            return summarize(
                outputs,
                truth,
                score=score,
                kind=self.kind,
                site=site,
                alpha=self.alpha,
                by_class=by_class,
                groups=groups,
                classes=model.names,
            )

    @property
    def classes_(self) -> NDArray[Any]:
        """Class labels: those of the estimator, or class names, or class indices."""
        predictor, model = self._ready
        if model.classes is not None:
            return np.asarray(model.classes)
        names: Any = predictor.certificate.class_names
        return np.arange(names) if isinstance(names, int) else np.array(names)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of each row."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def predict_proba(self, X: Any) -> Probabilities:
        """Return (n, J) probabilities, with columns in the order of `classes_`."""
        return in_order(self._outputs(X), self.certificate_.class_names)

    def predict_set(
        self,
        X: Any,
        *,
        groups: Groups | None = None,
        sites: ArrayLike | None = None,
        alpha: Any = None,
        output: Literal["array", "labels", "frame"] = "array",
    ) -> Any:
        """Return (n, J) booleans; `classes_[row]` are the labels in the set of a row.

        With `output="labels"`, a list of labels per row; with "frame", a pandas frame of booleans. `groups` are for a
        guarantee by group, `sites` for `EverySite()`.
        """
        sets = self.predictor.predict_set(
            self._outputs(X), allow_empty=self.allow_empty, groups=groups, sites=sites, alpha=alpha
        )
        return format_sets(sets, self.classes_.tolist(), output, X)
