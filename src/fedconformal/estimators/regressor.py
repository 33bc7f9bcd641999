"""scikit-learn regressor with prediction intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone

from fedconformal._base.arrays import Floats, Integers, as_array, one_a_row
from fedconformal._base.classes import rows_at
from fedconformal._base.groups import Groups, read_column
from fedconformal._base.names import abbreviate
from fedconformal._base.registry import build
from fedconformal.errors import InputError
from fedconformal.estimators.conformal_estimator import ConformalEstimator, Model, parts_of
from fedconformal.guarantees import Guarantee
from fedconformal.scores import RegressionScore
from fedconformal.summaries import Summary, summarize


@dataclass(frozen=True, eq=False)
class PredictionModel(Model):
    """Model with predictions in the columns of a score."""

    columns: tuple[str, ...]

    @classmethod
    def of(cls, estimator: Any, columns: tuple[str, ...]) -> PredictionModel:
        """Validate one estimator, or one per column."""
        parts, several = parts_of(estimator), isinstance(estimator, tuple | list)
        if several and len(parts) != len(columns):
            expected = f"one for {' and one for '.join(columns)}" if len(columns) > 1 else "one"
            raise InputError(f"estimator has {len(parts)} estimators, expected {expected}")
        for part in parts if several or estimator is not None else ():
            if not hasattr(part, "predict") and not callable(part):
                raise InputError(f"estimator is {abbreviate(part)}, which has no predict; give a fitted regressor")
        return cls(parts if several else estimator, columns)

    def fitted(self, X: Any, y: NDArray[Any], train: Integers) -> PredictionModel:
        """Train clones; the estimator of a scale is trained on absolute errors."""
        rows, target = rows_at(X, train), y[train].astype(np.float64)
        first, *others = parts_of(self.estimator)
        trained = clone(first).fit(rows, target)
        if not isinstance(self.estimator, tuple):
            return PredictionModel(trained, self.columns)
        if self.columns[-1] == "scale":
            target = np.abs(target - _predict(trained, rows))
        return PredictionModel((trained, *(clone(other).fit(rows, target) for other in others)), self.columns)

    def outputs(self, rows: Any) -> Any:
        """Return (n,) predictions, or (n, 2) if the score takes two columns."""
        if self.estimator is None:
            return rows
        if isinstance(self.estimator, tuple):
            columns = [_predict(part, rows) for part in self.estimator]
            return np.column_stack([one_a_row(column, len(columns[0]), "predictions") for column in columns])
        predictions = _predict(self.estimator, rows)
        if len(self.columns) > 1 and np.ndim(predictions) == 1:
            raise InputError(
                f"estimator predicts one number per row, the score takes {' and '.join(self.columns)}; "
                "give a pair, one for each"
            )
        return predictions


class FederatedConformalRegressor(ConformalEstimator, RegressorMixin, BaseEstimator):
    """Regressor with prediction intervals, calibrated on the rows of several sites.

    Parameters
    ----------
    estimator
        A fitted regressor (wrapped in `FrozenEstimator`, so that `clone` keeps it), a regressor to be trained by `fit`,
        a function, or None if the inputs are predictions. A score of two columns takes a pair, (lower, upper) or
        (prediction, scale), or one estimator that predicts both as (n, 2).
    score
        The nonconformity score, such as "cqr" or `CQR()`. The method `score` is R2, as in scikit-learn.
    alpha
        Miscoverage level.
    guarantee
        The guarantee, such as "every-site" or `EverySite()`.
    kind
        The kind of the summaries.
    test_size, random_state
        Share of the rows of each site that `fit` holds out for calibration, and the seed of the split.

    Examples
    --------
    >>> x = np.arange(19.0)
    >>> regressor = FederatedConformalRegressor(estimator=lambda rows: 2 * rows, alpha=0.1)
    >>> regressor.calibrate({"a": (x[:9], 2 * x[:9] + 1), "b": (x[9:], 2 * x[9:] - 1)}).predict_interval(x[10:11])
    array([[19., 21.]])
    """

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
        self.score = score
        self.alpha = alpha
        self.guarantee = guarantee
        self.kind = kind
        self.test_size = test_size
        self.random_state = random_state

    def _model(self) -> PredictionModel:
        return PredictionModel.of(self.estimator, self._score().columns)

    def _score(self) -> RegressionScore:
        score: RegressionScore | str = vars(self)["score"]
        return build(score, RegressionScore)

    def _summarize(self, model: PredictionModel, site: str, outputs: Any, truth: Any, groups: Groups | None) -> Summary:
        if groups is not None:
            raise InputError("has groups, which are for sets; give (X, y)", param="groups")
        y = read_column(truth, "y")
        return summarize(outputs, y, score=self._score(), kind=self.kind, site=site, alpha=self.alpha)

    def predict(self, X: Any) -> Floats:
        """Return the prediction of each row, or the midpoint of lower and upper predictions."""
        outputs = as_array(self._outputs(X), "predictions")
        if outputs.ndim == 1 or self.predictor.score.columns[0] != "prediction":
            return outputs if outputs.ndim == 1 else outputs.mean(axis=1)
        return np.asarray(outputs[:, 0])

    def predict_interval(self, X: Any, *, sites: ArrayLike | None = None, alpha: Any = None) -> Floats:
        """Return the (n, 2) ends of intervals; `sites` are for `EverySite()`, `alpha` replaces the certified one."""
        return self.predictor.predict_interval(self._outputs(X), sites=sites, alpha=alpha)


def _predict(estimator: Any, rows: Any) -> Any:
    return as_array(estimator.predict(rows) if hasattr(estimator, "predict") else estimator(rows), "predictions")
