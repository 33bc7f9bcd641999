"""scikit-learn estimators that return prediction sets and intervals."""

from fedconformal.estimators.classifier import FederatedConformalClassifier
from fedconformal.estimators.conformal_estimator import coverage_scorer, negative_size_scorer
from fedconformal.estimators.regressor import FederatedConformalRegressor

__all__ = ["FederatedConformalClassifier", "FederatedConformalRegressor", "coverage_scorer", "negative_size_scorer"]
