"""With one site the numbers are those of the peers: the same thresholds over 1,000 seeds, or how far apart and why.

    benchmarks/.venv/bin/python benchmarks/peers_agree.py

Every comparison makes rows from a seed, asks a peer and fedconformal for the threshold of the same question, and says how
often both are the same, and how often ours is on the careful side. The table goes into docs/from-mapie.md.
"""


from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from common import HERE, save, table
from sklearn.base import BaseEstimator, RegressorMixin

import fedconformal as fc

SEEDS, RISK, FAILURE, ALPHA = 1000, 0.3, 0.1, 0.1
ROWS, LABELS = 80, 4
PAGE = HERE.parent / "docs" / "from-mapie.md"
START, END = "<!-- peers agree -->", "<!-- /peers agree -->"
LAMBDAS = np.arange(0, 1, 0.04)


class Case(NamedTuple):
    """What is compared: a name, a peer, how to get both numbers from a seed, and why they may differ."""

    what: str
    peer: str
    both: Callable[[int], tuple[float, float]]
    """Ours and theirs, so that more is more careful."""
    why: str


def multi_label(seed: int) -> tuple[Any, Any]:
    """Make scores that are never on the grid, as MAPIE predicts above a threshold and we at it, and a label a row."""
    rng = np.random.default_rng(seed)
    truth = rng.random((ROWS, LABELS)) < 0.4
    truth[np.arange(ROWS), rng.integers(0, LABELS, ROWS)] = True
    scores = 0.6 * rng.beta(2, 2, truth.shape) + rng.uniform(0.25, 0.4) * truth
    return ((np.floor(scores * 1000) + 0.5) / 1000).astype(np.float32), truth


def control(risk: str, seed: int, **more: Any) -> Any:
    """Calibrate MAPIE's controller of many labels."""
    from mapie.risk_control import MultiLabelClassificationController

    scores, truth = multi_label(seed)
    made = MultiLabelClassificationController(
        predict_function=np.asarray, risk=risk, target_level=1 - RISK, predict_params=LAMBDAS, **more
    )
    return made.calibrate(scores.astype(np.float64), truth.astype(int))


def crc(seed: int) -> tuple[float, float]:
    """Recall: MAPIE's CRC, and our mixture of one site. Theirs falls with lambda, ours rises with t = 1 - lambda."""
    scores, truth = multi_label(seed)
    theirs, loss = control("recall", seed, method="crc"), fc.FalseNegativeRate()
    grid = 1 - LAMBDAS[::-1]
    site = fc.summarize_losses(loss.evaluate(scores, truth, thresholds=grid), thresholds=grid, loss=loss)
    ours = float(fc.calibrate([site], risk=RISK).threshold)
    return place(ours, grid), place(1 - float(theirs.best_predict_param[0]), grid)


def place(threshold: float, grid: Any) -> float:
    """Return the number of the grid point, so that 1 - (1 - x) may differ in its last bit."""
    return float(len(grid)) if not np.isfinite(threshold) else float(np.abs(grid - threshold).argmin())


@lru_cache(maxsize=SEEDS)
def precision_losses(seed: int) -> Any:
    """Return the losses that MAPIE works out: one minus precision, and one for a row with nothing predicted."""
    return control("precision", seed, confidence_level=1 - FAILURE)._risks


def ltt(method: Any, walks: int) -> Callable[[int], tuple[float, float]]:
    """Precision: MAPIE's learn-then-test with a correction, and ours with as many walks, from the same losses."""

    def both(seed: int) -> tuple[float, float]:
        from mapie.risk_control import control_fwer
        from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value

        losses = precision_losses(seed)
        p = compute_hoeffding_bentkus_p_value(losses.mean(axis=0), ROWS, RISK)[::-1, 0]  # from the safest
        valid = len(p) - 1 - control_fwer(p, FAILURE, fwer_method=method() if callable(method) else method)
        site = fc.summarize_losses(losses, thresholds=LAMBDAS, rising=True)
        found = fc.calibrate([site], risk=RISK, guarantee=fc.LearnThenTest(failure=FAILURE, walks=walks)).threshold
        return place(float(found), LAMBDAS), float(min(valid, default=len(LAMBDAS)))

    return both


