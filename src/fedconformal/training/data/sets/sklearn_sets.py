"""Digits, a data set inside scikit-learn.

Alpaydin and Kaynak, "Optical recognition of handwritten digits", UCI, 1998; CC BY 4.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedconformal.errors import requires_extra
from fedconformal.training.data.dataset import Parts, Rows, cut
from fedconformal.training.data.sets.source import DataSource, in_groups_of

LEVELS = 16
"""Largest value of a pixel of digits."""


class Digits(DataSource):
    """1,797 digits of 8 x 8 pixels, split at random: 60 % training, 20 % calibration, 20 % test; one class per site."""

    name = "digits"
    classes = tuple("0123456789")
    groups = in_groups_of(1, 10)

    def read(self, paths: Sequence[Path]) -> Parts:
        with requires_extra("sklearn"):
            from sklearn.datasets import load_digits
        bunch = load_digits()
        images = np.rint(bunch.images * (255 / LEVELS)).astype(np.uint8)[:, np.newaxis]
        return cut(Rows(x=images, y=bunch.target.astype(np.int64)), (0.6, 0.2, 0.2))
