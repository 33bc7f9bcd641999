"""Tables of arrays: frames of pandas, polars and pyarrow, dictionaries, lists and arrays, by what they can do.

No such library is imported: a frame has columns, and a column turns into an array. The index of a pandas frame is not
looked at: rows go together by their order, as in scikit-learn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import is_missing
from fedconformal._base.names import abbreviate, join_names, name_key, plural
from fedconformal.errors import InputError
from fedconformal.tables.table import CellError, Table, absent

ARROW_NUMBERS = {"double", "float", *(f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64))}
"""How Arrow calls its types of numbers."""


class ArrayCells:
    """Columns as arrays of one length; a column that is neither numbers nor text is what it is called.

    >>> cells = ArrayCells([np.array(["a", "b"]), np.array([1.0, 0.5])])
    >>> cells.texts(0), cells.texts(1), cells.numbers([1]).tolist()
    (['a', 'b'], ['1', '0.5'], [[1.0], [0.5]])
    """

    def __init__(self, columns: Sequence[NDArray[Any] | str], matrix: NDArray[Any] | None = None) -> None:
        self.columns = columns
        self.matrix = matrix
        self.rows = next((len(column) for column in columns if not isinstance(column, str)), 0)

    def numbers(self, columns: Sequence[int]) -> NDArray[Any]:
        """Return columns of numbers, without a copy if they are all that an array has."""
        for j in columns:
            column = self._there(j, "numbers")
            if column.dtype.kind not in "fiub":
                found = [absent(str(cell).strip()) for cell in column]
                row = next((row for row, problem in enumerate(found) if problem), 0)
                problem = found[row] or f"holds {abbreviate(repr(str(column[row])))}, which is not a number"
                raise CellError(row, j, problem, "missing" if found[row] else "not-a-number")
            if column.dtype.kind == "f" and not np.isfinite(column).all():
                row = int(np.argmin(np.isfinite(column)))
                problem = f"holds {column[row]}; give every row its numbers, or leave the row out"
                raise CellError(row, j, problem, "missing" if np.isnan(column[row]) else "invalid")
        if self.matrix is not None and list(columns) == list(range(self.matrix.shape[1])):
            return self.matrix
        chosen: list[Any] = [self.columns[j] for j in columns]
        return np.column_stack(chosen)

    def texts(self, column: int) -> list[str]:
        """Return a column as text; a whole number has no decimal point."""
        values = self._there(column, "text")
        if values.dtype.kind == "f":
            return [str(int(x)) if np.isfinite(x) and x == int(x) else repr(float(x)) for x in values]
        return [str(x).strip() for x in values.tolist()]

    def take(self, rows: Sequence[int]) -> ArrayCells:
        """Return these rows only."""
        chosen = list(rows)
        columns = [one if isinstance(one, str) else one[chosen] for one in self.columns]
        return ArrayCells(columns, None if self.matrix is None else self.matrix[chosen])

    def _there(self, column: int, wanted: str) -> NDArray[Any]:
        found = self.columns[column]
        if isinstance(found, str):
            raise CellError(0, column, f"holds {found}, not {wanted}")
        return found


def table_of(values: Any, *, name: str = "table") -> Table:
    """Take a frame, a series, a dictionary of columns, a list or an array as a table; `name` is for messages.

    >>> table_of(["benign", "malignant"], name="labels").texts(0)
    ['benign', 'malignant']
    >>> table_of({"benign": [0.5, None]}).numbers(["benign"])
    Traceback (most recent call last):
    fedconformal.errors.InputError: table: row 1, column benign is missing; give every row a value
    """
    if isinstance(values, Table):
        return values
    names, columns, matrix = _parts(values, name)
    arrays = [
        _array(column, name, title) for column, title in zip(columns, names or range(1, len(columns) + 1), strict=True)
    ]
    lengths = {len(array) for array in arrays}
    if len(lengths) != 1:
        raise InputError("" + ("has no columns" if not lengths else "its columns differ in length"), where=name)
    return array_table(name, arrays, names, matrix=matrix)


def array_table(
    source: str,
    columns: Sequence[NDArray[Any] | str],
    names: Sequence[str] | None,
    *,
    matrix: NDArray[Any] | None = None,
) -> Table:
    """Put columns together, with one line that says what they are."""
    said = f"columns {join_names(names)}" if names is not None else f"{plural(len(columns), 'column')} without names"
    return Table(
        source=source,
        cells=ArrayCells(columns, matrix),
        names=None if names is None else tuple(names),
        columns=tuple(range(len(columns))),
        said=(said,),
    )


def _parts(values: Any, name: str) -> tuple[list[str] | None, list[Any], NDArray[Any] | None]:
    """Return names if there are any, columns, and the matrix if all are of one."""
    if isinstance(values, Mapping):
        return [name_key(str(key)) for key in values], list(values.values()), None
    if hasattr(values, "column_names") and hasattr(values, "column"):  # pyarrow
        names = [name_key(one) for one in values.column_names]
        return names, [values.column(j) for j in range(values.num_columns)], None
    if hasattr(values, "columns") and hasattr(values, "to_numpy"):
        names = [name_key(str(one)) for one in values.columns]
        by_position = values.iloc if hasattr(values, "iloc") else None
        columns = [values[:, j] if by_position is None else by_position[:, j] for j in range(len(names))]
        return names, columns, None
    if hasattr(values, "to_numpy"):  # a series
        title = getattr(values, "name", None)
        return None if title in (None, "", 0) else [name_key(str(title))], [values], None
    array = _array(values, name, None)
    if array.ndim not in (1, 2):
        looks = "; it looks like images or masks, which are for a loss (docs/tables.md)" if array.ndim > 2 else ""
        raise InputError(
            f"has shape {array.shape}, expected rows and columns{looks}", param="loss" if looks else None, where=name
        )
    return None, [array] if array.ndim == 1 else list(array.T), array if array.ndim == 2 else None


def _array(values: Any, name: str, title: Any) -> NDArray[Any]:
    """Turn a column into numbers, booleans or text; refuse what is missing, and what is mixed."""
    if hasattr(values, "detach"):  # a torch tensor
        values = values.detach().cpu()
    try:
        array = np.asarray(_from_arrow(values) if hasattr(values, "to_pylist") else values)
        array = np.asarray(values, dtype=object) if array.dtype.kind in "US" and not hasattr(values, "dtype") else array
    except (ValueError, TypeError, RuntimeError):
        raise InputError(
            f"{_where(name, title)}cannot be read as a column: its rows differ in kind or length"
        ) from None
    if array.dtype.kind in "MmT":
        array = array.astype(str)
    elif array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    if array.dtype.kind != "O":
        if array.dtype.kind not in "fiubU":
            raise InputError(f"{_where(name, title)}holds {abbreviate(str(array.dtype))}, neither numbers nor text")
        return array
    width = array.shape[1] if array.ndim > 1 else 1
    row = next((at // width for at, value in enumerate(array.ravel()) if is_missing(value)), None)
    if row is not None:
        column = "" if title is None else f", column {abbreviate(str(title))}"
        raise InputError(f"row {row}{column} is missing; give every row a value", where=name)
    kinds = {_kind(value) for value in array.ravel()}
    if len(kinds) > 1 or not kinds <= {"text", "numbers", "booleans"}:
        held = " and ".join(sorted(kinds)) or "nothing"
        raise InputError(f"{_where(name, title)}holds {held}, expected only numbers or only text")
    return array.astype({"text": np.str_, "booleans": np.bool_}.get(kinds.pop() if kinds else "", np.float64))


def _from_arrow(column: Any) -> Any:
    """Take numbers as they are in memory; all else value by value."""
    numbers = not column.null_count and str(column.type) in ARROW_NUMBERS
    return column.to_numpy() if numbers else column.to_pylist()


def _where(name: str, title: Any) -> str:
    return f"{name}: " + ("" if title is None else f"column {abbreviate(str(title))} ")


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool | np.bool_):
        return "booleans"
    return "numbers" if isinstance(value, int | float | np.number) else type(value).__name__
