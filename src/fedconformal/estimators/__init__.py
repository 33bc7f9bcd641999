"""scikit-learn estimators with prediction sets and prediction intervals."""

from fedconformal.estimators.classifier import FederatedConformalClassifier as FederatedConformalClassifier
from fedconformal.estimators.regressor import FederatedConformalRegressor as FederatedConformalRegressor
