"""Distributions of set sizes as lines; models are compared with LAC at alpha 0.1."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedconformal._base.arrays import Booleans, Floats, Integers
from fedconformal.report.charts import percent
from fedconformal.scores import LAC
from fedconformal_paper.figures.plot import Plot, figure
from fedconformal_paper.logits import Answers
from fedconformal_paper.setup import Setup
from fedconformal_paper.table import Measured


def draw_sizes(
    setup: Setup,
    title: str,
    most: int,
    models: Mapping[str, Answers],
    printed: Mapping[str, float],
    kept: Booleans | None = None,
) -> str:
    """Draw the set sizes of each model, optionally on selected rows, with our mean and the paper's."""
    drawn: dict[str, Floats] = {}
    means: dict[str, Measured] = {}
    for name, answers in models.items():
        shares, sizes = [], []
        for trial in setup.trials(answers):
            (threshold,) = trial.thresholds(LAC(), [0.1])
            sets = trial.sets(LAC(), threshold)
            if kept is not None:
                sets = sets[kept[trial.test.index]]
            shares.append(shares_of(sets, most))
            sizes.append(np.count_nonzero(sets) / max(1, len(sets)))
        drawn[name], means[name] = np.mean(shares, axis=0), Measured.of(sizes)
    plot = size_plot(title, most, max(float(shares.max()) for shares in drawn.values()))
    for name, found in drawn.items():
        plot.line(list(enumerate(found.tolist())), f"{name}: mean {means[name]} (paper {printed[name]})")
    return figure(plot)


def shares_of(sets: Booleans, most: int) -> Floats:
    """Return the share of rows with sets of 0, 1, ... labels; larger ones count as the largest."""
    sizes: Integers = np.minimum(np.count_nonzero(sets, axis=1), most)
    shares: Floats = np.bincount(sizes, minlength=most + 1) / max(1, len(sets))
    return shares


def size_plot(title: str, most: int, highest: float) -> Plot:
    """Return an empty chart of shares against sizes."""
    return Plot(
        title=title,
        x=(0, most),
        y=(0, highest * 1.08),
        x_label=f"labels in the set ({most} stands for {most} or more)",
        y_label="share of rows",
        y_text=percent,
    )
