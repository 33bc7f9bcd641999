"""Data sets inside scikit-learn: digits with classes, diabetes with a number to predict.

Alpaydin and Kaynak, "Optical recognition of handwritten digits", UCI, 1998; CC BY 4.0.
Efron, Hastie, Johnstone and Tibshirani, "Least angle regression", 2004.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedconformal.errors import requires_extra
from fedconformal.training.data.dataset import Parts, Rows, Target, cut
from fedconformal.training.data.sets.source import DataSource, in_groups_of

LEVELS = 16
"""Largest value of a pixel of digits."""
DEVIATION = 442**-0.5
"""Standard deviation of each column of diabetes in scikit-learn."""


class Digits(DataSource):
    """1,797 digits of 8 x 8 pixels: 60 % train, 20 % calibrate, 20 % test, at random; one class a site."""

    name = "digits"
    classes = tuple("0123456789")
    groups = in_groups_of(1, 10)

    def read(self, paths: Sequence[Path]) -> Parts:
        bunch = _bunch(self.name)
        images = np.rint(bunch.images * (255 / LEVELS)).astype(np.uint8)[:, np.newaxis]
        return cut(Rows(x=images, y=bunch.target.astype(np.int64)), (0.6, 0.2, 0.2))


class Diabetes(DataSource):
    """Progression of 442 patients: half train, a quarter calibrates, a quarter tests; no sites of its own."""

    name = "diabetes"
    target = Target("progression", 150.0, 75.0)

    def read(self, paths: Sequence[Path]) -> Parts:
        bunch = _bunch(self.name)
        rows = Rows(x=(bunch.data / DEVIATION).astype(np.float32), y=bunch.target.astype(np.float64))
        return cut(rows, (0.5, 0.25, 0.25))


def _bunch(name: str) -> Any:
    with requires_extra("sklearn"):
        from sklearn import datasets
    return getattr(datasets, f"load_{name}")()
