"""Base class of the estimators: rows by site, held-out rows and the calibrated predictor."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import assert_all_finite, check_consistent_length, check_random_state, column_or_1d, get_tags

from fedconformal._base.arrays import Integers, as_alpha
from fedconformal._base.classes import rows_at
from fedconformal._base.groups import Groups, as_sites, group_columns
from fedconformal._base.names import abbreviate
from fedconformal._base.registry import build
from fedconformal.calibration.calibrate import calibrate
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import Certificate
from fedconformal.errors import InputError, prefix_errors
from fedconformal.guarantees import Guarantee
from fedconformal.summaries import Summary

Site = tuple[Any, ArrayLike] | tuple[Any, ArrayLike, Groups]
"""Rows, truth, and groups for a guarantee by group."""
Sites = Sequence[Site] | Mapping[str, Site] | ArrayLike | None


class NotCalibratedError(InputError, NotFittedError):
    """Raised when an estimator is used before `calibrate()` or `fit()`."""


@dataclass(frozen=True, eq=False)
class Model:
    """Adapts one or several estimators, a function or given outputs: `fitted` trains a copy, `outputs` predicts."""

    estimator: Any

    def named_by(self, outputs: Any) -> Self:
        """Adopt the class names of a table of outputs, if they are unknown."""
        return self


class ConformalEstimator:
    """Base class of estimators with a calibrated predictor."""

    __metadata_request__fit = {"sites": True}  # noqa: RUF012

    estimator: Any
    alpha: Any
    guarantee: Guarantee | str
    kind: str
    allow_empty = False
    test_size: float
    random_state: Any
    _calibrated: tuple[Predictor, Any]

    @abstractmethod
    def _model(self) -> Any:
        """Return the adapted estimator."""

    @abstractmethod
    def _summarize(self, model: Any, site: str, outputs: Any, truth: Any, groups: Groups | None) -> Summary:
        """Summarise the rows of one site."""

    def fit(self, X: Any, y: ArrayLike, *, sites: ArrayLike | None = None, groups: Groups | None = None) -> Self:
        """Train a clone of the estimator on part of the rows, and calibrate on the held-out rows.

        Fitted transformers must be part of the estimator, as a step of an outer pipeline is fitted to the calibration
        rows. A frozen estimator, a function or None is not trained, and all rows are used for calibration. In a pair
        (prediction, scale), the second estimator is trained on the absolute errors of the first.

        Parameters
        ----------
        X, y
            Features and truth of all rows.
        sites
            Site of each row; the same share of each site is held out at random. By default all rows are one site.
        groups
            Columns with the groups of each row, for a guarantee by group.
        """
        model = self._model()
        if not _is_trainable(self.estimator):
            return self.calibrate(X, y, sites=sites, groups=groups)
        check_consistent_length(X, y)
        truth = column_or_1d(y, warn=True)
        assert_all_finite(truth, input_name="y")
        held = self._hold_out(_rows_by_site(len(truth), sites))
        train = np.setdiff1d(np.arange(len(truth)), np.concatenate(list(held.values())))
        if not len(train):
            raise InputError(f"fit: has {len(truth)} sample{'s' * (len(truth) > 1)}, and none is left to train on")
        model = model.fitted(X, truth, train)
        self._calibrate(model, _split(held, X, truth, groups))
        self._trained = self.estimator, model
        return self

    def calibrate(
        self, X: Any = None, y: ArrayLike | None = None, *, sites: Sites = None, groups: Groups | None = None
    ) -> Self:
        """Calibrate on rows that the model was not fitted to; after `fit`, the trained estimator is used.

        Parameters
        ----------
        X, y
            All rows, with `sites` and `groups` of each; or `X` alone, a list or dictionary of sites, each a tuple
            (X, y) or (X, y, groups).
        sites, groups
            As in `fit`.
        """
        estimator, model = vars(self).get("_trained", (None, None))
        if model is None or estimator is not self.estimator:
            model = self._model()
        if y is not None:
            check_consistent_length(X, y)
            return self._calibrate(model, _split(_rows_by_site(len(np.asarray(y)), sites), X, y, groups))
        by_site: Any = sites if X is None else X
        return self._calibrate(
            model, by_site if isinstance(by_site, Mapping) else {f"#{k + 1}": site for k, site in enumerate(by_site)}
        )

    def _calibrate(self, model: Any, sites: Mapping[str, Site]) -> Self:
        as_alpha(self.alpha), build(self.guarantee, Guarantee)  # an error in them is of no site
        summaries = []
        for name, site in sites.items():
            with nullcontext() if [*sites] == ["#1"] else prefix_errors(f"site {name!r}"):
                rows, truth, *groups = site
                outputs = model.outputs(rows)
                model = model.named_by(outputs)
                summaries.append(self._summarize(model, name, outputs, truth, groups[0] if groups else None))
        self._calibrated = calibrate(summaries, alpha=self.alpha, guarantee=self.guarantee), model
        self.estimator_ = model.estimator
        return self

    def _hold_out(self, rows: Mapping[str, Integers]) -> dict[str, Integers]:
        """Draw a random share of the rows of each site, at least one row."""
        share: Any = self.test_size
        if not isinstance(share, float) or not 0 < share < 1:
            raise InputError(f"test_size is {abbreviate(share)}, expected a share between 0 and 1, such as 0.25")
        rng = check_random_state(self.random_state)
        return {name: rng.permutation(mine)[: math.ceil(share * len(mine))] for name, mine in rows.items()}

    @property
    def predictor(self) -> Predictor:
        """The calibrated predictor for the outputs of the estimator."""
        return self._ready[0]

    @property
    def certificate_(self) -> Certificate:
        """The certificate of the predictor."""
        return self.predictor.certificate

    @property
    def threshold_(self) -> Any:
        """The threshold; a pair for a two-sided score, an array by class or by group."""
        ends = tuple(promise.limit for promise in self.certificate_.whole)
        return ends if len(ends) > 1 else self.certificate_.limit

    @property
    def n_features_in_(self) -> int:
        """Number of features of the estimator."""
        count: int = _first(self._ready[1].estimator).n_features_in_
        return count

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features of the estimator."""
        return np.asarray(_first(self._ready[1].estimator).feature_names_in_)

    @property
    def score(self) -> Callable[..., float]:
        """The method `score(X, y, sample_weight=None)` of scikit-learn; the parameter `score` is stored separately."""
        method: Callable[..., float] = super().score  # type: ignore[misc]
        return method

    @score.setter
    def score(self, score: Any) -> None:
        vars(self)["score"] = score

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002
        """Return the parameters; `score` is the nonconformity score."""
        return {**super().get_params(deep), "score": vars(self)["score"]}  # type: ignore[misc]

    def evaluate(
        self,
        X: Any,
        y: ArrayLike,
        *,
        sites: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        groups: Groups | None = None,
    ) -> Any:
        """Evaluate the sets or intervals on rows with known truth."""
        return self.predictor.evaluate(
            self._outputs(X), y, allow_empty=self.allow_empty, sites=sites, clusters=clusters, groups=groups
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        if hasattr(inner := _first(self.estimator), "__sklearn_tags__"):
            tags.input_tags = get_tags(inner).input_tags
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "_calibrated" in vars(self)

    @property
    def _ready(self) -> tuple[Predictor, Any]:
        if not self.__sklearn_is_fitted__():
            raise NotCalibratedError("not calibrated yet; call calibrate first")
        return self._calibrated

    def _outputs(self, X: Any) -> Any:
        return self._ready[1].outputs(X)


def parts_of(estimator: Any) -> tuple[Any, ...]:
    """Return the estimators of a tuple or list, or the estimator alone."""
    return tuple(estimator) if isinstance(estimator, tuple | list) else (estimator,)


def _first(estimator: Any) -> Any:
    return next(iter(parts_of(estimator)), None)


def _is_trainable(estimator: Any) -> bool:
    """Whether `fit` trains any estimator; `clone` returns a frozen estimator unchanged."""
    parts = parts_of(estimator)
    return all(hasattr(part, "fit") for part in parts) and any(clone(part) is not part for part in parts)


def _rows_by_site(rows: int, sites: Any) -> dict[str, Integers]:
    if sites is None:
        return {"#1": np.arange(rows)}
    names, of_row = np.unique(as_sites(sites, rows=rows, name="sites"), return_inverse=True)
    return {str(name): np.flatnonzero(of_row == k) for k, name in enumerate(names)}


def _split(rows: Mapping[str, Integers], X: Any, y: ArrayLike, groups: Groups | None) -> dict[str, Site]:
    columns = group_columns(groups)
    check_consistent_length(X, y, *columns.values())
    split: dict[str, Site] = {}
    for site, index in rows.items():
        own = {name: rows_at(values, index) for name, values in columns.items()}
        split[site] = (rows_at(X, index), rows_at(y, index), *([] if groups is None else [own]))
    return split
