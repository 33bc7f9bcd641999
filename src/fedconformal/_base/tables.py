"""Tables from .csv and .parquet files that come from somebody else: no row is lost or added without a word.

Lines are counted as a spreadsheet counts them: from 1, with the header. Nothing is skipped but a header and blank lines
at the very end. A first line of column numbers, such as 0,1, is what pandas writes by default: a header, unless it
could be a row like the others, and then it is refused.
"""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import SUM_TOLERANCE
from fedconformal._base.names import shown
from fedconformal._base.npy import check_size
from fedconformal.errors import InputError

MOST_CSV = 2**30
LINES = 2**16
"""Lines that are read at a time."""
LONGEST_TEXT = 256
NUMBER, CHARACTER = 8, 4
"""How many bytes they take; text takes as much as the longest, for every row."""
WHOLE = re.compile(r'[-+\d\s,"]*+')

logger = logging.getLogger(__name__)


def read_csv(path: Path, *, text: bool = False, rows: int | None = None) -> NDArray[Any]:
    """Read numbers, or with `text` names, without their header.

    A single column that begins with 0 has a header of that name if it has one line more than the rows it goes with.
    """
    size = path.stat().st_size
    if size > MOST_CSV:
        raise InputError(f"has {size} bytes, more than {MOST_CSV}; save it as .npy, or as several files")
    with path.open(encoding="utf-8-sig") as file:
        lines = _filled(file)
        first = next(lines, None)
        if first is None:
            raise InputError("is empty")
        head = _cells(first)
        indexed = len(head) > 1 and not head[0] and all(head[1:])
        header = indexed or (not text and all(cell and not is_number(cell) for cell in head))
        numbered = not text and len(head) > 1 and head == [str(i) for i in range(len(head))]
        whole, longest = False, 0
        found = [_parsed([first], 1, len(head), text=text)] if not header else []
        for start, some in _blocks(lines, 2):
            whole = whole or (numbered and any(WHOLE.fullmatch(line) for line in some))
            if text:
                longest = max([longest, *map(len, some)])
                check_size((start + len(some)) * longest * CHARACTER, size)
            found.append(_parsed(some, start, len(head), text=text))
    if not found:
        raise InputError("is empty but for its header")
    table = np.concatenate(found)
    if indexed:
        return _without_index(table)
    if numbered and _is_header(table, path, whole=whole):
        return table[1:]
    return table[1:] if head == ["0"] and rows is not None and len(table) == rows + 1 else table


def count_lines(path: Path) -> int:
    """Return how many lines a .csv file has, without blank ones at the end."""
    with path.open(encoding="utf-8-sig") as file:
        return sum(1 for _ in _filled(file))


def read_parquet(path: Path) -> NDArray[Any]:
    """Read the columns of a .parquet file, side by side."""
    try:
        from pyarrow import ArrowException, parquet, types
    except ImportError:
        raise InputError("reading .parquet needs pyarrow: pip install 'fedconformal[parquet]'") from None
    size = path.stat().st_size
    try:
        with parquet.ParquetFile(path) as file:
            for field in file.schema_arrow:
                if not (types.is_integer(field.type) or types.is_floating(field.type) or types.is_boolean(field.type)):
                    raise InputError(f"the column {shown(field.name)} holds {shown(field.type)}, not numbers")
            check_size(file.metadata.num_rows * file.metadata.num_columns * NUMBER, size)
            table = file.read()
    except ArrowException as error:
        raise InputError(f"cannot be read ({shown(str(error))})") from None
    absent = [name for name, column in zip(table.column_names, table.columns, strict=True) if column.null_count]
    if absent or not table.num_columns:
        raise InputError(f"has missing values in the columns {shown(absent)}" if absent else "has no columns")
    return np.column_stack([column.to_numpy() for column in table.columns])


def _filled(file: Iterable[str]) -> Iterator[str]:
    """Yield the lines; a blank one between two others would shift all rows after it."""
    blank = 0
    for number, line in enumerate(file, 1):
        if not line.strip(", \t\r\n"):
            blank = blank or number
        elif blank:
            raise InputError(f"line {blank} is blank; delete it, or fill it in, so that every row keeps its place")
        else:
            yield line


def _blocks(lines: Iterator[str], number: int) -> Iterator[tuple[int, list[str]]]:
    while some := list(islice(lines, LINES)):
        yield number, some
        number += len(some)


def _parsed(lines: Sequence[str], start: int, width: int, *, text: bool) -> NDArray[Any]:
    """Parse lines, of which the first has this number, into this many columns."""
    for number, line in enumerate(lines, start):
        if line.count('"') % 2:
            raise InputError(f"line {number} has a quote that is not closed")
        cells = len(_cells(line)) if '"' in line else line.count(",") + 1
        if cells != width:
            raise InputError(f"line {number} has {_number(cells)}, and line 1 has {width}")
        if text and len(line) > LONGEST_TEXT:
            raise InputError(f"line {number} has {len(line)} characters, more than {LONGEST_TEXT}")
    try:
        return _numbers(lines, np.str_ if text else np.float64)
    except ValueError:
        for number, line in enumerate(lines, start):
            for column, cell in enumerate(_cells(line), 1):
                if not is_number(cell):
                    what = f"holds {shown(repr(cell))}, which is not a number"
                    raise InputError(f"line {number}, column {column} {what}") from None
        raise


def _numbers(lines: Sequence[str], dtype: Any) -> NDArray[Any]:
    found: NDArray[Any] = np.loadtxt(lines, dtype=dtype, delimiter=",", quotechar='"', ndmin=2, comments=None)
    if len(found) != len(lines):
        raise ValueError(f"{len(lines)} lines gave {len(found)} rows")
    return found


def _is_header(table: NDArray[Any], path: Path, *, whole: bool) -> bool:
    """Tell whether a first line 0,1,...,J-1 is a header; refuse it where it could be a row like the others.

    It is a header where every other row has a decimal point, as a writer of decimals gives all numbers one; and where
    all others are distributions, and it cannot be one.
    """
    classes, body = table.shape[1], table[1:]
    if len(body) and not whole:
        if classes == 2:
            logger.warning("%s: line 1, which is 0,1, is read as a header; write 0.0,1.0 if it is a row", path)
        return True
    if len(body) and classes > 2 and (np.abs(body.sum(axis=1) - 1) <= SUM_TOLERANCE).all():
        return True
    raise InputError(
        f"line 1 is {','.join(map(str, range(min(classes, 3))))}{',...' if classes > 3 else ''}, which could be a "
        "header of column numbers or a row; write names there if it is a header, or else decimals such as 0.0,1.0"
    )


def _without_index(table: NDArray[Any]) -> NDArray[Any]:
    """Drop a first column without a name, which has to count the rows as pandas does: 0, 1, 2, ..."""
    counted = np.arange(len(table))
    if not np.array_equal(table[:, 0], counted.astype(table.dtype)):
        raise InputError(
            "line 1 begins with an empty cell, and the column below it does not count the rows from 0; "
            "leave that column out (pandas: index=False; R: row.names=FALSE)"
        )
    return table[:, 1:]


def _number(cells: int) -> str:
    return f"{cells} cells" if cells > 1 else "1 cell"


def _cells(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line]))]
    except csv.Error as error:
        raise InputError(f"is not a table with commas ({error})") from None


def is_number(cell: str) -> bool:
    """Whether text can be read as a number, inf and nan included."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
