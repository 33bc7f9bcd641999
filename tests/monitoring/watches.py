"""Predictors, rows and watches that the tests of the store share."""

from pathlib import Path
from typing import Any

import numpy as np

import fedconformal as fc
from fedconformal.monitoring.events import Outcomes, Predicted
from fedconformal.monitoring.limits import limits_of
from fedconformal.monitoring.store import Watch

CLASSES = ["benign", "malignant", "unsure"]
START = 20_700 * 86_400.0
"""A day to begin with, in seconds since 1970."""


def rows_of(seed: int, rows: int) -> tuple[Any, Any]:
    """Probabilities and labels, drawn from them."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(3), rows)
    return probs, np.array([rng.choice(3, p=p) for p in probs])


def summaries(sizes: tuple[int, ...] = (300, 200), **about: Any) -> list[fc.Summary]:
    """Summaries of the sites a, b, ..."""
    found = []
    for k, size in enumerate(sizes):
        probs, labels = rows_of(k, size)
        said: dict[str, Any] = {"score": fc.LAC(), "classes": CLASSES, "site": "abcdefghijklmnopqrst"[k], **about}
        found.append(fc.summarize(probs, np.array(CLASSES)[labels], kind="exact", **said))
    return found


def predictor(guarantee: fc.Guarantee | str = "mixture", *, sizes: tuple[int, ...] = (300, 200), **about: Any) -> Any:
    return fc.calibrate(summaries(sizes, **about), alpha=0.1, guarantee=guarantee)


def losses(rows: int) -> Any:
    """Losses that fall with the threshold."""
    return np.random.default_rng(0).random((rows, 1)) * np.array([0.8, 0.5, 0.3, 0.1, 0.02])


def started(path: Path, rule: Any = None, **about: Any) -> Watch:
    rule = predictor() if rule is None else rule
    return Watch.start(path, rule, limits_of(rule, limit=about.pop("limit", None)), **about)


def answered(ids: list[str], *, time: Any = START, hold: Any = None, **about: Any) -> Predicted:
    """Rows whose sets hold benign, and malignant too where `hold` says so."""
    sets = np.zeros((len(ids), 3), dtype=np.bool_)
    sets[:, 0] = True
    if hold is not None:
        sets[:, 1] = hold
    return Predicted(ids=ids, times=np.broadcast_to(np.asarray(time, dtype=np.float64), len(ids)), sets=sets, **about)


def true(ids: list[str], labels: Any, *, time: Any = START) -> Outcomes:
    values = np.broadcast_to(np.asarray(labels, dtype=np.float64), len(ids))
    return Outcomes(ids=ids, times=np.broadcast_to(np.asarray(time, dtype=np.float64), len(ids)), values=values)
