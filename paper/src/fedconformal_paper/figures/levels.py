"""Two charts side by side: coverage and size against the requested coverage."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from fedconformal._base.arrays import Floats
from fedconformal.report.charts import percent
from fedconformal_paper.figures.plot import Plot

LEVELS = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


def coverage_and_size(
    found: Mapping[str, tuple[Floats, Floats]], titles: tuple[str, str], *, lowest: float, largest: float = 0.0
) -> tuple[Plot, Plot]:
    """Draw (trials, levels) coverages and sizes against the requested coverage, with error bars over trials."""
    panel = partial(Plot, x=(LEVELS[0], LEVELS[-1]), x_label="coverage asked for, 1 - alpha", x_text=percent)
    largest = max(largest, *(float(sizes.mean(axis=0).max()) for _, sizes in found.values()))
    coverage = panel(title=titles[0], y=(lowest, 1.0), y_label="coverage", y_text=percent)
    size = panel(title=titles[1], y=(0.0, largest * 1.05), y_label="labels a set")
    coverage.diagonal("asked for")
    for name, measured in found.items():
        for plot, values in zip((coverage, size), measured, strict=True):
            plot.bands(LEVELS, values, name)
    return coverage, size
