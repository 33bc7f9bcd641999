"""How often sets have each size, as lines that can be compared."""

from __future__ import annotations

import numpy as np

from fedconformal._base.arrays import Booleans, Floats, Integers
from fedconformal.report.plot import Plot, percent

Shares = Floats


def shares_of(sets: Booleans, most: int) -> Shares:
    """Return the share of rows with sets of 0, 1, ... labels; larger ones count as the largest."""
    sizes: Integers = np.minimum(np.count_nonzero(sets, axis=1), most)
    shares: Floats = np.bincount(sizes, minlength=most + 1) / max(1, len(sets))
    return shares


def size_plot(title: str, most: int, highest: float, *, height: float = 280) -> Plot:
    """Make an empty chart of shares against sizes."""
    return Plot(
        title=title,
        x=(0, most),
        y=(0, highest * 1.08),
        x_label=f"labels in the set ({most} stands for {most} or more)",
        y_label="share of rows",
        y_text=percent,
        height=height,
    )