class Line(RegressorMixin, BaseEstimator):
    """A model that is fitted already: twice its input, and a shift."""

    def __init__(self, shift: float = 0.0) -> None:
        self.shift = shift
        self.is_fitted_ = True

    def fit(self, x: Any, y: Any) -> Line:
        """Do nothing."""
        return self

    def predict(self, x: Any) -> Any:
        """Return a number a row."""
        return 2 * np.asarray(x)[:, 0] + self.shift


def numbers(seed: int) -> tuple[Any, Any, Any, Any]:
    """Make 40 to 199 rows: inputs, predictions, how hard each is, and the truth."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(40 + seed % 160, 1))
    hard = 1 + np.abs(x[:, 0])
    return x, 2 * x[:, 0], hard, 2 * x[:, 0] + hard * rng.normal(size=len(x))


def calibrated(score: Any, columns: Any, y: Any, guarantee: Any = None, **about: Any) -> Any:
    """Calibrate our way, from one site with all its scores."""
    site = fc.summarize(score.evaluate(columns, y), kind="exact", score=score, **about)
    return fc.calibrate([site], alpha=ALPHA, guarantee=guarantee)


def half(interval: Any) -> float:
    """Return half of an interval's width."""
    return float(np.diff(np.asarray(interval).reshape(-1, 2))[0, 0]) / 2


def mapie_residual(seed: int) -> tuple[float, float]:
    """Residuals, by MAPIE's split conformal regressor."""
    from mapie.regression import SplitConformalRegressor

    x, f, _, y = numbers(seed)
    theirs = SplitConformalRegressor(estimator=Line(), confidence_level=1 - ALPHA, prefit=True).conformalize(x, y)
    return calibrated(fc.Residual(), f, y).threshold, half(theirs.predict_interval(x[:1])[1])


def mapie_cqr(seed: int) -> tuple[float, float]:
    """Quantiles that are one below and one above."""
    from mapie.regression import ConformalizedQuantileRegressor

    x, f, _, y = numbers(seed)
    lines = [Line(-1.0), Line(1.0), Line()]
    theirs = ConformalizedQuantileRegressor(estimator=lines, confidence_level=1 - ALPHA, prefit=True).conformalize(x, y)
    found = half(theirs.predict_interval(x[:1], symmetric_correction=True)[1]) - 1
    return calibrated(fc.CQR(), np.stack([f - 1, f + 1], axis=1), y).threshold, found


def crepes_residual(seed: int) -> tuple[float, float]:
    """Residuals, by crepes."""
    from crepes import ConformalRegressor

    _, f, _, y = numbers(seed)
    theirs = ConformalRegressor().fit(y - f).predict_int(np.zeros(1), confidence=1 - ALPHA)
    return calibrated(fc.Residual(), f, y).threshold, half(theirs)


def crepes_normalized(seed: int) -> tuple[float, float]:
    """Residuals over how hard a row is."""
    from crepes import ConformalRegressor

    _, f, hard, y = numbers(seed)
    theirs = ConformalRegressor().fit(y - f, sigmas=hard)
    found = half(theirs.predict_int(np.zeros(1), sigmas=np.ones(1), confidence=1 - ALPHA))
    return calibrated(fc.Normalized(), np.stack([f, hard], axis=1), y).threshold, found


def crepes_groups(seed: int) -> tuple[float, float]:
    """One group's threshold; ours gives a row the largest one of its groups, of which "all rows" is one."""
    from crepes import ConformalRegressor

    x, f, _, y = numbers(seed)
    side = (x[:, 0] > 0).astype(int)
    theirs = ConformalRegressor().fit(y - f, bins=side)
    found = half(theirs.predict_int(np.zeros(1), bins=np.ones(1, dtype=int), confidence=1 - ALPHA))
    records = calibrated(fc.Residual(), f, y, fc.ByGroup(fc.Mixture()), groups={"side": side}).certificate.groups
    return next(float(one.threshold) for one in records if one.group == "side=1"), found


