"""Patients of four hospitals, with and without heart disease.

Janosi, Steinbrunn, Pfisterer and Detrano, "Heart disease", UCI Machine Learning Repository, 1988; CC BY 4.0.
Detrano et al., "International application of a new probability algorithm for the diagnosis of coronary artery
disease", 1989.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Floats
from fedconformal._base.files import read_bytes
from fedconformal.errors import InputError, prefix_errors
from fedconformal.training.data.dataset import Parts, Rows, cut
from fedconformal.training.data.download import Release
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

# A typical value for adults, and a typical deviation: constants, so that no site discloses its own, and no
# information on calibration and test rows leaks into training.
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
"""Fields in which zero, impossible in a living patient, marks a missing measurement."""
MISSING = ("", "?")
GRADES = (0, 1, 2, 3, 4)


class HeartDisease(DataSource):
    """920 patients of four hospitals (column `hospital`), with or without heart disease.

    Half of each hospital's patients are for training, a quarter for calibration and a quarter for testing. The five
    grades are merged into two classes, absent and present, because one of the hospitals gives no finer grades.
    """

    name = "heart_disease"
    classes = ("absent", "present")
    own_file = "heart_disease.csv"
    releases = tuple(
        Release(file=f"heart_disease/{file}", url=f"{ADDRESS}/{file}", most=size, checksum=f"sha256:{sha256}")
        for hospital, (size, sha256) in HOSPITALS.items()
        for file in [f"processed.{hospital}.data"]
    )

    def read(self, paths: Sequence[Path]) -> Parts:
        parts = [read_patients(path, hospital) for hospital, path in zip(HOSPITALS, paths, strict=True)]
        hospitals, values = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return _parts(hospitals, values)

    def read_own(self, path: Path) -> Parts:
        return _parts(*read_patients(path))


def _parts(hospitals: NDArray[np.str_], values: Floats) -> Parts:
    rows = Rows(x=as_features(values), y=(values[:, -1] > 0).astype(np.int64), columns={"hospital": hospitals})
    return cut(rows, (0.5, 0.25, 0.25), by="hospital")


def read_patients(path: Path, hospital: str | None = None) -> tuple[NDArray[np.str_], Floats]:
    """Return hospitals and measurements from the official file of a hospital, or from one file with a header."""
    text = read_bytes(path).decode("utf-8", "replace")
    lines = [[cell.strip() for cell in cells] for cells in csv.reader(text.splitlines()) if cells]
    with prefix_errors(path):
        if hospital is None:
            header = lines.pop(0) if lines else []
            if header != ["hospital", *FIELDS]:
                raise InputError(f"starts with {','.join(header)!r:.80}, expected hospital,{','.join(FIELDS)}")
        names = [cells.pop(0) if hospital is None else hospital for cells in lines]
        values = [_numbers(cells, line) for line, cells in enumerate(lines, start=1 if hospital else 2)]
    return np.array(names, np.str_), np.array(values, np.float64).reshape(-1, len(FIELDS))


def as_features(values: Floats) -> NDArray[np.float32]:
    """Return features: scaled numbers, indicators of missing numbers, and one column per code.

    A missing number is replaced with the typical value, so it becomes zero; a missing code has zeros in all columns.

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


def _numbers(cells: list[str], line: int) -> list[float]:
    try:
        values = [float("nan") if cell in MISSING else float(cell) for cell in cells]
    except ValueError:
        values = []
    # The diagnosis has to be there; the other fields may be missing, but not infinite.
    if len(values) != len(FIELDS) or values[-1] not in GRADES or any(map(math.isinf, values)):
        raise InputError(f"line {line} is no patient; expected {len(FIELDS)} numbers, the last one from 0 to 4")
    return values
