"""Handwritten digits, 8 x 8: small enough to be inside scikit-learn, and to try everything on.

Alpaydin and Kaynak, "Optical recognition of handwritten digits", UCI, 1998; CC BY 4.0.
"""

from __future__ import annotations

import numpy as np

from fedconformal.errors import InputError
from fedconformal.training.data.dataset import Dataset, Progress, Rows, cut
from fedconformal.training.data.sets.source import Source, in_groups_of

LEVELS = 16
"""A pixel counts how many of the 4 x 4 points under it were inked."""


class Digits(Source):
    """1,797 digits, cut at random into 60 % to train, 20 % to calibrate and 20 % to test; one class a site."""

    name = "digits"
    classes = tuple("0123456789")
    groups = in_groups_of(1, 10)

    def load(self, *, download: bool, progress: Progress | None) -> Dataset:
        """Take them out of scikit-learn."""
        try:
            from sklearn.datasets import load_digits
        except ImportError:
            raise InputError("digits: they are inside scikit-learn: pip install 'fedconformal[demo]'") from None
        bunch = load_digits()
        images = np.rint(bunch.images * (255 / LEVELS)).astype(np.uint8)[:, np.newaxis]
        parts = cut(Rows(x=images, y=bunch.target.astype(np.int64)), (0.6, 0.2, 0.2))
        return Dataset(name=self.name, classes=self.classes, groups=self.groups, **parts)