def crepes_distribution(seed: int) -> tuple[float, float]:
    """The level .75 of the predictive distribution."""
    from crepes import ConformalPredictiveSystem

    _, f, _, y = numbers(seed)
    ours = fc.IntervalPredictor.of(calibrated(fc.Signed(), f, y))
    theirs = ConformalPredictiveSystem().fit(y - f).predict_percentiles(np.zeros(1), higher_percentiles=[75])
    return float(ours.predict_distribution(np.zeros(1), levels=[0.75])[0, 0]), float(np.ravel(theirs)[0])


def five_starts() -> Any:
    """Return MAPIE's fixed sequences from five places, which keep a state."""
    from mapie.risk_control import FWERFixedSequenceTesting

    return FWERFixedSequenceTesting(n_starts=5)


def cases() -> Iterator[Case]:
    """Yield what to compare."""
    exact = "where alpha (n + 1) is a whole number, crepes rounds it down in floats and takes one rank more than needed"
    yield Case("intervals, residuals", "MAPIE", mapie_residual, "")
    yield Case("intervals, CQR", "MAPIE", mapie_cqr, "")
    yield Case("intervals, residuals", "crepes", crepes_residual, exact)
    yield Case("intervals, normalised residuals", "crepes", crepes_normalized, exact)
    yield Case("intervals of a group (Mondrian)", "crepes", crepes_groups, exact)
    yield Case("predictive distribution, level .75", "crepes", crepes_distribution, "")
    yield Case(
        "recall of many labels, CRC", "MAPIE", crc, "ours takes a bound that equals the limit, MAPIE one below it only"
    )
    yield Case(
        "precision, LTT with Bonferroni's correction",
        "MAPIE",
        ltt("bonferroni", len(LAMBDAS)),
        "sums of losses are rounded up to a millionth of a row",
    )
    yield Case(
        "precision, LTT with 5 walks (MAPIE: fixed sequences with 5 starts)",
        "MAPIE",
        ltt(five_starts, 5),
        "sums of losses are rounded up to a millionth of a row",
    )
    yield Case(
        "precision, LTT: our 10 walks against Holm's correction",
        "MAPIE",
        ltt("bonferroni_holm", 10),
        "another way to correct, with the same promise",
    )


def _apart(ours: float, theirs: float) -> float:
    """Return by how much ours is larger; two infinities are the same, and so are numbers up to rounding."""
    return 0.0 if ours == theirs else round(ours - theirs, 9)


def measured(case: Case, seeds: int) -> list[Any]:
    """Compare over seeds: how many are the same, how often ours is more careful, how often less, and by how much."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a limit cannot be kept is a number here, the end of the grid
        apart = np.array([_apart(*case.both(seed)) for seed in range(seeds)])
    return [
        case.what,
        case.peer,
        f"{(apart == 0).sum()} of {seeds}",
        int((apart > 0).sum()),
        int((apart < 0).sum()),
        f"{np.abs(apart).max():.3g}",
        case.why,
    ]


def main(seeds: int) -> None:
    """Measure, print, and put the table into the page."""
    head = ["compared", "with", "the same", "ours more careful", "theirs", "apart at most", "why they may differ"]
    rows = [measured(case, seeds) for case in cases()]
    table(head, rows)
    save("peers_agree", [dict(zip(head, row, strict=True)) for row in rows])
    lines = [head, ["---"] * len(head), *rows]
    text = "\n".join([START, *(f"| {' | '.join(map(str, line))} |" for line in lines), END])
    PAGE.write_text(re.sub(f"{START}.*{END}", lambda _: text, PAGE.read_text(), flags=re.DOTALL))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS)
