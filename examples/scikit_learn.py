"""scikit-learn: a fitted classifier answers with sets that keep a promise to each site by itself.

Run it with: python examples/scikit_learn.py (it needs scikit-learn)
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedconformal as fc


def main() -> None:
    """Fit a model on some digits, calibrate on others at three sites, and evaluate on the rest."""
    x_train, x_held, y_train, y_held = train_test_split(*load_digits(return_X_y=True), test_size=0.7, random_state=0)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01)).fit(x_train, y_train)

    # Calibration rows must be rows that the model was not fitted to.
    x, x_test, y, y_test = train_test_split(x_held, y_held, test_size=0.5, random_state=1)
    names = ["north", "east", "south"]
    sites = {name: (x[k::3], y[k::3]) for k, name in enumerate(names)}

    classifier = fc.FederatedConformalClassifier(model=model.predict_proba, alpha=0.1, guarantee=fc.EveryClient())
    classifier.calibrate(sites)
    print(classifier.certificate_.sentence())

    print("the first sets:", [np.flatnonzero(one).tolist() for one in classifier.predict_set(x_test[:4])])
    found = classifier.evaluate(x_test, y_test, clients=np.resize(names, len(x_test)))
    print("coverage of each site:", {site.name: f"{site.coverage:.3f}" for site in found.by_client})
    print(f"coverage {found.coverage:.3f}, {found.mean_size:.2f} labels a set")


if __name__ == "__main__":
    main()
