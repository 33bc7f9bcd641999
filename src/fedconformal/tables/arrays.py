"""Cells of arrays: from .npy and .parquet files, and from frames in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.names import shown
from fedconformal.tables.delimited import LONGEST_TEXT
from fedconformal.tables.table import CellError, absent


class ArrayCells:
    """Columns as arrays of one length; a column that is neither numbers nor text is what it is called.

    >>> cells = ArrayCells([np.array(["a", "b"]), np.array([1.0, 0.5])])
    >>> cells.texts(0), cells.texts(1), cells.numbers([1]).tolist()
    (['a', 'b'], ['1', '0.5'], [[1.0], [0.5]])
    """

    def __init__(self, columns: Sequence[NDArray[Any] | str], matrix: NDArray[Any] | None = None) -> None:
        self.columns = columns
        self.matrix = matrix

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return next((len(column) for column in self.columns if not isinstance(column, str)), 0)

    def numbers(self, columns: Sequence[int]) -> NDArray[Any]:
        """Return columns of numbers, without a copy if they are all that an array has."""
        for j in columns:
            column = self._there(j, "numbers")
            if column.dtype.kind not in "fiub":
                found = [absent(str(cell).strip()) for cell in column]
                row = next((row for row, problem in enumerate(found) if problem), 0)
                raise CellError(row, j, found[row] or f"holds {shown(repr(str(column[row])))}, which is not a number")
            if column.dtype.kind == "f" and not np.isfinite(column).all():
                row = int(np.argmin(np.isfinite(column)))
                raise CellError(row, j, f"holds {column[row]}; give every row its numbers, or leave the row out")
        if self.matrix is not None and list(columns) == list(range(self.matrix.shape[1])):
            return self.matrix
        chosen: list[Any] = [self.columns[j] for j in columns]
        return np.column_stack(chosen)

    def texts(self, column: int) -> list[str]:
        """Return a column as text; a whole number has no decimal point."""
        values = self._there(column, "text")
        if values.dtype.kind == "f":
            found = [str(int(x)) if np.isfinite(x) and x == int(x) else repr(float(x)) for x in values]
        else:
            found = [str(x).strip() for x in values.tolist()]
        if max(map(len, found), default=0) > LONGEST_TEXT:
            row = next(row for row, cell in enumerate(found) if len(cell) > LONGEST_TEXT)
            raise CellError(row, column, f"has {len(found[row])} characters, more than {LONGEST_TEXT}")
        return found

    def _there(self, column: int, wanted: str) -> NDArray[Any]:
        found = self.columns[column]
        if isinstance(found, str):
            raise CellError(0, column, f"holds {found}, not {wanted}")
        return found
