"""Records of a text file: checked when they are split, converted to numbers or text when a column is used."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedconformal._base.arrays import Floats
from fedconformal._base.names import abbreviate, plural
from fedconformal.errors import InputError
from fedconformal.tables.layout import COMMA, DECIMAL_COMMA, POINT, Layout, unguarded
from fedconformal.tables.table import CellError, absent

MOST_COLUMNS = 2**17
LONGEST_LINE = 2**24
DECIMAL_OR_WHOLE = re.compile(f"{DECIMAL_COMMA.pattern}|[-+]?+[0-9]++(?:[eE][-+]?+[0-9]++)?+")
GROUPED = re.compile(r"[-+]?\d{1,3}(?:[., '\u2019\u00a0\u202f]\d{3})+(?:[.,]\d+)?")
SWAPPED = str.maketrans({",": ".", ".": "?"})


@dataclass(frozen=True)
class TextCells:
    """Records of a text file; `plain` if numpy splits them as `csv` does.

    >>> cells = TextCells(["a;0,5", "b;1"], ";", decimal=",")
    >>> cells.texts(0), cells.numbers([1]).tolist()
    (['a', 'b'], [[0.5], [1.0]])
    """

    records: list[str]
    separator: str
    decimal: str = "."
    plain: bool = True

    @property
    def rows(self) -> int:
        """Number of records."""
        return len(self.records)

    def numbers(self, columns: Sequence[int]) -> Floats:
        """Return columns of numbers; raise `CellError` at the first other cell."""
        text = "\n".join(self.records)
        text = text if self.decimal == "." else text.translate(SWAPPED)
        if self.records and self.plain and text.isascii():
            try:
                found = np.loadtxt(
                    text.split("\n"), delimiter=self.separator, quotechar='"', usecols=columns, ndmin=2, comments=None
                )
                if len(found) == self.rows and np.isfinite(found).all():
                    return found
            except ValueError:
                pass
        return self._cell_by_cell(columns)

    def texts(self, column: int) -> list[str]:
        """Return a column as stripped text, without the apostrophe of `guarded`."""
        return [unguarded(row[column].strip()) for row in rows_of(self.records, self.separator)]

    def take(self, rows: Sequence[int]) -> TextCells:
        """Return these records only."""
        return replace(self, records=[self.records[row] for row in rows])

    def _cell_by_cell(self, columns: Sequence[int]) -> Floats:
        found = np.empty((self.rows, len(columns)))
        spelling = POINT if self.decimal == "." else DECIMAL_OR_WHOLE
        for i, row in enumerate(rows_of(self.records, self.separator)):
            for k, j in enumerate(columns):
                cell = row[j].strip()
                if not spelling.fullmatch(cell):
                    raise CellError(i, j, *self._problem(cell))
                found[i, k] = float(cell.replace(",", "."))
                if not np.isfinite(found[i, k]):
                    raise CellError(i, j, f"holds {abbreviate(cell)}, which is too large")
        return found

    def _problem(self, cell: str) -> tuple[str, str]:
        """Return what is wrong with a cell that is no number, and the code of the error."""
        missing = absent(cell)
        if missing is not None:
            return f"{missing}; give every row its numbers, or leave the row out of every file", "missing"
        if self.decimal == "," and POINT.fullmatch(cell):
            problem = (
                f"holds {abbreviate(cell)} with a decimal point, and other cells have decimal commas; write all alike"
            )
            return problem, "mixed-decimals"
        advice = ""
        if GROUPED.fullmatch(cell):
            advice = "; write it without separators of thousands"
        elif self.separator == COMMA and DECIMAL_COMMA.fullmatch(cell):
            advice = "; write decimal points, or save the table with semicolons"
        elif cell.endswith("%"):
            advice = "; write probabilities from 0 to 1"
        elif " " in cell or "|" in cell:
            advice = "; separate cells with commas, semicolons or tabs"
        return (
            f"holds {abbreviate(repr(cell))}, which is not a number{advice}",
            "not-spelled" if advice else "not-a-number",
        )


def rows_of(records: Sequence[str], separator: str) -> Iterator[list[str]]:
    """Split records into cells; quotes must be closed, and only a separator follows them."""
    lines = (f"{line}\n" for record in records for line in record.split("\n"))
    return csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)


def split_records(text: str, layout: Layout) -> TextCells:
    """Split text into records of one width; blank ones are refused, except at the end."""
    lines = text.removesuffix("\n").split("\n")
    longest = max(map(len, lines))
    if longest > LONGEST_LINE:
        line = next(i for i, one in enumerate(lines) if len(one) > LONGEST_LINE) + 1
        raise InputError(f"line {line} has more than {LONGEST_LINE} characters; is this a table?")
    if '"' in text or longest > csv.field_size_limit():
        records, widths, filled = _quoted_records(lines, layout.separator)
    else:
        records, widths = lines, [line.count(layout.separator) + 1 for line in lines]
        filled = [bool(line.strip(",; \t")) for line in lines]
    width = widths[0] + layout.short
    if width > MOST_COLUMNS:
        raise InputError(f"line 1 has {width} cells, more than {MOST_COLUMNS}; is this a table?")
    rows = max((i + 1 for i, some in enumerate(filled) if some), default=0)
    for i in range(rows):
        if not filled[i]:
            raise InputError(f"line {i + 1} is blank; delete it, or fill it in, so that every row keeps its place")
        if widths[i] != width and not (layout.short and i == 0):
            problem = f"line {i + 1} has {plural(widths[i], 'cell')}, and line 1 has {width}"
            row = next(rows_of(records[i : i + 1], layout.separator))
            if layout.separator == COMMA and widths[i] > width and all(cell.strip().isdecimal() for cell in row):
                problem += "; if these are decimal commas, save the table with semicolons"
            raise InputError(problem)
    plain = len(records) == len(lines) and ' "' not in text  # numpy takes a quote after a space as it is
    return TextCells(records[:rows], layout.separator, plain=plain)


def _quoted_records(lines: list[str], separator: str) -> tuple[list[str], list[int], list[bool]]:
    """Return records that may span lines, their numbers of cells, and whether any cell is filled."""
    records: list[str] = []
    widths, filled, start = [], [], 0
    rows: Any = rows_of(lines, separator)
    try:
        for row in rows:
            records.append("\n".join(lines[start : rows.line_num]))
            widths.append(len(row))
            filled.append(any(map(str.strip, row)))
            start = rows.line_num
    except csv.Error as error:
        after = "expected after" in str(error)
        problem = "has text after a closing quote" if after else "has a quote that is not closed"
        most = f", or a cell of more than {csv.field_size_limit()} characters" if "limit" in str(error) else ""
        raise InputError(f"line {len(records) + 1} {problem}{most}; write a quote inside a cell twice") from None
    return records, widths, filled
