"""scikit-learn: prediction sets of a fitted classifier, with a guarantee for each site.

Run it with: python examples/scikit_learn.py (it needs scikit-learn)
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedconformal as fc

NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


def main() -> None:
    """Fit a model on some digits, calibrate on others at three sites, and evaluate on the rest."""
    x, digits = load_digits(return_X_y=True)
    y = NAMES[digits]
    x, x_rest, y, y_rest = train_test_split(x, y, test_size=0.7, random_state=0)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=0.01)).fit(x, y)

    # Calibration rows must be rows that the model was not fitted to.
    x, x_test, y, y_test = train_test_split(x_rest, y_rest, test_size=0.5, random_state=1)
    sites = np.resize(["north", "east", "south"], len(x))

    # FrozenEstimator keeps the fitted model: scikit-learn's clone does not reset it.
    classifier = fc.FederatedConformalClassifier(FrozenEstimator(pipeline), alpha=0.1, guarantee=fc.EverySite())
    classifier.calibrate(x, y, sites=sites)
    print(classifier.predictor.sentence())

    print("the top labels:", classifier.predict(x_test[:4]).tolist())
    print("the sets:", [classifier.classes_[one].tolist() for one in classifier.predict_set(x_test[:4])])
    found = classifier.evaluate(x_test, y_test, sites=np.resize(["north", "east", "south"], len(x_test)))
    print({site.name: f"{site.coverage:.3f}" for site in found.by_site})
    print(f"coverage {found.coverage:.3f}, {found.mean_size:.2f} labels per set")


if __name__ == "__main__":
    main()
