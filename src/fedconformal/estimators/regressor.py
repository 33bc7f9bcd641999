"""All of it in one object: an estimator of scikit-learn that answers with prediction intervals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, as_array, one_a_row
from fedconformal._base.classes import rows_at
from fedconformal._base.names import abbreviate
from fedconformal._base.spec import build
from fedconformal.calibration.calibrate import calibrate
from fedconformal.calibration.intervals import LEVELS
from fedconformal.calibration.predictor import Predictor
from fedconformal.errors import InputError
from fedconformal.estimators.conformal_estimator import ConformalEstimator, Sites, sites_of
from fedconformal.estimators.source import Site, prefix_site_errors
from fedconformal.guarantees import Guarantee
from fedconformal.scores import RegressionScore
from fedconformal.scores.regression_score import as_numbers
from fedconformal.summaries.rows import summarize


@dataclass(frozen=True, eq=False)
class NumberSource:
    """Turns rows into the columns that a score takes.

    >>> NumberSource.of((lambda x: x, lambda x: x + 2), ("lower", "upper")).predictions(np.array([1.0]))
    array([[1., 3.]])
    """

    estimator: Any
    columns: tuple[str, ...]

    @classmethod
    def of(cls, estimator: Any, columns: tuple[str, ...]) -> NumberSource:
        """Check that there is one estimator, or one for each column."""
        several = isinstance(estimator, tuple | list)
        given = tuple(estimator) if several else (estimator,)
        if several and len(given) != len(columns):
            wanted = f"one for {' and one for '.join(columns)}" if len(columns) > 1 else "one"
            raise InputError(f"estimator has {len(given)} estimators, expected {wanted}")
        for one in given if several or estimator is not None else ():
            if not hasattr(one, "predict") and not callable(one):
                raise InputError(f"estimator is {abbreviate(one)}, which has no predict; give a fitted regressor")
        return cls(given if several else estimator, columns)

    def predictions(self, rows: Any) -> Any:
        """Return (n,) predictions, or (n, 2) if the score takes two columns."""
        if self.estimator is None:
            return rows
        if isinstance(self.estimator, tuple):
            found = [_predicted(one, rows) for one in self.estimator]
            return np.column_stack([one_a_row(one, len(found[0]), "predictions") for one in found])
        made = _predicted(self.estimator, rows)
        if len(self.columns) > 1 and np.ndim(made) == 1:
            wanted = " and ".join(self.columns)
            raise InputError(
                f"estimator predicts one number a row, the score takes {wanted}; give a pair, one for each"
            )
        return made

    def fitted(self, x: Any, y: Floats) -> NumberSource:
        """Train a clone; that of a scale learns how far off the predictions are."""
        from sklearn.base import clone

        if not isinstance(self.estimator, tuple):
            return NumberSource(clone(self.estimator).fit(x, y), self.columns)
        first = clone(self.estimator[0]).fit(x, y)
        off = np.abs(y - _predicted(first, x)) if self.columns[-1] == "scale" else y
        return NumberSource((first, *(clone(one).fit(x, off) for one in self.estimator[1:])), self.columns)

    @property
    def learns(self) -> bool:
        """Whether `fit` has something to train: not what is frozen, a function, or no estimator at all."""
        parts = self.estimator if isinstance(self.estimator, tuple) else (self.estimator,)
        if not all(hasattr(one, "fit") for one in parts):
            return False
        from sklearn.base import clone

        return any(clone(one) is not one for one in parts)


class FederatedConformalRegressor(ConformalEstimator[Predictor, NumberSource]):
    """Calibrate on the sites' rows, then answer with prediction intervals.

    Args:
        estimator: a fitted regressor of scikit-learn (wrap it in `FrozenEstimator`, so that `clone` keeps it), one
            that `fit` is to train, a function, or None if inputs are predictions. A score of two columns takes a
            pair, (lower, upper) or (prediction, scale), or one that predicts both as (n, 2).
        score: the nonconformity score, such as "cqr" or `CQR()`. It is a parameter only: the attribute is the method
            `score`, the share of the variance that the predictions explain, as every regressor has it.
        alpha: how often an interval may miss the truth.
        guarantee: what is promised, and to whom, such as "every-site" or `EverySite()`.
        kind: of the summaries that the sites' scores become.
        test_size: the share of each site's rows that `fit` holds out and calibrates on.
        random_state: for the choice of these rows.

    >>> x = np.arange(19.0)
    >>> regressor = FederatedConformalRegressor(estimator=lambda rows: 2 * rows, alpha=0.1)
    >>> regressor.calibrate({"a": (x[:9], 2 * x[:9] + 1), "b": (x[9:], 2 * x[9:] - 1)}).predict_interval(x[10:11])
    array([[19., 21.]])
    """

    estimator_type = "regressor"

    def __init__(
        self,
        estimator: Any = None,
        *,
        score: RegressionScore | str = "residual",
        alpha: Any = 0.1,
        guarantee: Guarantee | str = "mixture",
        kind: str = "exact",
        test_size: float = 0.25,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        vars(self)["score"] = score
        self.alpha = alpha
        self.guarantee = guarantee
        self.kind = kind
        self.test_size = test_size
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, *, sites: ArrayLike | None = None) -> Self:
        """Train a clone of the estimator on some rows of each site, and calibrate on the others.

        `sites` says which site each row is from; without, all are from one. Rows are held out at random, the same
        share of each site. An estimator that is frozen, a function, or none at all has nothing to learn; then all rows
        are for calibration. Of a pair (prediction, scale) the second learns the absolute errors of the first.
        """
        source = self._source()
        if not source.learns:
            return self.calibrate(X, y, sites=sites)
        from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d

        check_consistent_length(X, y)
        truth = column_or_1d(y, warn=True)
        assert_all_finite(truth, input_name="y")
        truth = truth.astype(np.float64)
        held, rest = self._parted(len(truth), sites)
        trained = source.fitted(rows_at(X, rest), truth[rest])
        self._calibrate(trained, ((name, trained.predictions(rows_at(X, i)), truth[i]) for name, i in held.items()))
        self._trained = self.estimator, trained
        return self

    def calibrate(self, X: Any = None, y: ArrayLike | None = None, *, sites: Sites = None) -> Self:
        """Score each site's rows, summarise, and find the threshold; no row may be one that the model was fitted to.

        Give the sites as a list or dict of (X, y), or all rows as `calibrate(X, y, sites=ids)` with the site of each.
        After `fit` the estimator is the one that it trained.
        """
        trained, source = vars(self).get("_trained", (None, None))
        if source is None or trained is not self.estimator:
            source = self._source()
        return self._calibrate(source, _predicted_at(source, sites_of(X, y, sites)))

    def _calibrate(self, source: NumberSource, sites: Iterable[tuple[str, Any, Any]]) -> Self:
        summaries = []
        for name, predictions, truth in sites:
            with prefix_site_errors(name):
                about: dict[str, Any] = {"score": self._score(), "alpha": self.alpha, "site": name}
                summaries.append(summarize(predictions, truth, kind=self.kind, **about))
        predictor = calibrate(summaries, alpha=self.alpha, guarantee=self.guarantee)
        self._found = predictor, source
        self.estimator_ = source.estimator
        return self

    @property
    def threshold_(self) -> float | tuple[float, float]:
        """The threshold that was found, or the lower and the upper one."""
        ends = self.predictor.certificate.whole
        return ends[0].limit if len(ends) == 1 else (ends[0].limit, ends[1].limit)

    def predict(self, X: Any) -> Floats:
        """Return the prediction of each row; where there is only a lower and an upper one, their middle."""
        found = as_array(self._predictions(X), "predictions")
        columns = self.predictor.score.columns
        if found.ndim == 1 or columns[0] != "prediction":
            return found if found.ndim == 1 else found.mean(axis=1)
        first: Floats = found[:, 0]
        return first

    def predict_interval(self, X: Any, *, sites: ArrayLike | None = None, alpha: Any = None) -> Floats:
        """Return (n, 2) ends, or (n, 2, A) for a list of alphas; `sites` are for `EverySite()`."""
        return self.predictor.predict_interval(self._predictions(X), sites=sites, alpha=alpha)

    def predict_distribution(self, X: Any, levels: Sequence[float] = LEVELS) -> Floats:
        """Return (n, L) numbers, each of which y is at most with the probability of its level; for `Signed`."""
        return self.predictor.predict_distribution(self._predictions(X), levels)

    def evaluate(
        self,
        X: Any,
        y: ArrayLike,
        *,
        sites: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        groups: Mapping[str, ArrayLike] | None = None,
    ) -> Any:
        """Compare the intervals with known numbers."""
        return self.predictor.evaluate(self._predictions(X), y, sites=sites, clusters=clusters, groups=groups)

    def _goodness(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of the variance of y that the predictions explain."""
        found = self.predict(X)
        truth = as_numbers(one_a_row(as_array(y, "y"), len(found), "y"), "y")
        weights = np.ones(len(truth)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        off = float(weights @ np.square(truth - found))
        spread = float(weights @ np.square(truth - np.average(truth, weights=weights)))
        return 1 - off / spread if spread else float(off == 0)

    def _predictions(self, X: Any) -> Any:
        return self._ready[1].predictions(X)

    def _score(self) -> RegressionScore:
        score: RegressionScore | str = vars(self)["score"]
        return build(score, RegressionScore)

    def _source(self) -> NumberSource:
        return NumberSource.of(self.estimator, self._score().columns)


def _predicted_at(source: NumberSource, sites: Mapping[str, Site]) -> Iterator[tuple[str, Any, Any]]:
    for name, site in sites.items():
        with prefix_site_errors(name):
            rows, truth, *groups = site
            if groups:
                raise InputError("has groups, which are for sets; give (X, y)")
            predictions = source.predictions(rows)
        yield name, predictions, truth


def _predicted(estimator: Any, rows: Any) -> Any:
    return as_array(estimator.predict(rows) if hasattr(estimator, "predict") else estimator(rows), "predictions")
