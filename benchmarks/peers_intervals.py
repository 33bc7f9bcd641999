"""Cases of peers_agree.py: intervals, sets of labels by class and by group.

Each makes rows from a seed, asks both for the same, and returns two numbers, of which the larger one is the more
careful: the mean width of 20 intervals, or the labels in 20 sets. Intervals are compared to nine places, since ours are
rounded outward in the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedconformal as fc

ALPHA, TEST, CLASSES = 0.1, 20, 4
Array = NDArray[np.float64]
Both = Callable[[int], tuple[float, float]]
SAME = "the same rank"
FLOATS = "crepes takes one rank more where alpha (n + 1) is whole: 1 - 0.9 is less than 0.1 in floats"


class Column:
    """A fitted regressor that answers with one column of its input."""

    def __init__(self, column: int) -> None:
        self.column, self.n_features_in_, self.is_fitted_ = column, 4, True

    def fit(self, X: Array, y: Array) -> Column:
        """Learn nothing."""
        return self

    def predict(self, X: Any) -> Array:
        """Return the column."""
        return np.asarray(X)[:, self.column]

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def get_params(self, deep: bool = True) -> dict[str, int]:  # noqa: FBT001, FBT002
        """Return what scikit-learn's clone asks for."""
        return {"column": self.column}


def regression(seed: int) -> tuple[Array, Array, int]:
    """Return columns prediction, scale, lower and upper of some rows, their values, and how many calibrate."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(40, 300))
    prediction, scale = rng.normal(size=rows + TEST), rng.uniform(0.5, 2, rows + TEST)
    y = prediction + scale * rng.standard_t(4, rows + TEST)
    reach = scale * rng.uniform(0.5, 2)
    return np.stack([prediction, scale, prediction - reach, prediction + 0.8 * reach], axis=1), y, rows


def width(ends: Any) -> float:
    """Return the mean width, to nine places."""
    found = np.asarray(ends, dtype=np.float64).reshape(TEST, 2)
    return round(float((found[:, 1] - found[:, 0]).mean()), 9)


def ours(score: fc.RegressionScore, columns: list[int], seed: int) -> fc.Predictor:
    """Calibrate one site."""
    x, y, rows = regression(seed)
    site = fc.summarize(x[:rows, columns].squeeze(), y[:rows], kind="exact", score=score)
    return fc.calibrate([site], alpha=ALPHA, exact=True)


def intervals(score: fc.RegressionScore, columns: list[int], theirs: Callable[[Array, Array, int], Any]) -> Both:
    """Compare the widths of 20 intervals."""

    def both(seed: int) -> tuple[float, float]:
        x, y, rows = regression(seed)
        made = ours(score, columns, seed).predict_interval(x[rows:, columns].squeeze())
        return width(made), width(theirs(x, y, rows))

    return both


def mapie_residual(x: Array, y: Array, rows: int, **score: Any) -> Any:
    """MAPIE's split conformal regressor."""
    from mapie.conformity_scores import AbsoluteConformityScore
    from mapie.regression import SplitConformalRegressor

    made = SplitConformalRegressor(
        Column(0), confidence_level=1 - ALPHA, conformity_score=AbsoluteConformityScore(**score), prefit=True
    )
    return made.conformalize(x[:rows], y[:rows]).predict_interval(x[rows:])[1][:, :, 0]


def mapie_cqr(x: Array, y: Array, rows: int) -> Any:
    """MAPIE's conformalised quantile regressor, with one correction for both ends."""
    from mapie.regression import ConformalizedQuantileRegressor

    models = [Column(2), Column(3), Column(0)]
    made = ConformalizedQuantileRegressor(models, confidence_level=1 - ALPHA, prefit=True)
    made.conformalize(x[:rows], y[:rows])
    return made.predict_interval(x[rows:], symmetric_correction=True)[1][:, :, 0]


def crepes_interval(x: Array, y: Array, rows: int, *, scaled: bool = False) -> Any:
    """Ask crepes' conformal regressor."""
    from crepes import ConformalRegressor

    cal, test = ({"sigmas": part[:, 1]} if scaled else {} for part in (x[:rows], x[rows:]))
    made = ConformalRegressor().fit(y[:rows] - x[:rows, 0], **cal)
    return made.predict_int(x[rows:, 0], confidence=1 - ALPHA, **test)


def crepes_two_ends(x: Array, y: Array, rows: int) -> Any:
    """Ask crepes' predictive system for the interval between the two percentiles."""
    from crepes import ConformalPredictiveSystem

    made = ConformalPredictiveSystem().fit(y[:rows] - x[:rows, 0])
    return made.predict_int(x[rows:, 0], confidence=1 - ALPHA)


