"""Tables from files, by suffix, and from pandas, polars and pyarrow frames, dictionaries, lists and arrays.

No data frame library is imported. The index of a pandas frame is ignored: rows are matched by position, as in
scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base import files
from fedconformal._base.files import TEXT, read_array, reading
from fedconformal._base.groups import frame_columns, read_column
from fedconformal._base.names import abbreviate, join_names, name_key, plural
from fedconformal.errors import InputError
from fedconformal.tables.table import LONGEST_TEXT, CellError, Table, absent
from fedconformal.tables.text import spells_number
from fedconformal.tables.text_file import read_text_file

ENDINGS = (*TEXT, ".parquet", ".npy", ".npz")
SHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
PANDAS_INDEX = "__index_level_0__"
NUMBER = 8


class ArrayCells:
    """Columns as arrays of equal length; a column that is neither numeric nor text is refused on use."""

    def __init__(self, columns: Sequence[NDArray[Any]], matrix: NDArray[Any] | None = None) -> None:
        self.columns = columns
        self.matrix = matrix
        self.rows = len(columns[0])

    def numbers(self, columns: Sequence[int]) -> NDArray[Any]:
        """Return numeric columns as a matrix, without a copy if they are all columns of an array."""
        for j in columns:
            column = self._readable(j)
            if column.dtype.kind == "U":
                cells = self.texts(j)
                row = next((row for row, cell in enumerate(cells) if not spells_number(cell)), 0)
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
        """Return a subset of the rows."""
        index = list(rows)
        matrix = None if self.matrix is None else self.matrix[index]
        return ArrayCells([column[index] for column in self.columns], matrix)

    def _readable(self, column: int) -> NDArray[Any]:
        array = self.columns[column]
        if array.dtype.kind not in "fiubU":
            raise CellError(0, column, f"holds neither numbers nor text of up to {LONGEST_TEXT} characters")
        return array


def table_of(values: Any, *, name: str = "table") -> Table:
    """Convert a frame, a series, a dictionary of columns, a list or an array to a table; `name` is for messages.

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
        return _array_table(name, columns, [name_key(str(key)) for key, _ in titled])
    array = read_column(values, name)
    if array.ndim not in (1, 2):
        looks = "; it looks like images or masks, which are for a loss (docs/tables.md)" if array.ndim > 2 else ""
        problem = f"has shape {array.shape}, expected rows and columns{looks}"
        raise InputError(problem, param="loss" if looks else None, where=name)
    if array.ndim == 1:
        return _array_table(name, [array], None)
    return _array_table(name, list(array.T), None, matrix=array)


def _array_table(
    source: str, columns: list[NDArray[Any]], names: list[str] | None, *, matrix: NDArray[Any] | None = None
) -> Table:
    """Return a table of these columns."""
    if len({column.shape for column in columns}) != 1:
        raise InputError("its columns differ in length" if columns else "has no columns", where=source)
    return Table(
        source=source,
        cells=ArrayCells(columns, matrix),
        names=None if names is None else tuple(names),
        columns=tuple(range(len(columns))),
        said=(f"columns {join_names(names)}" if names else f"{plural(len(columns), 'column')} without names",),
    )


def read_table(path: Path, *, encoding: str | None = None, arrays: tuple[str, ...] = ("probs", "labels")) -> Table:
    r"""Read a table from a file.

    `encoding` is that of a text file without a byte order mark, by default UTF-8; `arrays` are names in an .npz file.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "scans.csv")
    >>> size = path.write_bytes("id;benign;bösartig\r\n007;0,9;0,1\r\n".encode("cp1252"))
    >>> table = read_table(path, encoding="cp1252")
    >>> print(table.recognised.replace(str(path), path.name))
    scans.csv: semicolons, decimal commas, cp1252, header; 1 row
    >>> table.texts("id"), table.numbers(["benign", "bösartig"]).tolist()
    (['007'], [[0.9, 0.1]])
    """
    ending = path.suffix.lower()
    if ending in SHEETS:
        raise InputError("is a spreadsheet; save the sheet as CSV UTF-8 first", where=path)
    if ending not in ENDINGS:
        raise InputError(f"expected a file that ends in {', '.join(ENDINGS)}", where=path)
    if encoding is not None and ending not in TEXT:
        raise InputError("only text has an encoding; leave it out", where=path)
    if ending in (".npy", ".npz"):
        return table_of(read_array(path, *arrays), name=str(path))
    with reading(path):
        return read_text_file(path, encoding) if ending in TEXT else _read_parquet(path)


def _read_parquet(path: Path) -> Table:
    try:
        from pyarrow import ArrowException, parquet
        from pyarrow import Table as ArrowTable
    except ImportError:
        raise InputError("reading .parquet needs pyarrow: pip install 'fedconformal[parquet]'") from None
    size = path.stat().st_size
    try:
        with parquet.ParquetFile(path) as file:
            footer, batches, held = file.metadata, [], 0
            unpacked = sum(footer.row_group(i).total_byte_size for i in range(footer.num_row_groups))
            files.check_size(max(unpacked, footer.num_rows * footer.num_columns * NUMBER), size)
            for batch in file.iter_batches(max(1, files.FREE_BYTES // (NUMBER * max(1, footer.num_columns)))):
                batches.append(batch)
                held += batch.nbytes
                files.check_size(held, size)  # the footer may understate the size
            table = ArrowTable.from_batches(batches, file.schema_arrow)
    except ArrowException as error:
        raise InputError(f"cannot be read ({abbreviate(str(error))})") from None
    if table.num_rows != footer.num_rows:
        raise InputError(f"has {table.num_rows} rows, and its footer states {footer.num_rows}; write it again")
    if not table.num_columns or not table.num_rows:
        raise InputError("has no rows" if table.num_columns else "has no columns")
    names = [name_key(name) for name in table.column_names]
    result = _array_table(str(path), [_column(column) for column in table.columns], names)
    if PANDAS_INDEX not in names:
        return result
    index = names.index(PANDAS_INDEX)
    names.remove(PANDAS_INDEX)
    in_use = tuple(j for j in result.columns if j != index)
    return replace(result, columns=in_use, row_names=index, said=(f"columns {join_names(names)}", "index of pandas"))


def _column(column: Any) -> NDArray[Any]:
    """Convert a column to an array; nested values and very long texts become a placeholder that is refused on use."""
    from pyarrow import compute, types

    kind = column.type
    text = types.is_string(kind) or types.is_large_string(kind)
    longest = compute.max(compute.utf8_length(column)).as_py() or 0 if text else 0
    scalar = text or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return read_column(column, "") if scalar and longest <= LONGEST_TEXT else np.zeros(len(column), dtype=np.void)
