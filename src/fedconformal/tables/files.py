"""Tables from files, by their endings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base import files
from fedconformal._base.files import TEXT, read_array, reading
from fedconformal._base.groups import read_column
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
        from pyarrow import ArrowException, parquet
        from pyarrow import Table as ArrowTable
    except ImportError:
        raise InputError("reading .parquet needs pyarrow: pip install 'fedconformal[parquet]'") from None
    size = path.stat().st_size
    try:
        with parquet.ParquetFile(path) as file:
            about, batches, held = file.metadata, [], 0
            unpacked = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
            files.check_size(max(unpacked, about.num_rows * about.num_columns * NUMBER), size)
            for batch in file.iter_batches(max(1, files.FREE_BYTES // (NUMBER * max(1, about.num_columns)))):
                batches.append(batch)
                held += batch.nbytes
                files.check_size(held, size)  # a footer may claim less than there is
            table = ArrowTable.from_batches(batches, file.schema_arrow)
    except ArrowException as error:
        raise InputError(f"cannot be read ({abbreviate(str(error))})") from None
    if table.num_rows != about.num_rows:
        raise InputError(f"has {table.num_rows} rows, and its footer says {about.num_rows}; write it again")
    if not table.num_columns or not table.num_rows:
        raise InputError("has no rows" if table.num_columns else "has no columns")
    names = [name_key(name) for name in table.column_names]
    found = array_table(str(path), [_column(column) for column in table.columns], names)
    if PANDAS_INDEX not in names:
        return found
    index = names.index(PANDAS_INDEX)
    names.remove(PANDAS_INDEX)
    in_use = tuple(j for j in found.columns if j != index)
    return replace(found, columns=in_use, row_names=index, said=(f"columns {join_names(names)}", "index of pandas"))


def _column(column: Any) -> NDArray[Any]:
    """Turn a column into an array; one without plain values, or with very long ones, into one that is never read."""
    from pyarrow import compute, types

    kind = column.type
    text = types.is_string(kind) or types.is_large_string(kind)
    longest = compute.max(compute.utf8_length(column)).as_py() or 0 if text else 0
    plain = text or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return read_column(column, "") if plain and longest <= LONGEST_TEXT else np.zeros(len(column), dtype=np.void)
