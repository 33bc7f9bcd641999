"""Tables from files, by their endings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base import files
from fedconformal._base.files import TEXT, read_array, reading
from fedconformal._base.names import abbreviate, join_names, name_key
from fedconformal.errors import InputError
from fedconformal.tables.frames import array_table, table_of
from fedconformal.tables.table import LONGEST_TEXT, Table
from fedconformal.tables.text_file import read_text_file

ENDINGS = (*TEXT, ".parquet", ".npy", ".npz")
SHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
PANDAS_INDEX = "__index_level_0__"
NUMBER = 8


def read_table(path: Path, *, encoding: str | None = None, arrays: tuple[str, ...] = ("probs", "labels")) -> Table:
    r"""Read a table; `encoding` is that of a text file without a mark, if not UTF-8; `arrays` are names in an .npz.

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
        from pyarrow import ArrowException, parquet, types
        from pyarrow import Table as ArrowTable
    except ImportError:
        raise InputError("reading .parquet needs pyarrow: pip install 'fedconformal[parquet]'") from None
    size = path.stat().st_size
    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            about = file.metadata
            unpacked = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
            files.check_size(max(unpacked, about.num_rows * about.num_columns * NUMBER), size)
            text = [types.is_string(one.type) or types.is_large_string(one.type) for one in schema]
        named = [name for name, is_text in zip(schema.names, text, strict=True) if is_text]
        with parquet.ParquetFile(
            path, read_dictionary=named
        ) as file:  # a text is in memory once, however often it is used
            batches, held = [], 0
            for batch in file.iter_batches(max(1, files.FREE_BYTES // (NUMBER * max(1, about.num_columns)))):
                batches.append(batch)
                held += batch.nbytes
                files.check_size(held, size)  # a footer may claim less than there is
            table = ArrowTable.from_batches(batches, file.schema_arrow)
        if table.num_rows != about.num_rows:
            raise InputError(f"has {table.num_rows} rows, and its footer says {about.num_rows}; write it again")
    except ArrowException as error:
        raise InputError(f"cannot be read ({abbreviate(str(error))})") from None
    names = [name_key(name) for name in table.column_names]
    if not names or not table.num_rows:
        raise InputError("has no rows" if names else "has no columns")
    columns = [_column(column, name) for column, name in zip(table.columns, names, strict=True)]
    found = array_table(str(path), columns, names)
    if PANDAS_INDEX not in names:
        return found
    index = names.index(PANDAS_INDEX)
    shown_names = [name for name in names if name != PANDAS_INDEX]
    in_use = tuple(j for j in found.columns if j != index)
    return replace(
        found, columns=in_use, row_names=index, said=(f"columns {join_names(shown_names)}", "index of pandas")
    )


def _column(column: Any, name: str) -> NDArray[Any] | str:
    """Turn a column into an array; one of another kind than numbers or text is only refused if it is used."""
    from pyarrow import types

    kind = column.type
    if column.null_count:
        row = next(row for row, value in enumerate(column) if not value.is_valid)
        raise InputError(f"row {row}, column {abbreviate(name)} is missing; give every row a value")
    if types.is_dictionary(kind) and (types.is_string(kind.value_type) or types.is_large_string(kind.value_type)):
        parts = []
        for chunk in column.chunks:
            longest = max((len(value.as_py()) for value in chunk.dictionary), default=0)
            if longest > LONGEST_TEXT:
                return f"text of {longest} characters"
            parts.append(np.array(chunk.dictionary.to_pylist(), dtype=np.str_)[chunk.indices.to_numpy()])
        return np.concatenate(parts)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        values: NDArray[Any] = column.to_numpy()
        return values
    return abbreviate(str(kind))
