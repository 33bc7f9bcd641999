"""Membership in a calibration. The attacker has a published predictor, the model, and a candidate's features and label.

It looks the candidate's score up among the thresholds, after the predictor's own rounding; or compares how many scores
the predictor states between two thresholds with how many of other rows there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import fedconformal as fc
from fedconformal._base.arrays import ALPHA_UNIT, Booleans, Floats
from fedconformal.calibration.search import PromiseCurve, round_up

ALPHA = 0.1


@dataclass(frozen=True)
class Stratum:
    """The thresholds of all rows, of a class, a group or an end, and the share of scores up to each."""

    thresholds: Floats
    shares: Floats
    cells: Callable[[Floats], Floats]
    """From scores to what their thresholds would be."""

    def holds(self, scores: Floats) -> Booleans:
        """Look scores up."""
        return np.isin(self.cells(scores), self.thresholds)

    def excess(self, scores: Floats, others: Floats) -> Floats:
        """Return the log of the share that is stated around each score over that of other rows."""
        stated = np.diff(np.concatenate([[0.0], self.shares, [1.0]]))
        found = np.bincount(np.searchsorted(self.thresholds, others), minlength=len(stated)) + 0.5
        ratio = np.log(np.maximum(stated, 1e-9) / (found / found.sum()))
        return np.asarray(ratio[np.searchsorted(self.thresholds, scores)])


class Rows(NamedTuple):
    """The score of every label, the labels, and the groups."""

    scores: Floats
    labels: Any
    groups: dict[str, Any]

    def of(self, label: Any) -> Floats:
        """Return the scores of these labels."""
        found: Floats = self.scores[np.arange(len(self.scores)), label]
        return found

    def part(self, inside: Any) -> Rows:
        """Take some rows."""
        return Rows(self.scores[inside], self.labels[inside], {k: v[inside] for k, v in self.groups.items()})


def strata_of(predictor: Any) -> dict[Any, Stratum]:
    """Read all thresholds: by class, by group, of the lower end (by -1) and of all rows (None)."""
    about, curve = predictor.certificate, predictor.curve

    def made(one: PromiseCurve, rows: int) -> Stratum:
        def cells(scores: Floats) -> Floats:
            rounded = [round_up(q, rows, predictor.score) for q in scores.tolist()]
            return scores if about.exact else np.array(rounded)

        finite = one.thresholds < np.finfo(np.float64).max
        return Stratum(one.thresholds[finite], one.promised[finite] / ALPHA_UNIT, cells)

    if about.risk is not None:
        grid, risks = curve.thresholds, np.array(curve.promised, dtype=np.float64) / ALPHA_UNIT
        falls = np.flatnonzero(np.diff(risks, prepend=about.risk.bound))
        step = 1 if about.exact else 1 + (len(grid) - 1) // (4 * math.isqrt(about.scores))
        left = grid[(len(grid) - 1) % step :: step]
        return {
            None: Stratum(
                grid[falls], 1 - risks[falls], lambda s: left[np.searchsorted(left, s).clip(0, len(left) - 1)]
            )
        }
    found: dict[Any, Stratum] = {}
    for promise, one in zip(about.promises, predictor.curves, strict=True):
        key = promise.group if promise.class_index is None else promise.class_index
        if one is not None and (promise.group is None or promise.class_index is None):
            found[-1 if promise.end == "lower" else key] = made(one, promise.scores)
    return found


def looked_up(strata: dict[Any, Stratum], rows: Rows, label: Any) -> Booleans:
    """Say whether the score of this label is among the thresholds that are for such a row."""
    scores, found = rows.of(label), np.zeros(len(rows.labels), dtype=bool)
    for name, stratum in strata.items():
        inside = _inside(name, rows, label)
        found[inside] |= stratum.holds(-scores[inside] if name == -1 else scores[inside])
    return found


def counted(strata: dict[Any, Stratum], rows: Rows, others: Rows) -> Booleans:
    """Say around which scores the predictor states more rows than others have."""
    total = np.zeros(len(rows.labels))
    for name, stratum in strata.items():
        inside, outside = _inside(name, rows, rows.labels), _inside(name, others, others.labels)
        sign = -1 if name == -1 else 1
        if inside.any() and outside.any() and len(stratum.thresholds):
            known = others.part(outside)
            total[inside] += stratum.excess(sign * rows.of(rows.labels)[inside], sign * known.of(known.labels))
    return total > 0


def _inside(name: Any, rows: Rows, label: Any) -> Booleans:
    """Say which rows a stratum is for, if they have these labels."""
    if isinstance(name, str) and "=" in name:
        column, value = name.split("=")
        return np.asarray(rows.groups[column] == value)
    if isinstance(name, str) or name in (None, -1):
        return np.ones(len(rows.labels), dtype=bool)
    return np.broadcast_to(np.asarray(label) == name, len(rows.labels))


def attack(predictor: Any, members: Rows, others: Rows) -> dict[str, float]:
    """Return the shares of members and of others that both attacks call members, and whose label one finds."""
    strata, found = strata_of(predictor), {}
    half = np.arange(len(others.labels)) % 2 == 0  # the attacker's own
    for name, rows in (("members", members), ("others", others.part(~half))):
        found[f"{name} found"] = float(looked_up(strata, rows, rows.labels).mean())
        found[f"{name} counted"] = float(counted(strata, rows, others.part(half)).mean())
        hits = np.stack([looked_up(strata, rows, np.full(len(rows.labels), k)) for k in range(rows.scores.shape[1])], 1)
        right = hits[np.arange(len(hits)), rows.labels] & (hits.sum(axis=1) == 1)
        found[f"{name} labels"] = float(right.mean())
    return found


@cache
def _digits(seed: int) -> tuple[Floats, Any]:
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    rows, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(rows))
    train, rest = order[:400], order[400:]
    model = LogisticRegression(max_iter=200).fit(rows[train] / 16, labels[train])
    return model.predict_proba(rows[rest] / 16), labels[rest]


def digits(seed: int, count: int) -> tuple[Floats, Any, Any]:
    """Return probabilities and labels of scikit-learn's digits, by a model of other rows; the first are members."""
    probs, labels = _digits(seed)
    return probs, labels, np.arange(len(labels)) < count


