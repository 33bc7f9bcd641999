"""Columns of any kind to give coverage by: sex, age, scanner. A row without a value is in a group of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.names import harmless, name_key, shown
from fedconformal.errors import InputError

ABSENT = "not given"
MISSING = ("nan", "NaN", "NaT", "<NA>")
"""How values that are not there read in numpy and pandas."""
MOST_VALUES = 200
"""More groups than this say nothing."""


def as_groups(values: ArrayLike, *, rows: int, name: str) -> NDArray[Any]:
    """Return one group a row, as numbers if all are numbers.

    >>> as_groups(["f", "m", None, " f"], rows=4, name="sex").tolist()
    ['f', 'm', 'not given', 'f']
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{shown(name)}: cannot be read as one value a row ({error})") from None
    if array.shape == (rows, 1):
        array = array[:, 0]
    if array.shape != (rows,):
        raise InputError(f"{shown(name)}: expected {rows} values, one a row, got an array of shape {array.shape}")
    if array.dtype.kind not in "iub" and not (array.dtype.kind == "f" and np.isfinite(array).all()):
        array = np.array([_name(value) for value in array.tolist()], dtype=np.str_)
    if (found := len(np.unique(array))) > MOST_VALUES:
        raise InputError(
            f"{shown(name)}: has {found} different values, more than {MOST_VALUES}; give ranges, such as 60-69"
        )
    return array


def _name(value: Any) -> str:
    absent = value is None or str(value) in MISSING
    return ABSENT if absent else harmless(name_key(str(value))) or ABSENT
