"""All of it in one object: an estimator of scikit-learn that answers with prediction sets."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.arrays import Booleans, Floats, Probabilities
from fedconformal._base.classes import in_order, rows_at
from fedconformal._base.groups import Groups
from fedconformal._base.names import abbreviate
from fedconformal._base.spec import build
from fedconformal.calibration.calibrate import calibrate
from fedconformal.calibration.predictor import Predictor
from fedconformal.errors import ClassCountsWarning, InputError
from fedconformal.estimators.conformal_estimator import ConformalEstimator, Sites, sites_of
from fedconformal.estimators.source import Source, prefix_site_errors, scored_by, sites_at
from fedconformal.guarantees import Guarantee
from fedconformal.scores import Score
from fedconformal.summaries.rows import summarize


class FederatedConformalClassifier(ConformalEstimator[Predictor, Source]):
    """Calibrate on the sites' rows, then answer with prediction sets.

    Args:
        estimator: a fitted classifier of scikit-learn (wrap it in `FrozenEstimator`, so that `clone` keeps it), one
            that `fit` is to train, a function that returns probabilities, or None if inputs are probabilities.
        score: the nonconformity score, such as "aps" or `APS()`. It is a parameter only: the attribute
            is the method `score`, the accuracy of the top label, as every classifier has it.
        alpha: how often a set may miss the truth.
        guarantee: what is promised, and to whom, such as "every-site" or `EverySite()`.
        kind: of the summaries that the sites' scores become.
        allow_empty: whether a set may be empty; if not, it holds the top label at least.
        classes: the names of the classes in order, if neither the estimator nor the columns say them.
        test_size: the share of each site's rows that `fit` holds out and calibrates on.
        random_state: for the choice of these rows.

    >>> sites = {"a": ([[0.9, 0.1]] * 9, ["no"] * 9), "b": ([[0.3, 0.7]] * 9, ["yes"] * 9)}
    >>> classifier = FederatedConformalClassifier(alpha=0.1, classes=["no", "yes"]).calibrate(sites)
    >>> sets = classifier.predict_set([[0.95, 0.05], [0.5, 0.5], [0.2, 0.8]])
    >>> sets
    array([[ True, False],
           [ True, False],
           [False,  True]])
    >>> [classifier.classes_[one].tolist() for one in sets]
    [['no'], ['no'], ['yes']]
    """

    estimator_type = "classifier"

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
        vars(self)["score"] = score
        self.alpha = alpha
        self.guarantee = guarantee
        self.kind = kind
        self.allow_empty = allow_empty
        self.classes = classes
        self.test_size = test_size
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, *, sites: ArrayLike | None = None, groups: Groups | None = None) -> Self:
        """Train a clone of the estimator on some rows of each site, and calibrate on the others.

        `sites` says which site each row is from; without, all are from one. `groups` are the columns that say which
        groups each row is in, for a guarantee by group. Rows are held out at random, the same
        share of each site. An estimator that is frozen, a function, or none at all has nothing to learn; then all rows
        are for calibration. Steps that learn from rows belong inside the estimator: a step before it, in an outer
        pipeline, has seen the calibration rows.
        """
        given = self.estimator
        if not hasattr(given, "fit"):
            return self.calibrate(X, y, sites=sites, groups=groups)
        from sklearn.base import clone
        from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
        from sklearn.utils.multiclass import check_classification_targets

        copied = clone(given)
        if copied is given:  # that is what frozen means
            return self.calibrate(X, y, sites=sites, groups=groups)
        check_consistent_length(X, y)
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        held, rest = self._parted(len(labels), sites)
        copied.fit(rows_at(X, rest), labels[rest])
        source = Source.of(copied, self.classes, np.unique(labels))
        self._calibrate(source, scored_by(source, sites_at(held, X, labels, groups)))
        self._trained = given, source
        return self

    def calibrate(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        sites: Sites = None,
        groups: Groups | None = None,
    ) -> Self:
        """Score each site's rows, summarise, and find the threshold; no row may be one that the model was fitted to.

        Give the sites as a list or dict of (X, y), or all rows as `calibrate(X, y, sites=ids)` with the site of each.
        For a guarantee by group, (X, y, groups), or `groups` for all rows, such as {"sex": [...], "age": [...]}.
        After `fit` the estimator is the one that it trained.
        """
        named = sites_of(X, y, sites, groups)
        estimator = self.estimator
        trained, source = vars(self).get("_trained", (None, None))
        if source is None or trained is not estimator:
            source = Source.of(estimator, self.classes)
        return self._calibrate(source, scored_by(source, named))

    def _calibrate(self, source: Source, sites: Iterable[tuple[str, Any, Any, Groups | None]]) -> Self:
        score = build(vars(self)["score"], Score)
        if not isinstance(score, Score):
            raise InputError(f"score is {abbreviate(score)}, expected a score such as fedconformal.LAC()")
        summaries = []
        for name, probs, labels, groups in sites:
            with prefix_site_errors(name), warnings.catch_warnings():
                warnings.simplefilter("ignore", ClassCountsWarning)  # nothing leaves this process
                source = source.named_by(probs)
                about: dict[str, Any] = {"alpha": self.alpha, "score": score, "site": name, "classes": source.names}
                about["by_class"] = build(self.guarantee, Guarantee).by_class
                summaries.append(summarize(probs, labels, kind=self.kind, groups=groups, **about))
        predictor = calibrate(summaries, alpha=self.alpha, guarantee=self.guarantee)
        self._found = predictor, source
        self.estimator_ = source.estimator
        self.classes_ = source.classes_of(predictor.certificate.class_names)
        return self

    @property
    def threshold_(self) -> float | Floats:
        """The threshold that was found, or one for each class."""
        return self.predictor.certificate.limit

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the top label of each row, by its name."""
        top = self.predict_proba(X).argmax(axis=1)
        named: NDArray[Any] = self.classes_[top]
        return named

    def predict_proba(self, X: Any) -> Probabilities:
        """Return (n, J) probabilities, the columns in the order of `classes_`."""
        return in_order(self._probabilities(X), self.certificate_.class_names)

    def predict_set(
        self, X: Any, *, groups: Groups | None = None, sites: ArrayLike | None = None, alpha: Any = None
    ) -> Booleans:
        """Return (n, J) booleans, or (n, J, A) for a list of alphas; `classes_[row]` is a row's set by name.

        `groups` are for a guarantee by group, `sites` for `EverySite()`.
        """
        about: dict[str, Any] = {"groups": groups, "sites": sites, "alpha": alpha}
        return self.predictor.predict_set(self._probabilities(X), allow_empty=self.allow_empty, **about)

    def predict_p(self, X: Any, *, groups: Groups | None = None, sites: ArrayLike | None = None) -> Floats:
        """Return (n, J) p-values."""
        return self.predictor.predict_p(self._probabilities(X), groups=groups, sites=sites)

    def evaluate(
        self,
        X: Any,
        y: ArrayLike,
        *,
        sites: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        groups: Groups | None = None,
    ) -> Any:
        """Compare the sets with known labels."""
        about: dict[str, Any] = {"sites": sites, "clusters": clusters, "groups": groups}
        return self.predictor.evaluate(self._probabilities(X), y, allow_empty=self.allow_empty, **about)

    def _goodness(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        right = self.predict(X) == np.asarray(y)
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight)))

    def _probabilities(self, X: Any) -> Any:
        return self._ready[1].probabilities(X)