def labels(seed: int) -> tuple[Any, Any, Any, int]:
    """Return probabilities, labels and a group of some rows, and how many calibrate."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(100, 400))
    truth, group = rng.integers(0, CLASSES, rows + TEST), rng.integers(0, 3, rows + TEST)
    logits = rng.normal(size=(rows + TEST, CLASSES)) + (1.5 - 0.5 * group)[:, None] * np.eye(CLASSES)[truth]
    return fc.softmax(logits).astype(np.float32), truth, group, rows


def label_sets(kind: str, peer: str) -> Both:
    """Compare the number of labels in 20 sets that may be empty: plain, by class, or by group."""

    def both(seed: int) -> tuple[float, float]:
        probs, truth, group, rows = labels(seed)
        scores, test = fc.LAC().evaluate(probs[:rows], truth[:rows]), probs[rows:]
        more: dict[str, Any] = {"class": {"labels": truth[:rows]}}.get(kind, {})
        if kind == "group":
            more = {"groups": {"ward": group[:rows]}}
        site = fc.Summary.of_scores(scores, kind="exact", score=fc.LAC(), precision="float32", classes=CLASSES, **more)
        guarantee = {"class": "ByClass", "group": "ByGroup"}.get(kind, "Mixture")
        made = fc.calibrate([site], alpha=ALPHA, guarantee=getattr(fc, guarantee)(), exact=True)
        at = {"groups": {"ward": group[rows:]}} if kind == "group" else {}
        mine = made.predict_set(test, allow_empty=True, **at)
        return float(mine.sum()), float(PEERS[peer](kind, probs, truth, group, rows).sum())

    return both


def mapie_sets(kind: str, probs: Any, truth: Any, group: Any, rows: int) -> Any:  # noqa: ARG001
    """MAPIE's split conformal classifier."""
    from contenders import mapie

    return mapie("lac")(probs[:rows], truth[:rows], probs[rows:])


def crepes_sets(kind: str, probs: Any, truth: Any, group: Any, rows: int) -> Any:
    """Ask crepes' conformal classifier, hinge and not smoothed: one p-value a label, among the rows of its category."""
    from crepes import ConformalClassifier

    bins: Any = {"class": truth, "group": group}.get(kind)
    own = 1 - probs[np.arange(rows), truth[:rows]].astype(np.float64)
    all_labels = 1 - probs[rows:].astype(np.float64)
    made = ConformalClassifier().fit(own, bins=None if bins is None else bins[:rows])
    if kind == "class":  # the category of a row is the label that is tried
        tried = [made.predict_p(all_labels[:, [c]], bins=np.full(TEST, c), smoothing=False) for c in range(CLASSES)]
        return np.concatenate(tried, axis=1) > ALPHA
    return made.predict_p(all_labels, bins=None if bins is None else bins[rows:], smoothing=False) > ALPHA


def group_thresholds(seed: int) -> tuple[float, float]:
    """Compare the sum of the thresholds of three groups, each by itself."""
    from crepes import ConformalClassifier

    probs, truth, group, rows = labels(seed)
    own = fc.LAC().evaluate(probs[:rows], truth[:rows])
    site = fc.Summary.of_scores(own, kind="exact", score=fc.LAC(), groups={"ward": group[:rows]})
    found = fc.calibrate([site], alpha=ALPHA, guarantee=fc.ByGroup(), exact=True).certificate.promises
    mine = [float(str(record.threshold)) for record in found if record.group.startswith("ward=")]
    made = ConformalClassifier().fit(own, bins=group[:rows])
    tried = [made.predict_p(own[:, None], bins=np.full(rows, g), smoothing=False)[:, 0] > ALPHA for g in range(3)]
    theirs = [own[(group[:rows] == g) & tried[g]].max() for g in range(3)]
    return round(sum(mine), 9), round(float(sum(theirs)), 9)


PEERS: dict[str, Callable[..., Any]] = {"MAPIE": mapie_sets, "crepes": crepes_sets}


def listed() -> Iterator[tuple[str, str, Both, str]]:
    """Yield what is compared, with whom, how, and why both may differ."""
    plain: tuple[fc.RegressionScore, list[int]] = fc.Residual(), [0]
    yield "intervals, `Residual`", "MAPIE", intervals(*plain, mapie_residual), SAME
    yield "intervals, `Residual`", "crepes", intervals(*plain, crepes_interval), FLOATS
    scaled = intervals(fc.Normalized(), [0, 1], lambda *given: crepes_interval(*given, scaled=True))
    yield "intervals, `Normalized`", "crepes", scaled, FLOATS
    yield "intervals, `CQR`", "MAPIE, symmetric", intervals(fc.CQR(), [2, 3], mapie_cqr), SAME
    two = intervals(fc.Signed(), [0], lambda *given: mapie_residual(*given, sym=False))
    why = "MAPIE takes one rank more at some n where alpha (n + 1) / 2 is whole, as floats round it"
    yield "intervals with two ends, `Signed`", "MAPIE, `sym=False`", two, why
    yield "intervals with two ends, `Signed`", "crepes", intervals(fc.Signed(), [0], crepes_two_ends), FLOATS
    yield "sets, `LAC`", "MAPIE", label_sets("", "MAPIE"), SAME
    yield "sets, `LAC`", "crepes", label_sets("", "crepes"), "a p-value above alpha is the same rule"
    yield "sets by class, `ByClass`", "crepes, class-conditional", label_sets("class", "crepes"), "the same rule"
    yield "thresholds of three groups, `ByGroup`", "crepes, Mondrian", group_thresholds, SAME
    why = "ours takes the larger of the group's threshold and that of all rows"
    yield "sets by group, `ByGroup`", "crepes, Mondrian", label_sets("group", "crepes"), why
