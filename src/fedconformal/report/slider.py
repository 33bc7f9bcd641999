"""The slider: the report at any alpha, computed beforehand and written as HTML for its script to change.

A label is in the set at alpha exactly if its p-value is above alpha, or if it is the top label. So a page needs the
p-values of its examples, and for a grid of alphas two counts over all rows; no scores and no model.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from fractions import Fraction
from html import escape
from typing import NamedTuple

import numpy as np

from fedconformal._base.arrays import Floats, Integers, as_alpha
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.text import class_called
from fedconformal.errors import InfeasibleWarning
from fedconformal.report.charts import Plot, Point
from fedconformal.report.content import CheckedRows
from fedconformal.report.html import card

GRID = tuple(Fraction(i, 200) for i in range(1, 101))
EXAMPLES = 12
MOST_ROWS = 20_000
"""More test rows than this do not change the means that are shown."""
MOST_CHIPS = 10
"""Labels of an example's set that are written out."""


class Step(NamedTuple):
    """One position of the slider; without test rows there are no means."""

    alpha: float
    threshold: str
    promise: str
    size: float | None = None
    """Labels a set, on average."""
    coverage: float | None = None
    """The share of sets that hold the truth."""
    full: float | None = None
    """The share of sets that hold every label."""


class Example(NamedTuple):
    """One row: its label, the top label, and every label whose p-value is above the smallest alpha."""

    row: int
    label: int
    top: int
    labels: list[int]
    p: list[float]

    def members(self, alpha: float) -> list[int]:
        """Return the set at alpha, the likeliest labels first."""
        found = [label for label, p in zip(self.labels, self.p, strict=True) if p > alpha]
        return found if self.top in found else [self.top, *found]


class Slider(NamedTuple):
    """All positions, which of them is the certified one, and the examples."""

    steps: list[Step]
    certified: int
    examples: list[Example]

    @property
    def start(self) -> Step:
        """The certified position."""
        return self.steps[self.certified]

    def chart(self) -> tuple[str, list[Point]]:
        """Draw the mean size against alpha with a dot at the certified one; also return where the dot goes at each."""
        points = [(step.alpha, step.size or 0.0) for step in self.steps]
        plot = Plot(
            title="Mean set size against alpha",
            x=(0.0, 0.5),
            y=(0.0, max(1.0, *(size for _, size in points)) * 1.05),
            x_label="alpha: how often the truth may be missed",
            y_label="labels a set",
            height=230,
        )
        plot.line(points, "")
        places = [plot.at(*point) for point in points]
        x, y = places[self.certified]
        plot.raw(f'<circle id="at-alpha" class="f1" cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
        return plot.svg(), [(round(x, 1), round(y, 1)) for x, y in places]


def slider(predictor: Predictor, rows: CheckedRows | None) -> Slider:
    """Work out every position for a predictor, with sizes if there are rows."""
    certified = as_alpha(predictor.certificate.alpha)
    alphas = sorted({*GRID, certified})
    examples: list[Example] = []
    means: list[tuple[float, ...]] = [()] * len(alphas)
    if rows is not None and len(rows.truth):
        chosen = _evenly(len(rows.truth), MOST_ROWS)
        p, labels = predictor.predict_p(rows.outputs[chosen], **rows.strata_at(chosen)), rows.truth[chosen]
        top = rows.outputs[chosen].argmax(axis=1)
        means = _means(p, labels, top, alphas)
        examples = _examples(p, labels, top, chosen, rows, float(certified), float(alphas[0]))
    steps = [Step(float(alpha), *_promise(predictor, alpha), *mean) for alpha, mean in zip(alphas, means, strict=True)]
    return Slider(steps=steps, certified=alphas.index(certified), examples=examples)


def _evenly(count: int, most: int) -> Integers:
    """Return the positions of at most `most` of `count` rows, from the first to the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


def _means(p: Floats, labels: Integers, top: Integers, alphas: list[Fraction]) -> list[tuple[float, ...]]:
    """Return at each alpha the mean size, the coverage, and the share of full sets."""
    every, index = np.sort(p, axis=None), np.arange(len(p))
    of_top = p[index, top]
    of_label = np.where(labels == top, math.inf, p[index, labels])
    others = p.copy()
    others[index, top] = math.inf
    least = others.min(axis=1) if p.shape[1] > 1 else np.zeros(len(p))  # one label is no full set
    found: list[tuple[float, ...]] = []
    for alpha in map(float, alphas):
        inside = len(every) - int(np.searchsorted(every, alpha, side="right"))
        size = (inside + int(np.count_nonzero(of_top <= alpha))) / len(p)
        found.append((size, float(np.mean(of_label > alpha)), float(np.mean(least > alpha))))
    return found


def _promise(predictor: Predictor, alpha: Fraction) -> tuple[str, str]:
    """Return the threshold and the promise in words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleWarning)
        limit = predictor.threshold_at(alpha)
    wanted = f"{100 * float(1 - alpha):.10g}%"
    estimated = "" if predictor.certificate.status == "certified" else " (estimated)"
    if predictor.certificate.by == "group":
        few = sum(bool(np.isinf(one).any()) for one in np.asarray(limit))
        none = f"{few} of {len(limit)} groups have too few scores: labels are in every set there"
        return none if few else "one for each group", f"at least {wanted} of each group{estimated}"
    if isinstance(limit, np.ndarray):
        lacking = int(np.isinf(limit).sum())
        every = f"{lacking} of {len(limit)} classes are in every set" if lacking else "one for each class"
        return every, f"at least {wanted} of each class{estimated}"
    if limit == math.inf:
        return "none", "too few scores for this alpha: every label is in every set"
    return f"{limit:.4g}", f"at least {wanted}{estimated}"