def predictor_of(what: str, members: Rows, *, exact: bool) -> Any:
    """Calibrate one site: one threshold, by class, by group, a limit on the rate of misses, or for numbers."""
    scores, labels = members.of(members.labels), members.labels
    if what == "a limit on losses":
        grid = np.arange(1, 1001) / 1000
        losses = fc.LossSummary.of_losses((scores[:, None] > grid).astype(float), thresholds=grid, site="a")
        return fc.calibrate([losses], risk=ALPHA, exact=exact)
    more: dict[str, Any] = {
        "by class": {"labels": labels, "classes": members.scores.shape[1]},
        "by group": {"groups": members.groups},
    }.get(what, {})
    guarantee: Any = {"by class": fc.ByClass(), "by group": fc.ByGroup()}.get(what, "mixture")
    score = {"residual": fc.Residual(), "signed": fc.Signed()}.get(what, fc.LAC())
    site = fc.Summary.of_scores(scores, kind="exact", score=score, site="a", **more)
    return fc.calibrate([site], alpha=ALPHA, guarantee=guarantee, exact=exact)


def numbers(seed: int, count: int, *, signed: bool) -> tuple[Rows, Rows]:
    """Return errors on scikit-learn's diabetes data, of a model of other rows, as scores of a single label."""
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import Ridge

    rows, truth = load_diabetes(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(rows))
    train, members, others = np.split(order, [120, 120 + count])
    errors = truth - Ridge(alpha=0.1).fit(rows[train], truth[train]).predict(rows)
    scores = (errors if signed else np.abs(errors))[:, None]
    found = [Rows(scores[part], np.zeros(len(part), dtype=int), {}) for part in (members, others)]
    return found[0], found[1]


def split(draw: Callable[[int, int], tuple[Floats, Any, Any]], seed: int, count: int) -> tuple[Rows, Rows]:
    """Draw members and others, with two groups."""
    probs, labels, inside = draw(seed, count)
    rng = np.random.default_rng(seed)
    groups = {"sex": rng.choice(["F", "M"], len(labels)), "age": rng.choice(["young", "middle", "old"], len(labels))}
    rows = Rows(fc.LAC().evaluate_all(probs), labels, groups)
    return rows.part(inside), rows.part(~inside)
