"""Patients of four hospitals: heart disease as a class, or the peak heart rate as a number to predict.

Janosi, Steinbrunn, Pfisterer and Detrano, "Heart disease", UCI Machine Learning Repository, 1988; CC BY 4.0.
Detrano et al., "International application of a new probability algorithm for the diagnosis of coronary artery
disease", 1989.
"""

from __future__ import annotations

import csv
import logging
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Floats
from fedconformal._base.files import read_bytes
from fedconformal.errors import InputError, prefix_errors
from fedconformal.training.data.dataset import Dataset, Progress, Rows, Target, cut
from fedconformal.training.data.download import Release, find, locate
from fedconformal.training.data.sets.source import DataSource

ADDRESS = "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease"
HOSPITALS = {
    "cleveland": (18461, "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8"),
    "hungarian": (10263, "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796"),
    "switzerland": (4109, "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314"),
    "va": (6737, "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f"),
}
FIELDS = (
    *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg"),
    *("thalach", "exang", "oldpeak", "slope", "ca", "thal", "num"),
)

# A usual value for an adult, and a usual deviation. They are fixed, so no site has to show its own, and nothing
# of the rows to calibrate and test with leaks into those to train on.
SCALES = {
    "age": (55, 10),
    "sex": (0.5, 0.5),
    "trestbps": (120, 20),
    "chol": (200, 50),
    "fbs": (0, 1),
    "thalach": (150, 25),
    "exang": (0, 1),
    "oldpeak": (0, 1),
    "ca": (0, 1),
}
SOMETIMES_MISSING = tuple(name for name in SCALES if name not in {"age", "sex"})
CODES = {"cp": (1, 2, 3, 4), "restecg": (0, 1, 2), "slope": (1, 2, 3), "thal": (3, 6, 7)}
NEVER_ZERO = ("trestbps", "chol", "thalach")
"""No living patient has zero here: it marks a value that was not measured."""
MISSING = ("", "?")
GRADES = (0, 1, 2, 3, 4)

RATE = "thalach"
"""The field of the peak heart rate."""

Patient = tuple[str, list[float]]

logger = logging.getLogger(__name__)


class HeartDisease(DataSource):
    """920 patients of four hospitals, in the column `hospital`: is there heart disease?

    Half of each hospital's patients train, a quarter calibrates and a quarter tests. The five grades are two
    classes here, absent and present, because one of the hospitals gives no finer grades.
    """

    name = "heart_disease"
    classes = ("absent", "present")

    def load(self, *, download: bool, progress: Progress | None) -> Dataset:
        hospitals, values = read_patients(download=download, progress=progress)
        rows = Rows(x=as_features(values), y=(values[:, -1] > 0).astype(np.int64), columns={"hospital": hospitals})
        parts = cut(rows, (0.5, 0.25, 0.25), by="hospital")
        return Dataset(name=self.name, classes=self.classes, groups=None, **parts)


class HeartRate(DataSource):
    """The peak heart rate of the same patients, without those for whom it was not measured.

    The median is 153 beats a minute in Cleveland and 120 in the VA hospital. The diagnosis is no feature.
    """

    name = "heart_rate"

    def load(self, *, download: bool, progress: Progress | None) -> Dataset:
        hospitals, values = read_patients(download=download, progress=progress)
        found = values[:, FIELDS.index(RATE)]
        known = ~np.isnan(found) & (found != 0)
        logger.info("%s: %d of %d patients have none, and are left out", self.name, (~known).sum(), len(known))
        hidden = values.copy()
        hidden[:, FIELDS.index(RATE)] = np.nan  # all alike, so the features do not contain the target
        rows = Rows(x=as_features(hidden)[known], y=found[known], columns={"hospital": hospitals[known]})
        target = Target("peak heart rate", *map(float, SCALES[RATE]))
        return Dataset(name=self.name, classes=(), target=target, **cut(rows, (0.5, 0.25, 0.25), by="hospital"))


def read_patients(*, download: bool, progress: Progress | None) -> tuple[NDArray[np.str_], Floats]:
    """Return hospitals and measurements, from heart_disease.csv if it exists, else from the four official files."""
    if path := find("heart_disease.csv"):
        with prefix_errors(path):
            patients = _one_file(path)
    else:
        patients = [one for name in HOSPITALS for one in _official(name, download=download, progress=progress)]
    hospitals = np.array([hospital for hospital, _ in patients], np.str_)
    return hospitals, np.array([numbers for _, numbers in patients], np.float64).reshape(-1, len(FIELDS))


def as_features(values: Floats) -> NDArray[np.float32]:
    """Turn measurements into features: scaled numbers, a mark for each that is missing, and a column for each code.

    A missing number counts as the usual one and becomes zero; a missing code is none of its codes.

    >>> patient = [63, 1, 1, 145, 0, 1, 2, 150, 0, 2.3, 3, np.nan, 6]
    >>> as_features(np.array([patient]))[0, :4]  # age, sex, blood pressure, and cholesterol, which was not measured
    array([0.8 , 1.  , 1.25, 0.  ], dtype=float32)
    """
    measured = dict(zip(FIELDS, values.T, strict=False))
    for name in NEVER_ZERO:
        measured[name] = np.where(measured[name] == 0, np.nan, measured[name])
    numbers = [np.nan_to_num((measured[name] - usual) / deviation) for name, (usual, deviation) in SCALES.items()]
    missing = [np.isnan(measured[name]) for name in SOMETIMES_MISSING]
    codes = [measured[name] == code for name, known in CODES.items() for code in known]
    return np.column_stack([*numbers, *missing, *codes]).astype(np.float32)


def _official(hospital: str, *, download: bool, progress: Progress | None) -> list[Patient]:
    size, sha256 = HOSPITALS[hospital]
    name = f"processed.{hospital}.data"
    release = Release(file=f"heart_disease/{name}", url=f"{ADDRESS}/{name}", most=size, checksum=f"sha256:{sha256}")
    path = locate(release, download=download, progress=progress)
    with prefix_errors(path):
        return [(hospital, _numbers(cells, line)) for line, cells in enumerate(_lines(path), start=1)]


def _one_file(path: Path) -> list[Patient]:
    header, *lines = _lines(path) or [[]]
    if header != ["hospital", *FIELDS]:
        raise InputError(f"starts with {','.join(header)!r:.80}, expected hospital,{','.join(FIELDS)}")
    return [(cells[0], _numbers(cells[1:], line)) for line, cells in enumerate(lines, start=2)]


def _lines(path: Path) -> list[list[str]]:
    text = read_bytes(path).decode("utf-8", "replace")
    return [[cell.strip() for cell in cells] for cells in csv.reader(text.splitlines()) if cells]


def _numbers(cells: list[str], line: int) -> list[float]:
    try:
        values = [float("nan") if cell in MISSING else float(cell) for cell in cells]
    except ValueError:
        values = []
    # The diagnosis has to be there; the other fields may be missing, but not infinite.
    if len(values) != len(FIELDS) or values[-1] not in GRADES or any(map(math.isinf, values)):
        raise InputError(f"line {line} is no patient; expected {len(FIELDS)} numbers, the last one from 0 to 4")
    return values
