"""scikit-learn estimators that return prediction sets and intervals."""

from fedconformal.estimators.classifier import FederatedConformalClassifier
from fedconformal.estimators.regressor import FederatedConformalRegressor

__all__ = ["FederatedConformalClassifier", "FederatedConformalRegressor"]
