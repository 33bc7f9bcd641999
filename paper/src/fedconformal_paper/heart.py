"""Beyond the paper: heart disease at four real hospitals, with coverage at an unseen hospital.

Janosi, Steinbrunn, Pfisterer and Detrano, "Heart disease", UCI Machine Learning Repository, 1988; CC BY 4.0. Each
hospital in turn is the new one. A promise for the mixture of the other three does not cover it; a promise for a new
hospital does (Lee, Barber and Willett, 2023), with models that leave each of the three out, but with three hospitals
alpha cannot be below 1/4. Four hospitals are an illustration, not a proof: coverage at a single new hospital may have
any value, because the promise is on average over new hospitals.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, Integers
from fedconformal.calibration.calibrate import calibrate
from fedconformal.errors import InputError
from fedconformal.evaluation.intervals import clopper_pearson
from fedconformal.guarantees import FCP, Guarantee, NewSite
from fedconformal.scores import LAC
from fedconformal.summaries import Summary
from fedconformal_paper.setup import Setup
from fedconformal_paper.table import Part, Table

FILE, HOSPITAL, TARGET = "heart_disease.csv", "hospital", "num"
ALPHA = 0.3
Site = tuple[Any, ArrayLike]
Predict = Callable[[Any], ArrayLike]
COLUMNS = ("new hospital", "patients", "promised to", "coverage", "95% interval", "labels a set", "see")


def heart_disease(setup: Setup) -> Table:
    """Return results at each hospital as the new one, with a promise for the mixture and one for a new hospital."""
    hospitals = read_hospitals(setup)
    rows: list[tuple[Any, ...]] = []
    for name, (features, labels) in setup.track(list(hospitals.items())):
        others = {other: site for other, site in hospitals.items() if other != name}
        halves = {other: (x[::2], y[::2]) for other, (x, y) in others.items()}
        known = fit(halves)
        mixture = [
            Summary.of_scores(LAC().evaluate(known(x[1::2]), y[1::2]), kind="exact", site=other)
            for other, (x, y) in others.items()
        ]
        fresh = [_left_out(other, others) for other in others]
        for promised, predict, summaries, guarantee in (
            ("the others", known, mixture, FCP()),
            ("a newcomer", fit(others), fresh, NewSite()),
        ):
            rows.append((name, len(labels), promised, *_outcome(predict(features), labels, summaries, guarantee)))
    return Table(
        name="heart-disease",
        title=f"Heart disease present or absent, at a hospital that was not there, alpha = {ALPHA:g}",
        columns=COLUMNS,
        parts=[Part(name="heart_disease", rows=rows)],
        notes=[
            "Logistic regression on the patients of the other three hospitals; score LAC; the top label is always in.",
            "Promised to the others' mixture, which says nothing of a newcomer: half of their patients calibrate.",
            "Promised to a newcomer (NewSite): each of the three is scored by a model that left it out.",
            "That is on average over newcomers, not for each, and not exact, as every site has a model of its own.",
        ],
    )


def _left_out(name: str, hospitals: Mapping[str, Site]) -> Summary:
    """Summarise a hospital under a model of the others, as an estimate: no theorem covers the model of all of them."""
    predict = fit({other: site for other, site in hospitals.items() if other != name})
    x, y = hospitals[name]
    return Summary.of_scores(LAC().evaluate(predict(x), y), kind="exact", score=LAC(), site=name, estimated=True)


def _outcome(
    probs: ArrayLike, labels: Integers, summaries: list[Summary], guarantee: Guarantee
) -> tuple[float, str, float]:
    threshold = calibrate(summaries, alpha=ALPHA, guarantee=guarantee, exact=True).threshold
    sets = LAC().predict_set(probs, threshold)
    hits = np.count_nonzero(sets[np.arange(len(labels)), labels])
    low, high = clopper_pearson(np.array([hits]), np.array([len(labels)]))
    interval = f"{low[0]:.3f}-{high[0]:.3f}"
    return round(hits / len(labels), 3), interval, round(np.count_nonzero(sets) / len(labels), 3)


def fit(sites: Mapping[str, Site]) -> Predict:
    """Fit a logistic regression; missing values are imputed by the median, with indicator columns."""
    try:
        from sklearn.impute import SimpleImputer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError:
        raise InputError("heart-disease needs scikit-learn: pip install 'fedconformal[demo]'") from None
    model = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
        StandardScaler(),
        LogisticRegression(C=0.1, max_iter=1000),
    )
    model.fit(np.concatenate([x for x, _ in sites.values()]), np.concatenate([y for _, y in sites.values()]))
    predict: Predict = model.predict_proba
    return predict


def read_hospitals(setup: Setup) -> dict[str, tuple[Floats, Integers]]:
    """Read each hospital's patients; empty cells are missing values, and the grades 1 to 4 are one class."""
    path = setup.data_file(FILE)
    with path.open(encoding="utf-8-sig", newline="") as file:
        patients = list(csv.DictReader(file))
    if not patients or HOSPITAL not in patients[0] or TARGET not in patients[0]:
        raise InputError(f"{path}: expected the columns {HOSPITAL} and {TARGET}")
    columns = [name for name in patients[0] if name not in (HOSPITAL, TARGET)]
    try:
        features = np.array([[float(one[name] or math.nan) for name in columns] for one in patients])
        labels = np.array([float(one[TARGET]) > 0 for one in patients]).astype(np.int64)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    names = np.array([one[HOSPITAL] for one in patients])
    return {str(name): (features[names == name], labels[names == name]) for name in np.unique(names)}
