"""What the estimators that answer with sets and with intervals have in common: sites, held-out rows, what was found."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.arrays import Integers
from fedconformal._base.groups import Groups
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import Certificate
from fedconformal.errors import InputError
from fedconformal.estimators.estimator import SklearnMixin, not_calibrated
from fedconformal.estimators.source import Site, held_out, index_of, sites_at


class HasEstimator(Protocol):
    """What turns rows into what the predictor takes."""

    @property
    def estimator(self) -> Any:
        """The fitted estimator."""


P = TypeVar("P", bound=Predictor)
S = TypeVar("S", bound=HasEstimator)

Sites = Sequence[Site] | Mapping[str, Site] | ArrayLike | None


class ConformalEstimator(SklearnMixin, Generic[P, S]):
    """A predictor and what feeds it; both are there once `calibrate` or `fit` was called.

    >>> from fedconformal import FederatedConformalClassifier
    >>> isinstance(FederatedConformalClassifier(), ConformalEstimator)
    True
    """

    test_size: float
    random_state: Any
    _found: tuple[P, S]

    @property
    def predictor(self) -> P:
        """What makes the answers from the estimator's outputs, and can be saved."""
        return self._ready[0]

    @property
    def certificate_(self) -> Certificate:
        """What is promised."""
        return self.predictor.certificate

    @property
    def n_features_in_(self) -> int:
        """How many features the estimator takes."""
        count: int = self._one_estimator.n_features_in_
        return count

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """What the features are called."""
        names: NDArray[Any] = self._one_estimator.feature_names_in_
        return names

    @property
    def score(self) -> Callable[..., float]:
        """How good the plain predictions are: call it with X, y and, if wanted, sample_weight."""
        return self._goodness

    @score.setter
    def score(self, score: Any) -> None:  # the parameter has the method's name, so it is kept beside it
        vars(self)["score"] = score

    @abstractmethod
    def _goodness(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Measure what scikit-learn measures by default."""

    def save(self, path: str | Path) -> None:
        """Write the predictor (score, certificate, promise curve; not the estimator) to a JSON file."""
        self.predictor.save(path)

    def __repr__(self) -> str:
        return super().__repr__() + (f" -> {self.predictor!r}" if self.__sklearn_is_fitted__() else "")

    def __sklearn_is_fitted__(self) -> bool:
        return "_found" in vars(self)

    @property
    def _ready(self) -> tuple[P, S]:
        if not self.__sklearn_is_fitted__():
            raise not_calibrated("not calibrated yet; call calibrate first")
        return self._found

    @property
    def _one_estimator(self) -> Any:
        """The estimator, or the first of a pair: both take the same features."""
        found = self._ready[1].estimator
        return found[0] if isinstance(found, tuple) else found

    def _parted(self, rows: int, sites: Any) -> tuple[dict[str, Integers], Integers]:
        """Hold out rows of each site to calibrate on, and return them by site, and the others to train on."""
        from sklearn.utils import check_random_state

        held = held_out(index_of(rows, sites), self.test_size, check_random_state(self.random_state))
        rest = np.setdiff1d(np.arange(rows), np.concatenate(list(held.values())))
        if not len(rest):
            raise InputError(f"fit: has {rows} sample{'s' * (rows > 1)}, and none is left to train on")
        return held, rest


def sites_of(X: Any, y: ArrayLike | None, sites: Any, groups: Groups | None = None) -> Mapping[str, Site]:
    """Name the sites of a list or dict of (X, y), or of rows with the site of each."""
    if y is None:
        given: Any = sites if X is None else X
        return given if isinstance(given, Mapping) else {f"#{k + 1}": site for k, site in enumerate(given)}
    return sites_at(index_of(len(np.asarray(y)), sites), X, y, groups)
