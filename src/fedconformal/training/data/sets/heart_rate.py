"""The highest heart rate that a patient reached, at the four hospitals of the heart disease data: a number to predict.

The patients are those of `heart_disease.py`, without those whose heart rate was not measured. The sites are real and
differ: the median is 153 beats a minute in Cleveland and 120 in the VA hospital.
"""

from __future__ import annotations

import logging

import numpy as np

from fedconformal.training.data.dataset import Dataset, Progress, Rows, Target, cut
from fedconformal.training.data.sets.heart_disease import FIELDS, NEVER_ZERO, SCALES, as_features, read_patients
from fedconformal.training.data.sets.source import Source

TARGET = "thalach"

logger = logging.getLogger(__name__)


class HeartRate(Source):
    """Patients of four hospitals, in the column `hospital`: how fast did the heart beat at most?

    Half of each hospital's patients train, a quarter calibrates and a quarter tests. The diagnosis is no feature.
    """

    name = "heart_rate"

    def load(self, *, download: bool, progress: Progress | None) -> Dataset:
        """Read the files of heart_disease; patients without a heart rate are left out, and counted in the log."""
        hospitals, values = read_patients(download=download, progress=progress)
        found = values[:, FIELDS.index(TARGET)]
        known = ~np.isnan(found) & ((found != 0) | (TARGET not in NEVER_ZERO))
        logger.info("%s: %d of %d patients have none, and are left out", self.name, (~known).sum(), len(known))
        hidden = values.copy()
        hidden[:, FIELDS.index(TARGET)] = np.nan  # all alike, so the features say nothing of it
        rows = Rows(x=as_features(hidden)[known], y=found[known], columns={"hospital": hospitals[known]})
        target = Target("peak heart rate", *map(float, SCALES[TARGET]))
        return Dataset(name=self.name, classes=(), target=target, **cut(rows, (0.5, 0.25, 0.25), by="hospital"))
