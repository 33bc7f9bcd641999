"""What a regressor's outputs are, by their number, and which of them a score takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.arrays import as_array
from fedconformal.errors import InputError
from fedconformal.scores import RegressionScore

COLUMNS = {1: ("prediction",), 2: ("lower", "upper"), 3: ("lower", "prediction", "upper")}
"""Of a squared loss, and of a pinball loss for two and for three quantiles."""


def for_score(outputs: ArrayLike, score: RegressionScore) -> NDArray[Any]:
    """Return the columns that a score takes; two outputs are whatever the score calls them.

    >>> from fedconformal import CQR
    >>> for_score([[1.0, 2.0, 3.0]], CQR())
    array([[1., 3.]])
    """
    found = as_array(outputs, "outputs")
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim == 2 and found.shape[1] == len(score.columns):
        return found
    there = COLUMNS.get(found.shape[1], ()) if found.ndim == 2 else ()
    if not {*score.columns} <= {*there}:
        wanted = " and ".join(score.columns)
        raise InputError(f"outputs: the model's have shape {found.shape}, and {score.name} takes {wanted}")
    return np.ascontiguousarray(found[:, [there.index(name) for name in score.columns]])
