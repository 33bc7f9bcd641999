"""The classifier: scikit-learn's checks and tools, held-out rows, class names, refusals that name the site."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import sklearn
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import fedconformal as fc
from tests.contracts.frames import FRAMES, SERIES
from tests.contracts.tools import refused

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.errors.InfeasibleWarning")  # scikit-learn brings few rows

NAMES = np.array(["ash", "elm", "oak"])
CONFORMAL = fc.FederatedConformalClassifier


def forest(rows: int = 600, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[Any]]:
    """Return features, names and sites of some trees."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 3, size=rows)
    return rng.normal(size=(rows, 2)) + kinds[:, None], NAMES[kinds], rng.choice(["north", "south"], size=rows)


def fitted() -> Any:
    x, y, _ = forest(200, seed=1)
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y)


# --- scikit-learn's own checks ---


@pytest.mark.long
@pytest.mark.parametrize("pipeline", [False, True])
@pytest.mark.parametrize(
    ("conformal", "estimator"),
    [(CONFORMAL, LogisticRegression()), (fc.FederatedConformalRegressor, LinearRegression())],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")  # pandas may not be there
@pytest.mark.filterwarnings("ignore:.*does not inherit from")  # that would need scikit-learn before it is asked for
def test_the_checks_of_scikit_learn(conformal: Any, estimator: Any, pipeline: bool) -> None:
    inner = make_pipeline(StandardScaler(), estimator) if pipeline else estimator
    done = check_estimator(conformal(estimator=inner), expected_failed_checks={})
    assert len(done) > 40
    assert {check["status"] for check in done} <= {"passed", "skipped"}


# --- cloned and stored ---


def test_a_clone_keeps_a_frozen_estimator() -> None:
    x, y, sites = forest()
    made = CONFORMAL(estimator=FrozenEstimator(fitted()), alpha=0.2).calibrate(x, y, sites=sites)
    copied = clone(made)
    with pytest.raises(NotFittedError, match="not calibrated yet"):
        copied.predict_set(x)
    assert copied.calibrate(x, y, sites=sites).threshold_ == made.threshold_
    with pytest.raises(NotFittedError):
        clone(CONFORMAL(estimator=fitted())).calibrate(x, y, sites=sites)


def test_stored_and_copied(tmp_path: Path) -> None:
    x, y, sites = forest()
    made = CONFORMAL(estimator=LogisticRegression(), score=fc.APS(), random_state=0).fit(x, y, sites=sites)
    wanted, sets = clone(made).fit(x, y, sites=sites).calibrate(x, y, sites=sites).threshold_, made.predict_set(x)
    joblib.dump(made, tmp_path / "made.joblib")
    for again in (joblib.load(tmp_path / "made.joblib"), copy.deepcopy(made)):
        assert np.array_equal(again.predict_set(x), sets)
        assert again.get_params()["score"] == fc.APS()
        assert again.calibrate(x, y, sites=sites).threshold_ == wanted
    with pytest.raises(NotFittedError) as caught:
        CONFORMAL().predict([[0.5, 0.5]])
    assert isinstance(copy.copy(caught.value), NotFittedError)  # as between processes


def test_the_parameter_score_is_beside_the_method() -> None:
    made = CONFORMAL(estimator=LogisticRegression(C=2.0), score=fc.RAPS(penalty=0.5))
    copied = clone(made.set_params(score="aps", estimator__C=3.0))
    assert (copied.get_params()["score"], copied.estimator.C) == ("aps", 3.0)
    assert callable(copied.score)
    assert "score='aps'" in repr(copied)


# --- with scikit-learn's tools ---


def test_in_a_pipeline() -> None:
    x, y, sites = forest()
    outer = Pipeline([("scale", StandardScaler()), ("sets", CONFORMAL(estimator=LogisticRegression(), random_state=0))])
    outer.fit(x, y, sets__sites=sites)
    assert outer.score(x, y) > 0.6
    assert outer.predict_proba(x).shape == (600, 3)
    assert outer.classes_.tolist() == NAMES.tolist()
    assert outer[-1].certificate_.sites == 2


def test_in_a_grid_search() -> None:
    x, y, sites = forest()
    grid = {"estimator__C": [1e-4, 1.0], "score": [fc.LAC(), fc.APS()], "alpha": [0.2]}
    found = GridSearchCV(CONFORMAL(estimator=LogisticRegression(), random_state=0), grid, cv=3).fit(x, y, sites=sites)
    assert found.best_params_["estimator__C"] == 1.0
    assert found.best_estimator_.certificate_.sites == 2
    assert found.best_estimator_.predict_set(x).shape == (600, 3)


@pytest.mark.parametrize("routing", [False, True])
def test_in_cross_validation(routing: bool) -> None:
    x, y, sites = forest()
    with sklearn.config_context(enable_metadata_routing=routing):
        for estimator in (LogisticRegression(), FrozenEstimator(fitted())):
            found = cross_val_score(CONFORMAL(estimator=estimator), x, y, params={"sites": sites})
            assert found.mean() > 0.6


# --- fit ---


class Watched:
    """Remembers which rows it was trained on, and which it was asked for."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def fit(self, x: Any, y: Any) -> Watched:
        self.inside_, self.rows_ = LogisticRegression().fit(x, y), set(map(tuple, x))
        self.asked_: set[tuple[float, ...]] = set()
        self.classes_ = self.inside_.classes_
        return self

    def predict_proba(self, x: Any) -> Any:
        self.asked_ |= set(map(tuple, x))
        return self.inside_.predict_proba(x)


def test_fit_trains_on_some_rows_and_calibrates_on_others() -> None:
    x, y, sites = forest()

    made = CONFORMAL(estimator=Watched(), test_size=0.25, random_state=0).fit(x, y, sites=sites)
    trained, held = made.estimator_.rows_, made.estimator_.asked_
    assert not trained & held
    assert len(trained) + len(held) == 600
    records = {record.sites[0]: record.sizes[0] for record in made.certificate_.summaries}
    assert records == {name: -(-np.count_nonzero(sites == name) // 4) for name in ("north", "south")}
    assert not hasattr(made.estimator, "rows_")  # a clone was trained


def test_fit_keeps_the_promise_for_a_learner_that_knows_its_rows_by_heart() -> None:
    """A forest is sure of rows that it was trained on; calibrated on those, it would cover far too little."""
    covered, honest = [], []
    for seed in range(8):
        x, y, sites = forest(400, seed=seed)
        x, y = x * 0.5, np.where(np.random.default_rng(seed).random(400) < 0.3, "elm", y)
        new, truth, _ = forest(1000, seed=100 + seed)
        truth = np.where(np.random.default_rng(99 - seed).random(1000) < 0.3, "elm", truth)
        deep = RandomForestClassifier(n_estimators=20, random_state=seed)
        made = CONFORMAL(estimator=deep, test_size=0.5, random_state=seed).fit(x, y, sites=sites)
        covered.append(made.evaluate(new * 0.5, truth).coverage)
        cheat = CONFORMAL(estimator=deep.fit(x, y)).calibrate(x, y, sites=sites)
        honest.append(cheat.evaluate(new * 0.5, truth).coverage)
    assert np.mean(covered) > 0.885
    assert np.mean(honest) < 0.8  # so the test can fail


def test_a_site_of_one_row_and_a_class_that_training_did_not_see() -> None:
    x, y, _ = forest(200)
    y[0] = "yew"
    sites = np.array(["alone"] + ["other"] * 199)
    made = CONFORMAL(estimator=LogisticRegression(), random_state=0).fit(x, y, sites=sites)
    assert made.classes_.tolist() == ["ash", "elm", "oak", "yew"]
    assert made.estimator_.classes_.tolist() == ["ash", "elm", "oak"]
    assert (made.predict_proba(x)[:, 3] == 0).all()
    assert made.predictor.certificate.class_names == ["ash", "elm", "oak", "yew"]
    assert "yew" not in made.predict(x)


def test_fit_with_nothing_to_train_is_calibrate() -> None:
    x, y, sites = forest()
    frozen = FrozenEstimator(fitted())
    wanted = CONFORMAL(estimator=frozen).calibrate(x, y, sites=sites)
    assert wanted.certificate_.scores == 600
    for estimator in (frozen, fitted().predict_proba):
        assert CONFORMAL(estimator=estimator).fit(x, y, sites=sites).predictor.to_bytes() == wanted.predictor.to_bytes()
    probs = frozen.predict_proba(x)
    made = CONFORMAL(classes=["ash", "elm", "oak"]).fit(probs, y, sites=sites)
    assert made.predictor.to_bytes() == wanted.predictor.to_bytes()


def test_calibrate_after_fit_keeps_what_was_trained() -> None:
    x, y, sites = forest()
    made = CONFORMAL(estimator=LogisticRegression(), random_state=0).fit(x[:300], y[:300])
    trained = made.estimator_
    made.calibrate(x[300:], y[300:], sites=sites[300:])
    assert made.estimator_ is trained
    assert made.certificate_.scores == 300
    made.set_params(estimator=fitted()).calibrate(x[300:], y[300:])
    assert made.estimator_ is made.estimator


@pytest.mark.parametrize(
    ("given", "fragments"),
    [
        ({"test_size": 0}, ["test_size is 0"]),
        ({"test_size": 1.0}, ["test_size is 1.0", "between 0 and 1"]),
        ({"test_size": "half"}, ["test_size is half"]),
        ({"estimator": RidgeClassifier()}, ["RidgeClassifier", "predict_proba"]),
        ({"estimator": "forest"}, ["forest", "predict_proba"]),
        ({"classes": ["ash", "elm", "oak"]}, ["leave out classes="]),
    ],
)
def test_what_fit_refuses(given: dict[str, Any], fragments: list[str]) -> None:
    x, y, _ = forest()
    with refused(*fragments):
        CONFORMAL(**{"estimator": LogisticRegression(), **given}).fit(x, y)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_rows_and_labels_are_equally_many(frame: Any) -> None:
    """Rows beyond the last label were left out silently, and the certificate said nothing of it."""
    x, y, sites = forest()
    table = frame(["a", "b"], x)
    for given in (None, sites[:-1]):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            CONFORMAL(estimator=fitted()).calibrate(table, y[:-1], sites=given)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        CONFORMAL(estimator=fitted(), guarantee=fc.ByGroup()).calibrate(x, y, groups={"sex": ["F", "M"]})


# --- names ---


@pytest.mark.parametrize("series", SERIES.values(), ids=SERIES)
@pytest.mark.parametrize("labels", [NAMES, np.array([1, 2, 5]), np.array([1.0, 2.0, 4.0]), np.arange(3)])
def test_labels_of_any_kind(series: Any, labels: NDArray[Any]) -> None:
    x, y, sites = forest()
    y = labels[np.searchsorted(NAMES, y)]
    model = LogisticRegression().fit(x[:200], y[:200])
    made = CONFORMAL(estimator=FrozenEstimator(model), alpha=0.2)
    made.calibrate(x[200:], series(y[200:].tolist()), sites=series(sites[200:].tolist()))
    assert made.classes_.tolist() == labels.tolist()
    assert made.predict(x[:5]).dtype == labels.dtype
    assert np.isin(made.predict(x), labels).all()
    found = made.evaluate(x, series(y.tolist()), sites=series(sites.tolist()))
    assert [group.name for group in found.by_site] == ["north", "south"]
    assert [group.name for group in found.by_class] == [str(label).removesuffix(".0") for label in labels]
    assert found.reweighted is not None
    assert found.reweighted.coverage is not None
    assert made.score(x, y) == np.mean(made.predict(x) == y)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_names_go_with_the_saved_predictor(frame: Any, tmp_path: Path) -> None:
    x, y, sites = forest()
    model = fitted()
    made = CONFORMAL(estimator=FrozenEstimator(model)).calibrate(x, y, sites=sites)
    made.predictor.save(tmp_path / "p.json")
    again = fc.load(tmp_path / "p.json")
    assert again.certificate.class_names == NAMES.tolist()
    probs = model.predict_proba(x)
    swapped = frame(NAMES[[2, 0, 1]], probs[:, [2, 0, 1]])
    assert np.array_equal(again.predict_set(swapped), made.predict_set(x))
    assert again.evaluate(swapped, y) == made.evaluate(x, y)
    with refused("probabilities: has no column for the class ash"):
        again.predict_set(frame(["fir", "elm", "oak"], probs))
    with refused("have 2 columns, expected one for each of 3 classes"):
        again.predict_set(probs[:, :2])
    # Probabilities as a table: the first site says the order, and each other one is matched to it.
    halves = {"a": (frame(NAMES, probs[:300]), y[:300]), "b": (frame(NAMES[::-1], probs[300:, ::-1]), y[300:])}
    tables, arrays = CONFORMAL().calibrate(halves), CONFORMAL(estimator=model)
    arrays.calibrate({"a": (x[:300], y[:300]), "b": (x[300:], y[300:])})
    assert tables.predictor.to_bytes() == arrays.predictor.to_bytes()
    assert tables.predict(swapped).tolist() == made.predict(x).tolist()
    with refused("site 'b': ", "no column for the class ash"):
        CONFORMAL().calibrate({**halves, "b": (frame(["fir", "elm", "oak"], probs), y)})
    table = CONFORMAL().calibrate(frame(NAMES, probs), y, sites=sites)
    assert table.predictor.to_bytes() == made.predictor.to_bytes()


# --- the sum of its parts, and refusals ---


def probabilities() -> dict[str, tuple[Any, Any]]:
    rng = np.random.default_rng(0)
    found = {}
    for name, size in (("north", 40), ("south", 25)):
        probs = rng.dirichlet([1, 1, 1], size=size)
        found[name] = (probs, np.array([rng.choice(3, p=row) for row in probs]))
    return found


def test_it_is_the_sum_of_its_parts() -> None:
    given = probabilities()
    for kind in ("exact", "ranks"):
        made = CONFORMAL(score=fc.APS(), alpha=0.2, kind=kind).calibrate(given)
        summaries = [
            fc.summarize(probs, labels, kind=kind, alpha=0.2, score="aps", site=name)
            for name, (probs, labels) in given.items()
        ]
        by_hand = fc.calibrate(summaries, alpha=0.2)
        assert made.predictor.to_bytes() == by_hand.to_bytes()
        assert made.threshold_ == by_hand.threshold
        assert made.certificate_ == by_hand.certificate
        probs, labels = given["north"]
        assert np.array_equal(made.predict_set(probs), by_hand.predict_set(probs))
        assert np.array_equal(made.predict_set(probs, alpha=0.5), by_hand.predict_set(probs, alpha=0.5))
        assert made.evaluate(probs, labels, sites=labels) == by_hand.evaluate(probs, labels, sites=labels)


def test_empty_sets_only_if_wanted() -> None:
    probs = np.full((30, 2), 0.5)
    labels = np.zeros(30, dtype=int)
    for allow_empty, size in ((False, 1.0), (True, 0.0)):
        made = CONFORMAL(score=fc.LAC(), alpha=0.2, allow_empty=allow_empty)
        made.calibrate([(np.tile([0.75, 0.25], (30, 1)), labels)])
        assert made.predict_set(probs).sum(axis=1).mean() == size
        assert made.evaluate(probs, labels).mean_size == size


@pytest.mark.parametrize("attribute", ["predictor", "classes_", "threshold_", "certificate_", "n_features_in_"])
def test_before_calibration_nothing_works(attribute: str) -> None:
    made = CONFORMAL()
    assert not hasattr(made, attribute)
    with refused("not calibrated yet"):
        made.predict_set([[1.0]])


def test_an_error_of_a_parameter_or_a_length_names_no_site() -> None:
    for given, problem in (({"alpha": 5}, "^alpha is"), ({"guarantee": "best"}, "^no guarantee"), ({}, "^Found input")):
        with pytest.raises(ValueError, match=problem):
            CONFORMAL(**given).calibrate([[0.5, 0.5]] * (10 + (not given)), [0] * 10, sites=[0, 1] * 5)


def test_an_error_names_the_site() -> None:
    with refused("site 'south'", "row 0", "sums to 1.1"):
        CONFORMAL().calibrate({"north": ([[0.5, 0.5]] * 10, [0] * 10), "south": ([[0.5, 0.6]], [0])})
