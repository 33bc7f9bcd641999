"""Parsing of delimited text: separators, records and numbers.

A separator is a candidate if all lines have the same number of cells. Of several candidates the only one without
another separator inside a cell, apart from decimal commas, is used: 0,5;0,5 has two cells, as 5;0 is not a cell.
Otherwise the table is refused. Cells are converted to numbers or text lazily, by column.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fedconformal._base.arrays import Floats
from fedconformal._base.names import abbreviate, plural
from fedconformal.errors import InputError
from fedconformal.tables.table import CellError, absent

COMMA, SEMICOLON, TAB = ",", ";", "\t"
SEPARATORS = {COMMA: "commas", SEMICOLON: "semicolons", TAB: "tabs"}
MOST_LINES = 1000
QUOTED = re.compile(r'"(?:[^"]|"")*+"')
SEP_LINE = re.compile(r'"?sep=([,;\t])"?[,; \t]*\n', re.IGNORECASE)
POINT = re.compile(r"[-+]?+(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)(?:[eE][-+]?+[0-9]++)?+")
DECIMAL_COMMA = re.compile(r"[-+]?+(?:[0-9]++,[0-9]*+|,[0-9]++)(?:[eE][-+]?+[0-9]++)?+")
MOST_COLUMNS = 2**17
LONGEST_LINE = 2**24
DECIMAL_OR_WHOLE = re.compile(f"{DECIMAL_COMMA.pattern}|[-+]?+[0-9]++(?:[eE][-+]?+[0-9]++)?+")
GROUPED = re.compile(r"[-+]?\d{1,3}(?:[., '\u2019\u00a0\u202f]\d{3})+(?:[.,]\d+)?")
SWAPPED = str.maketrans({",": ".", ".": "?"})
FORMULA = ("=", "+", "-", "@")
"""First characters of a cell that a spreadsheet evaluates as a formula."""


class Layout(NamedTuple):
    """The separator of cells; `short` if line 1 has one cell fewer, as R writes headers above row names."""

    separator: str
    said: str
    short: bool = False


def layout_of(text: str) -> Layout:
    """Detect the layout from the first lines of a file."""
    lines = _lines(text)
    layouts = [layout for separator in SEPARATORS if (layout := _reading(lines, separator))]
    if _one_column(lines):
        layouts.append(Layout(SEMICOLON, "one column"))
    if len(layouts) > 1:
        layouts = [x for x in layouts if x.said == "one column" or _clean(lines, x.separator)] or layouts
    if len(layouts) > 1:
        raise InputError(_ambiguous(layouts))
    if layouts:
        return layouts[0]
    likely = max(SEPARATORS, key=lines[0].count) if lines else COMMA
    return Layout(likely, SEPARATORS[likely])


def _lines(text: str) -> list[str]:
    """Return the first lines, with each quoted cell replaced by one letter."""
    start, quote, _ = QUOTED.sub("q", text).partition('"')  # an unclosed quote truncates the last line
    lines = start.split("\n")
    lines = lines[:-1] if quote and len(lines) > 1 else lines
    return [line for line in lines[:MOST_LINES] if line.strip(",; \t")]


def _reading(lines: list[str], separator: str) -> Layout | None:
    first, *others = [line.count(separator) for line in lines] or [0]
    counts = set(others)
    if first and counts <= {first}:
        return Layout(separator, SEPARATORS[separator])
    if separator != COMMA and counts == {first + 1} and not any(map(spells_number, lines[0].split(separator))):
        return Layout(separator, SEPARATORS[separator], short=True)
    return None


def _one_column(lines: list[str]) -> bool:
    if len({line.lstrip(" -+").startswith(COMMA) for line in lines if COMMA in line}) > 1:
        return False  # a program that writes ,5 does not write 0,5 too; but pandas writes ,0 above 0,5
    return all(
        SEMICOLON not in line
        and TAB not in line.strip()
        and (COMMA not in line or DECIMAL_COMMA.fullmatch(line.strip()))
        for line in lines
    )


def _clean(lines: list[str], separator: str) -> bool:
    """Whether no cell contains a separator, apart from decimal commas."""
    for line in lines:
        for cell in line.split(separator):
            if any(other in cell for other in SEPARATORS) and not DECIMAL_COMMA.fullmatch(cell.strip()):
                return False
    return True


def _ambiguous(layouts: list[Layout]) -> str:
    if layouts[-1].said == "one column":
        return (
            "could be two columns of whole numbers or one column with decimal commas; "
            "write a header with the names of the columns above, or decimal points"
        )
    ways = " or ".join(layout.said for layout in layouts)
    return f"could be separated by {ways}; write a first line such as sep=; above, or put cells with text in quotes"


def spells_number(cell: str) -> bool:
    """Whether a cell is a number, with a decimal point or a decimal comma."""
    cell = cell.strip()
    return bool(POINT.fullmatch(cell) or DECIMAL_COMMA.fullmatch(cell))


def guarded(cell: str) -> str:
    """Prefix text that a spreadsheet would evaluate as a formula with an apostrophe; numbers are unchanged."""
    return f"'{cell}" if _is_formula(cell) and not spells_number(cell) else cell


def unguarded(cell: str) -> str:
    """Remove the apostrophe of `guarded`."""
    return cell[1:] if cell[:1] == "'" and _is_formula(cell) else cell


def _is_formula(cell: str) -> bool:
    return cell.lstrip("'").lstrip()[:1] in FORMULA


@dataclass(frozen=True)
class TextCells:
    """Records of a text file; `plain` if `numpy.loadtxt` splits them as `csv` does."""

    records: list[str]
    separator: str
    decimal: str = "."
    plain: bool = True

    @property
    def rows(self) -> int:
        """Number of records."""
        return len(self.records)

    def numbers(self, columns: Sequence[int]) -> Floats:
        """Return numeric columns; raise `CellError` at the first other cell."""
        text = "\n".join(self.records)
        text = text if self.decimal == "." else text.translate(SWAPPED)
        if self.records and self.plain and text.isascii():
            try:
                numbers = np.loadtxt(
                    text.split("\n"), delimiter=self.separator, quotechar='"', usecols=columns, ndmin=2, comments=None
                )
                if len(numbers) == self.rows and np.isfinite(numbers).all():
                    return numbers
            except ValueError:
                pass
        return self._cell_by_cell(columns)

    def texts(self, column: int) -> list[str]:
        """Return a column as stripped text, without the apostrophe of `guarded`."""
        return [unguarded(row[column].strip()) for row in rows_of(self.records, self.separator)]

    def take(self, rows: Sequence[int]) -> TextCells:
        """Return a subset of the records."""
        return replace(self, records=[self.records[row] for row in rows])

    def _cell_by_cell(self, columns: Sequence[int]) -> Floats:
        numbers = np.empty((self.rows, len(columns)))
        spelling = POINT if self.decimal == "." else DECIMAL_OR_WHOLE
        for i, row in enumerate(rows_of(self.records, self.separator)):
            for k, j in enumerate(columns):
                cell = row[j].strip()
                if not spelling.fullmatch(cell):
                    raise CellError(i, j, *self._problem(cell))
                numbers[i, k] = float(cell.replace(",", "."))
                if not np.isfinite(numbers[i, k]):
                    raise CellError(i, j, f"holds {abbreviate(cell)}, which is too large")
        return numbers

    def _problem(self, cell: str) -> tuple[str, str]:
        """Return the problem of a cell that is not a number, and the code of the error."""
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
    """Split records into cells; quotes must be closed and followed by a separator."""
    lines = (f"{line}\n" for record in records for line in record.split("\n"))
    return csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)


def split_records(text: str, layout: Layout) -> TextCells:
    """Split text into records of equal width; blank records are refused, except at the end."""
    lines = text.removesuffix("\n").split("\n")
    if max(map(len, lines)) > LONGEST_LINE:
        line = next(i for i, text_line in enumerate(lines) if len(text_line) > LONGEST_LINE) + 1
        raise InputError(f"line {line} has more than {LONGEST_LINE} characters; is this a table?")
    if '"' not in text and "\r" not in text and max(map(len, lines)) <= csv.field_size_limit():
        first, *widths = [line.count(layout.separator) + 1 for line in lines]
        even = set(widths) <= {first + layout.short} and first + layout.short <= MOST_COLUMNS
        if even and all(line.replace(layout.separator, "").strip() for line in lines):
            return TextCells(lines, layout.separator)  # the rows of most files, which need no parser
    records: list[str] = []
    width, blank, start = 0, None, 0
    rows: Any = rows_of(lines, layout.separator)
    try:
        for number, row in enumerate(rows, 1):
            records.append("\n".join(lines[start : rows.line_num]))
            start, width = rows.line_num, width or len(row) + layout.short
            if width > MOST_COLUMNS:
                raise InputError(f"line 1 has {width} cells, more than {MOST_COLUMNS}; is this a table?")
            if not any(map(str.strip, row)):
                blank = blank or number
            elif blank is not None:
                raise InputError(f"line {blank} is blank; delete it, or fill it in, so that every row keeps its place")
            elif len(row) != width and not (layout.short and number == 1):
                problem = f"line {number} has {plural(len(row), 'cell')}, and line 1 has {width}"
                if layout.separator == COMMA and len(row) > width and all(cell.strip().isdecimal() for cell in row):
                    problem += "; if these are decimal commas, save the table with semicolons"
                raise InputError(problem)
    except csv.Error:
        rest, most = "\n".join(lines[start:]), csv.field_size_limit()
        quoted, other = f" *+{QUOTED.pattern}", rf'(?! *")[^{layout.separator}\n]*+'
        closed = re.match(rf"(?:(?:{quoted}|{other}){layout.separator})*+{quoted}[^{layout.separator}\n]", rest)
        problem = "has text after a closing quote" if closed else "has a quote that is not closed"
        long = f", or a cell of more than {most} characters" if len(rest) > most else ""
        raise InputError(f"line {len(records) + 1} {problem}{long}; write a quote inside a cell twice") from None
    plain = len(records) == len(lines) and ' "' not in text  # numpy keeps a quote after a space
    return TextCells(records if blank is None else records[: blank - 1], layout.separator, plain=plain)
