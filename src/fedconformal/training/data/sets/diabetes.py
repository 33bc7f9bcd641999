"""How far diabetes has come after a year, of 442 patients: inside scikit-learn, small, and from one place only.

Efron, Hastie, Johnstone and Tibshirani, "Least angle regression", 2004. It has no sites of its own: part it with iid.
"""

from __future__ import annotations

import numpy as np

from fedconformal.errors import InputError
from fedconformal.training.data.dataset import Dataset, Progress, Rows, Target, cut
from fedconformal.training.data.sets.source import Source

COLUMN = 442**-0.5
"""The deviation of each column as scikit-learn has it."""


class Diabetes(Source):
    """442 patients, ten measurements: half of them train, a quarter calibrates and a quarter tests."""

    name = "diabetes"

    def load(self, *, download: bool, progress: Progress | None) -> Dataset:
        """Take them out of scikit-learn."""
        try:
            from sklearn.datasets import load_diabetes
        except ImportError:
            raise InputError("diabetes: it is inside scikit-learn: pip install 'fedconformal[demo]'") from None
        bunch = load_diabetes()
        rows = Rows(x=(bunch.data / COLUMN).astype(np.float32), y=bunch.target.astype(np.float64))
        target = Target("progression", 150.0, 75.0)
        return Dataset(name=self.name, classes=(), target=target, **cut(rows, (0.5, 0.25, 0.25)))
