"""scikit-learn estimators with prediction sets and prediction intervals."""

from fedconformal.estimators.classifier import FederatedConformalClassifier
from fedconformal.estimators.regressor import FederatedConformalRegressor

__all__ = ["FederatedConformalClassifier", "FederatedConformalRegressor"]
