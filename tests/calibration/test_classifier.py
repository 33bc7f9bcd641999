"""The classifier in scikit-learn's manner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import fedconformal as fc
from fedconformal.scores import DEFAULT
from tests.contracts.tools import FakeTensor, refused

Site = tuple[Any, Any]


def halve(rows: Any) -> NDArray[np.float64]:
    """Stand in for a model: the input says how probable class 1 is, in percent."""
    one = np.asarray(rows, dtype=np.float64).ravel() / 100
    return np.stack([1 - one, one], axis=1)


def sites() -> dict[str, Site]:
    rng = np.random.default_rng(0)
    found = {}
    for name, size in (("north", 40), ("south", 25)):
        probs = rng.dirichlet([1, 1, 1], size=size)
        found[name] = (probs, np.array([rng.choice(3, p=row) for row in probs]))
    return found


def test_it_is_the_sum_of_its_parts() -> None:
    given = sites()
    for kind in ("exact", "ranks"):
        made = fc.FederatedConformalClassifier(score=fc.APS(), alpha=0.2, kind=kind).calibrate(given)
        summaries = [
            fc.Summary.of_scores(
                fc.APS().evaluate(probs.astype(np.float32), labels),
                kind=kind,
                alpha=0.2,
                score=fc.APS(),
                site=name,
                classes=probs.shape[1],
                precision="float32",
            )
            for name, (probs, labels) in given.items()
        ]
        by_hand = fc.calibrate(summaries, alpha=0.2)
        assert made.predictor.to_bytes() == by_hand.to_bytes()
        assert made.threshold_ == by_hand.threshold
        assert made.certificate_ == by_hand.certificate
        probs, labels = given["north"]
        assert np.array_equal(made.predict_set(probs), by_hand.predict_set(probs))
        assert np.array_equal(made.predict_set(probs, alpha=[0.1, 0.5]), by_hand.predict_set(probs, alpha=[0.1, 0.5]))
        assert np.array_equal(made.predict_p(probs), by_hand.predict_p(probs))
        assert made.evaluate(probs, labels, sites=labels) == by_hand.evaluate(probs, labels, sites=labels)


def test_lists_and_dicts_of_sites() -> None:
    named = fc.FederatedConformalClassifier().calibrate(sites())
    numbered = fc.FederatedConformalClassifier().calibrate(list(sites().values()))
    assert [record.sites for record in named.certificate_.summaries] == [("north",), ("south",)]
    assert [record.sites for record in numbered.certificate_.summaries] == [("#1",), ("#2",)]
    assert named.threshold_ == numbered.threshold_
    assert named.predictor.score == DEFAULT
    one = fc.FederatedConformalClassifier(guarantee=fc.OneSite(site="south"), alpha=0.2).calibrate(sites())
    same = fc.FederatedConformalClassifier(guarantee=fc.OneSite(site="#2"), alpha=0.2).calibrate(
        tuple(sites().values())
    )
    alone = fc.FederatedConformalClassifier(alpha=0.2).calibrate({"south": sites()["south"]})
    assert one.threshold_ == same.threshold_ <= alone.threshold_  # rounded up in larger steps, as there are fewer rows
    assert one.certificate_.promises[0].rank == alone.certificate_.promises[0].rank
    assert one.certificate_.guarantee == {"name": "one-site", "site": "south"}


def test_a_function() -> None:
    rows, labels = np.arange(0, 100, 4), (np.arange(25) > 11).astype(int)
    with_model = fc.FederatedConformalClassifier(estimator=halve, score=fc.LAC(), alpha=0.2).calibrate([(rows, labels)])
    without = fc.FederatedConformalClassifier(score=fc.LAC(), alpha=0.2).calibrate([(halve(rows), labels)])
    assert with_model.threshold_ == without.threshold_
    assert np.array_equal(with_model.predict_set([5, 50, 95]), without.predict_set(halve([5, 50, 95])))
    assert np.array_equal(with_model.predict_p([5, 50]), without.predict_p(halve([5, 50])))
    assert with_model.evaluate(rows, labels) == without.evaluate(halve(rows), labels)


def test_a_model_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, size=300)
    rows = rng.normal(size=(300, 2)) + labels[:, None]
    model = LogisticRegression().fit(rows[:100], labels[:100])
    parts = [(rows[100:180], labels[100:180]), (rows[180:240], labels[180:240])]
    made = fc.FederatedConformalClassifier(estimator=model.predict_proba, alpha=0.2).calibrate(parts)
    assert made.predict_set(rows[240:]).shape == (60, 3)
    assert made.evaluate(rows[240:], labels[240:]).coverage > 0.6
    assert clone(made).calibrate(parts).threshold_ == made.threshold_


def test_tensors_are_read() -> None:
    probs, labels = sites()["north"]
    plain = fc.FederatedConformalClassifier().calibrate([(probs, labels)])
    tensor = fc.FederatedConformalClassifier().calibrate([(FakeTensor(probs), FakeTensor(labels))])
    assert tensor.threshold_ == plain.threshold_
    assert np.array_equal(tensor.predict_set(FakeTensor(probs)), plain.predict_set(probs))


def test_empty_sets_only_if_wanted() -> None:
    probs = np.full((30, 2), 0.5)
    labels = np.zeros(30, dtype=int)
    for allow_empty, size in ((False, 1.0), (True, 0.0)):
        made = fc.FederatedConformalClassifier(score=fc.LAC(), alpha=0.2, allow_empty=allow_empty)
        made.calibrate([(np.tile([0.75, 0.25], (30, 1)), labels)])
        assert made.predict_set(probs).sum(axis=1).mean() == size
        assert made.evaluate(probs, labels).mean_size == size


def test_clone_and_parameters() -> None:
    made = fc.FederatedConformalClassifier(
        estimator=halve,
        score=fc.RAPS(penalty=0.5),
        alpha=0.25,
        guarantee=fc.EverySite(),
        kind="ranks",
        allow_empty=True,
    )
    parameters = made.get_params()
    assert parameters == {
        "estimator": halve,
        "score": fc.RAPS(penalty=0.5),
        "alpha": 0.25,
        "guarantee": fc.EverySite(),
        "kind": "ranks",
        "allow_empty": True,
        "classes": None,
        "test_size": 0.25,
        "random_state": None,
    }
    assert made.get_params(deep=False) == parameters
    copied = clone(made)
    assert copied is not made
    assert copied.get_params() == parameters
    assert made.set_params(alpha=0.5, score=fc.LAC()) is made
    assert (made.alpha, made.get_params()["score"], made.kind) == (0.5, fc.LAC(), "ranks")
    assert copied.alpha == 0.25
    with refused("no parameter 'beta'", "alpha"):
        made.set_params(beta=1)


def test_clone_forgets_the_calibration() -> None:
    made = fc.FederatedConformalClassifier().calibrate(sites())
    with refused("not calibrated yet", "calibrate"):
        clone(made).predict_set(sites()["north"][0])


def test_nothing_is_checked_before_calibration() -> None:
    made = fc.FederatedConformalClassifier(alpha=7, kind="nope")
    assert made.alpha == 7
    with refused("nope"):
        made.calibrate(sites())
    with refused("alpha is 7"):
        made.set_params(kind="exact").calibrate(sites())


@pytest.mark.parametrize("action", ["predict_set", "predict_p", "save", "threshold_", "certificate_", "evaluate"])
def test_before_calibration_nothing_works(action: str, tmp_path: Path) -> None:
    made = fc.FederatedConformalClassifier()
    with refused("not calibrated yet"):
        match action:
            case "save":
                made.save(tmp_path / "p.json")
            case "evaluate":
                made.evaluate([[1.0]], [0])
            case "predict_set" | "predict_p":
                getattr(made, action)([[1.0]])
            case _:
                getattr(made, action)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("bad", "fragments"),
    [
        (([[0.5, 0.6]], [0]), ["row 0", "sums to 1.1"]),
        (([[0.5, 0.5]], [2]), ["labels: row 0 is 2"]),
        (([[0.5, 0.5]], [0, 1]), ["labels"]),
        ((np.empty((0, 2)), []), ["is empty"]),
        (([], []), ["shape (0,)"]),
        (([[np.nan, 0.5]], [0]), ["not finite"]),
        (([[0.5, 0.5]],), []),
        (([[0.5, 0.5]], [0], [0]), []),
        (None, []),
        (5, []),
    ],
)
def test_an_error_names_the_site(bad: Any, fragments: list[str]) -> None:
    good = ([[0.5, 0.5]] * 10, [0] * 10)
    with refused("site 'south'", *fragments):
        fc.FederatedConformalClassifier().calibrate({"north": good, "south": bad})
    with refused("site '#2'", *fragments):
        fc.FederatedConformalClassifier().calibrate([good, bad])


def test_an_error_of_the_model_names_the_site() -> None:
    def broken(rows: Any) -> Any:
        raise ValueError("expected 4 features, got 2")

    with pytest.raises(fc.InputError, match="site 'north': expected 4 features, got 2"):
        fc.FederatedConformalClassifier(estimator=broken).calibrate(sites())


@pytest.mark.parametrize(
    ("given", "fragments"),
    [
        ([], ["no summaries"]),
        ({}, ["no summaries"]),
        ({1: ([[1.0]], [0])}, ["site 1"]),
        ({"a\nb": ([[1.0]], [0])}, ["site"]),
    ],
)
def test_bad_sites(given: Any, fragments: list[str]) -> None:
    with refused(*fragments):
        fc.FederatedConformalClassifier().calibrate(given)


@pytest.mark.parametrize("score", ["cqr", "raps:penalti=1", fc.LAC, 5])
def test_a_bad_score(score: Any) -> None:
    with refused(param="score"):
        fc.FederatedConformalClassifier(score=score).calibrate(sites())


def test_a_failed_calibration_keeps_the_old_one() -> None:
    made = fc.FederatedConformalClassifier().calibrate(sites())
    threshold = made.threshold_
    with refused("site"):
        made.calibrate([([[0.5, 0.6]], [0])])
    assert made.threshold_ == threshold


def test_saved_without_the_model(tmp_path: Path) -> None:
    made = fc.FederatedConformalClassifier(alpha=0.2).calibrate(sites())
    made.save(tmp_path / "p.json")
    again = fc.load(tmp_path / "p.json")
    probs, _ = sites()["south"]
    assert np.array_equal(again.predict_set(probs), made.predict_set(probs))


def test_repr_tells_the_parameters_and_the_promise() -> None:
    made = fc.FederatedConformalClassifier(score=fc.LAC(), alpha=0.2)
    assert repr(made) == "FederatedConformalClassifier(score=LAC(), alpha=0.2)"
    assert " -> Predictor(LAC(), alpha=0.2, threshold=" in repr(made.calibrate(sites()))


def test_an_infeasible_alpha_warns() -> None:
    with pytest.warns(fc.InfeasibleWarning, match="more in all, at any site"):
        made = fc.FederatedConformalClassifier(alpha=0.001).calibrate(sites())
    with pytest.warns(fc.InfeasibleWarning):
        assert made.predict_set([[1.0, 0.0, 0.0]]).all()
