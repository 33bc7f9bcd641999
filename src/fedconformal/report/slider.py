"""What the report says at any alpha: promise, size and the sets of some rows, worked out beforehand.

A label is in the set at alpha exactly if its p-value is above alpha, or if it is the top label. So a page needs the
p-values of its examples, and for a grid of alphas two counts over all rows; no scores and no model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from fedconformal._base.arrays import Floats, Integers, as_alpha
from fedconformal.calibration.predictor import Predictor
from fedconformal.report.rows import Rows, png

GRID = tuple(Fraction(i, 200) for i in range(1, 101))
EXAMPLES = 12
MOST_ROWS = 20_000
"""More test rows than this do not change the means that are shown."""


class Means(NamedTuple):
    """Over the test rows, if there are any: labels a set, how many sets hold the truth, and how many every label."""

    size: float | None = None
    coverage: float | None = None
    full: float | None = None


@dataclass(frozen=True, kw_only=True)
class Step:
    """One position of the slider."""

    alpha: float
    threshold: str
    promise: str
    size: float | None
    coverage: float | None
    full: float | None
    """The share of sets that hold every label."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """One row: its label, the top label, and every label whose p-value is above the smallest alpha."""

    row: int
    label: int
    top: int
    labels: list[int]
    p: list[float]
    image: str | None

    def members(self, alpha: float) -> list[int]:
        """Return the set at alpha, the likeliest labels first."""
        found = [label for label, p in zip(self.labels, self.p, strict=True) if p > alpha]
        return found if self.top in found else [self.top, *found]

    def to_dict(self) -> dict[str, Any]:
        """Describe for the page's script."""
        return {"label": self.label, "top": self.top, "labels": self.labels, "p": self.p}


@dataclass(frozen=True, kw_only=True)
class Slider:
    """All positions, which of them is the certified one, and the examples."""

    steps: list[Step]
    certified: int
    examples: list[Example]

    @property
    def start(self) -> Step:
        """The certified position."""
        return self.steps[self.certified]


def slider(predictor: Predictor, rows: Rows | None) -> Slider:
    """Work out every position for a predictor, with sizes if there are rows."""
    certified = as_alpha(predictor.certificate.alpha)
    alphas = sorted({*GRID, certified})
    examples: list[Example] = []
    means = [Means()] * len(alphas)
    if rows is not None and len(rows.labels):
        chosen = np.unique(np.linspace(0, len(rows.labels) - 1, min(len(rows.labels), MOST_ROWS)).astype(np.int64))
        p, labels = predictor.predict_p(rows.probs[chosen]), rows.labels[chosen]
        top = rows.probs[chosen].argmax(axis=1)
        means = _means(p, labels, top, alphas)
        examples = _examples(p, labels, top, chosen, rows, float(certified), float(alphas[0]))
    steps = [
        Step(alpha=float(alpha), **_promise(predictor, alpha), size=mean.size, coverage=mean.coverage, full=mean.full)
        for alpha, mean in zip(alphas, means, strict=True)
    ]
    return Slider(steps=steps, certified=alphas.index(certified), examples=examples)


def _means(p: Floats, labels: Integers, top: Integers, alphas: list[Fraction]) -> list[Means]:
    every, index = np.sort(p, axis=None), np.arange(len(p))
    of_top = p[index, top]
    of_label = np.where(labels == top, math.inf, p[index, labels])
    others = p.copy()
    others[index, top] = math.inf
    least = others.min(axis=1) if p.shape[1] > 1 else np.zeros(len(p))  # one label is no full set
    found = []
    for alpha in map(float, alphas):
        inside = len(every) - int(np.searchsorted(every, alpha, side="right"))
        size = (inside + int(np.count_nonzero(of_top <= alpha))) / len(p)
        found.append(Means(size, float(np.mean(of_label > alpha)), float(np.mean(least > alpha))))
    return found


def _promise(predictor: Predictor, alpha: Fraction) -> dict[str, str]:
    limit = predictor.curve.threshold(alpha)
    wanted = f"{100 * float(1 - alpha):.10g}%"
    estimated = "" if predictor.certificate.status == "certified" else " (estimated)"
    if isinstance(limit, np.ndarray):
        lacking = int(np.isinf(limit).sum())
        every = f"{lacking} of {len(limit)} classes are in every set" if lacking else "one for each class"
        return {"threshold": every, "promise": f"at least {wanted} of each class{estimated}"}
    if limit == math.inf:
        return {"threshold": "none", "promise": "too few scores for this alpha: every label is in every set"}
    return {"threshold": f"{limit:.4g}", "promise": f"at least {wanted}{estimated}"}


def _examples(
    p: Floats, labels: Integers, top: Integers, chosen: Integers, rows: Rows, alpha: float, least: float
) -> list[Example]:
    """Choose rows evenly from the smallest set to the largest."""
    order = np.argsort(np.count_nonzero(p > alpha, axis=1), kind="stable")
    picked = order[np.unique(np.linspace(0, len(order) - 1, min(EXAMPLES, len(order))).astype(np.int64))]
    found = []
    for i in picked.tolist():
        inside = np.flatnonzero(p[i] > least)
        inside = inside[np.argsort(-rows.probs[chosen[i]][inside], kind="stable")]
        image = None if rows.images is None else png(rows.images[chosen[i]])
        found.append(
            Example(
                row=int(chosen[i]),
                label=int(labels[i]),
                top=int(top[i]),
                labels=inside.tolist(),
                p=p[i][inside].tolist(),
                image=image,
            )
        )
    return found
