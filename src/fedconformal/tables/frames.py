"""Tables of arrays: frames of pandas, polars and pyarrow, dictionaries, lists and arrays, by what they can do.

No such library is imported. The index of a pandas frame is not looked at: rows go together by their order, as in
scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.groups import frame_columns, read_column
from fedconformal._base.names import abbreviate, join_names, name_key, plural
from fedconformal.errors import InputError
from fedconformal.tables.table import LONGEST_TEXT, CellError, Table, absent
from fedconformal.tables.text import is_number


class ArrayCells:
    """Columns as arrays of one length; one that is neither numbers nor text is refused where it is used."""

    def __init__(self, columns: Sequence[NDArray[Any]], matrix: NDArray[Any] | None = None) -> None:
        self.columns = columns
        self.matrix = matrix
        self.rows = len(columns[0])

    def numbers(self, columns: Sequence[int]) -> NDArray[Any]:
        """Return columns of numbers, without a copy if they are all that an array has."""
        for j in columns:
            column = self._readable(j)
            if column.dtype.kind == "U":
                cells = self.texts(j)
                row = next((row for row, cell in enumerate(cells) if not is_number(cell)), 0)
                problem = absent(cells[row]) or f"holds {abbreviate(repr(cells[row]))}, which is not a number"
                raise CellError(row, j, problem, "missing" if absent(cells[row]) else "not-a-number")
            if column.dtype.kind == "f" and not np.isfinite(column).all():
                row = int(np.argmin(np.isfinite(column)))
                problem = f"holds {column[row]}; give every row its numbers, or leave the row out"
                raise CellError(row, j, problem, "missing" if np.isnan(column[row]) else "invalid")
        if self.matrix is not None and list(columns) == list(range(self.matrix.shape[1])):
            return self.matrix
        return np.column_stack([self.columns[j] for j in columns])

    def texts(self, column: int) -> list[str]:
        """Return a column as text; a whole number has no decimal point."""
        values = self._readable(column)
        if values.dtype.kind == "f":
            return [str(int(x)) if np.isfinite(x) and x == int(x) else repr(float(x)) for x in values]
        return [str(x).strip() for x in values.tolist()]

    def take(self, rows: Sequence[int]) -> ArrayCells:
        """Return these rows only."""
        chosen = list(rows)
        matrix = None if self.matrix is None else self.matrix[chosen]
        return ArrayCells([column[chosen] for column in self.columns], matrix)

    def _readable(self, column: int) -> NDArray[Any]:
        found = self.columns[column]
        if found.dtype.kind not in "fiubU":
            raise CellError(0, column, f"holds neither numbers nor text of up to {LONGEST_TEXT} characters")
        return found


def table_of(values: Any, *, name: str = "table") -> Table:
    """Take a frame, a series, a dictionary of columns, a list or an array as a table; `name` is for messages.

    >>> table_of(["benign", "malignant"], name="labels").texts(0)
    ['benign', 'malignant']
    >>> table_of({"benign": [0.5, None]}).numbers(["benign"])
    Traceback (most recent call last):
    fedconformal.errors.InputError: table: row 1, column benign holds nan, a missing value; give every row its numbers,
    or leave the row out of every file
    """
    if isinstance(values, Table):
        return values
    titled = frame_columns(values)
    title = getattr(values, "name", None)
    if titled is None and hasattr(values, "to_numpy") and title not in (None, "", 0):  # a series
        titled = [(title, values)]
    if titled is not None:
        columns = [read_column(column, f"{name}: column {abbreviate(str(key))}") for key, column in titled]
        return array_table(name, columns, [name_key(str(key)) for key, _ in titled])
    array = read_column(values, name)
    if array.ndim not in (1, 2):
        looks = "; it looks like images or masks, which are for a loss (docs/tables.md)" if array.ndim > 2 else ""
        problem = f"has shape {array.shape}, expected rows and columns{looks}"
        raise InputError(problem, param="loss" if looks else None, where=name)
    if array.ndim == 1:
        return array_table(name, [array], None)
    return array_table(name, list(array.T), None, matrix=array)


def array_table(
    source: str, columns: list[NDArray[Any]], names: list[str] | None, *, matrix: NDArray[Any] | None = None
) -> Table:
    """Put columns together, with one line that says what they are."""
    if len({column.shape for column in columns}) != 1:
        raise InputError("its columns differ in length" if columns else "has no columns", where=source)
    return Table(
        source=source,
        cells=ArrayCells(columns, matrix),
        names=None if names is None else tuple(names),
        columns=tuple(range(len(columns))),
        said=(f"columns {join_names(names)}" if names else f"{plural(len(columns), 'column')} without names",),
    )
