"""Which site, or which cluster, a row is from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal.errors import InputError
from fedconformal.validation import as_clients


def as_ids(values: ArrayLike, *, rows: int, name: str) -> NDArray[Any]:
    """Check for one id a row, a number or a name; names that only look different are made the same.

    >>> as_ids(["a", "a ", "b"], rows=3, name="clusters").tolist()
    ['a', 'a', 'b']
    """
    array = as_clients(values, rows=rows, name=name)
    absent = np.isnan(array) if array.dtype.kind == "f" else array == "" if array.dtype.kind == "U" else None
    if absent is not None and absent.any():
        raise InputError(f"{name}: row {int(np.argmax(absent))} has no id; give every row one")
    return array
