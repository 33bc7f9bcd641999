"""The slider: sizes and coverage at any alpha, computed beforehand for the script of the page.

A label is in the set at alpha exactly if its p-value is above alpha, or if it is the top label. So two counts over all
rows at a grid of alphas are enough; no scores and no model are on the page.
"""

from __future__ import annotations

import json
import math
import warnings
from fractions import Fraction
from html import escape
from typing import NamedTuple

import numpy as np

from fedconformal._base.arrays import Floats, Integers, as_alpha
from fedconformal.calibration.predictor import Predictor
from fedconformal.errors import InfeasibleWarning
from fedconformal.report.charts import Plot
from fedconformal.report.content import CheckedRows
from fedconformal.report.html import card, resource

GRID = tuple(Fraction(i, 200) for i in range(1, 101))
MOST_ROWS = 20_000
"""More test rows than this do not change the means that are shown."""


class Step(NamedTuple):
    """One position of the slider; without test rows there are no means."""

    alpha: float
    threshold: str
    promise: str
    size: float | None = None
    """Mean number of labels in a set."""
    coverage: float | None = None
    full: float | None = None
    """Share of sets with every label."""


class Slider(NamedTuple):
    """All positions, and which of them is the certified one."""

    steps: list[Step]
    certified: int

    @property
    def start(self) -> Step:
        """The certified position."""
        return self.steps[self.certified]

    def card(self, chart: str = "") -> str:
        """Write the slider at the certified alpha, so that the page is complete without its script."""
        start = self.start
        facts = {
            "alpha": ("alpha-now", f"{start.alpha:.10g}"),
            "promised coverage": ("promise-now", start.promise),
            "threshold": ("threshold-now", start.threshold),
        }
        if start.size is not None:
            chart = self._chart()
            facts["labels a set"] = ("size-now", f"{start.size:.2f}")
            facts["coverage on the test rows"] = ("coverage-now", f"{start.coverage:.1%}")
            facts["sets that hold every label"] = ("full-now", f"{start.full:.1%}")
        shown = "".join(f'<dt>{name}</dt><dd id="{key}">{escape(text)}</dd>' for name, (key, text) in facts.items())
        control = (
            '<div class="controls"><label for="alpha">alpha, how often the truth may be missed</label>'
            f'<button type="button" id="certified">back to {start.alpha:.10g}</button></div>'
            f'<input type="range" id="alpha" min="0" max="{len(self.steps) - 1}" step="1" value="{self.certified}">'
        )
        return card(
            "What another alpha would give",
            '<p><span class="badge beforehand">valid for an alpha fixed beforehand</span> '
            '<span class="soft">Choosing one after looking at sets voids the promise.</span></p>'
            f'<div class="grid2"><div>{control}<dl aria-live="polite">{shown}</dl></div><div>{chart}</div></div>',
        )

    def _plot(self) -> Plot:
        plot = Plot(
            title="Mean set size against alpha",
            x=(0.0, 0.5),
            y=(0.0, max(1.0, *(step.size or 0.0 for step in self.steps)) * 1.05),
            x_label="alpha: how often the truth may be missed",
            y_label="labels a set",
            height=230,
        )
        plot.line([(step.alpha, step.size or 0.0) for step in self.steps], "")
        return plot

    def _chart(self) -> str:
        """Draw the mean size against alpha with a dot at the certified alpha."""
        plot = self._plot()
        x, y = plot.at(self.start.alpha, self.start.size or 0.0)
        plot.raw(f'<circle id="at-alpha" class="f1" cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
        return plot.svg()

    def script(self) -> str:
        """Write the script and its data, as JSON that cannot end the script element."""
        plot = self._plot()
        places = [plot.at(step.alpha, step.size or 0.0) for step in self.steps]
        data = {"steps": [step._asdict() for step in self.steps], "certified": self.certified, "places": places}
        text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        code = resource("slider.js")
        return f'<script type="application/json" id="data">{text}</script><script>{code}</script>'


def slider(predictor: Predictor, rows: CheckedRows | None) -> Slider:
    """Compute every position for a predictor, with sizes if there are rows."""
    certified = as_alpha(predictor.certificate.alpha)
    alphas = sorted({*GRID, certified})
    means: list[tuple[float, ...]] = [()] * len(alphas)
    if rows is not None and len(rows.truth):
        chosen = np.unique(np.linspace(0, len(rows.truth) - 1, min(len(rows.truth), MOST_ROWS)).astype(np.int64))
        p = predictor.predict_p(rows.outputs[chosen], **rows.strata_at(chosen))
        means = _means(p, rows.truth[chosen], rows.outputs[chosen].argmax(axis=1), alphas)
    steps = [Step(float(alpha), *_promise(predictor, alpha), *mean) for alpha, mean in zip(alphas, means, strict=True)]
    return Slider(steps=steps, certified=alphas.index(certified))


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
        limit = np.asarray(predictor.threshold_at(alpha))
    wanted = f"at least {100 * float(1 - alpha):.10g}%"
    estimated = "" if predictor.certificate.status == "certified" else " (estimated)"
    if not limit.ndim and limit == math.inf:
        return "none", "too few scores for this alpha: every label is in every set"
    if not limit.ndim:
        return f"{float(limit):.4g}", f"{wanted}{estimated}"
    stratum, strata = ("group", "groups") if predictor.certificate.by == "group" else ("class", "classes")
    few = sum(bool(np.isinf(one).any()) for one in limit)
    lacking = f"{few} of {len(limit)} {strata} have too few scores: labels are in every set there"
    return lacking if few else f"one for each {stratum}", f"{wanted} of each {stratum}{estimated}"