def _examples(
    p: Floats, labels: Integers, top: Integers, chosen: Integers, rows: CheckedRows, alpha: float, least: float
) -> list[Example]:
    """Choose rows evenly from the smallest set to the largest."""
    order = np.argsort(np.count_nonzero(p > alpha, axis=1), kind="stable")
    found = []
    for i in order[_evenly(len(order), EXAMPLES)].tolist():
        row, inside = int(chosen[i]), np.flatnonzero(p[i] > least)
        inside = inside[np.argsort(-rows.outputs[row][inside], kind="stable")]
        found.append(Example(row, int(labels[i]), int(top[i]), inside.tolist(), p[i][inside].tolist()))
    return found


def slider_card(found: Slider, chart: str, names: Sequence[str]) -> str:
    """Write the slider at the certified alpha, so that the page says something without its script."""
    start = found.start
    facts = {
        "alpha": ("alpha-now", f"{start.alpha:.10g}"),
        "promised coverage": ("promise-now", start.promise),
        "threshold": ("threshold-now", start.threshold),
    }
    if start.size is not None:
        facts["labels a set"] = ("size-now", f"{start.size:.2f}")
        facts["coverage on the test rows"] = ("coverage-now", f"{start.coverage:.1%}")
        facts["sets that hold every label"] = ("full-now", f"{start.full:.1%}")
    shown = "".join(f'<dt>{name}</dt><dd id="{key}">{escape(text)}</dd>' for name, (key, text) in facts.items())
    control = (
        '<div class="controls"><label for="alpha">alpha, how often the truth may be missed</label>'
        f'<button type="button" id="certified">back to {start.alpha:.10g}</button></div>'
        f'<input type="range" id="alpha" min="0" max="{len(found.steps) - 1}" step="1" value="{found.certified}">'
    )
    examples = "".join(_example(i, one, start.alpha, names) for i, one in enumerate(found.examples))
    if examples:
        examples = f'<h3>The sets of some test rows</h3><div class="examples">{examples}</div>'
    return card(
        "What another alpha would give",
        '<p><span class="badge beforehand">valid for an alpha fixed beforehand</span> '
        '<span class="soft">Choosing one after looking at sets voids the promise.</span></p>'
        f'<div class="grid2"><div>{control}<dl aria-live="polite">{shown}</dl></div><div>{chart}</div></div>{examples}',
    )


def _example(i: int, one: Example, alpha: float, names: Sequence[str]) -> str:
    members = one.members(alpha)
    chips = [
        f'<span class="chip{" true" if label == one.label else ""}">{escape(class_called(label, names))}</span>'
        for label in members[:MOST_CHIPS]
    ]
    if len(members) > MOST_CHIPS:
        chips.append(f'<span class="chip">and {len(members) - MOST_CHIPS} more</span>')
    missed = "" if one.label in members else f"misses the truth, {escape(class_called(one.label, names))}"
    count = f"{len(members)} label{'' if len(members) == 1 else 's'}"
    return (
        f'<div class="example"><div><div class="soft">row {one.row}: <span id="size-{i}">{count}</span></div>'
        f'<div class="chips" id="set-{i}">{"".join(chips)}</div><div class="missed" id="miss-{i}">{missed}</div></div>'
        "</div>"
    )


def slider_data(found: Slider, places: list[tuple[float, float]], names: Sequence[str]) -> str:
    """Write what the script reads, as JSON that cannot end the script element."""
    data = {
        "steps": [step._asdict() for step in found.steps],
        "certified": found.certified,
        "places": places,
        "examples": [{"label": one.label, "top": one.top, "labels": one.labels, "p": one.p} for one in found.examples],
        "most": MOST_CHIPS,
        "names": list(names),
    }
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
