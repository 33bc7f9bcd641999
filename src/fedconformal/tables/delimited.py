"""Cells of a text file: checked line by line when they are read, made into numbers when they are used.

The text stays in memory as it came, in blocks of whole rows: a column is text or numbers only once its use is known.
The standard library and numpy read it. On a million rows of ten numbers, pyarrow.csv on one core takes 0.6 to 0.75 of
the time and 1.3 to 1.7 times the memory, for the same bits. That does not pay for a second reader with refusals of its
own, which does not count lines as a spreadsheet does.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TextIO

import numpy as np

from fedconformal._base.arrays import Floats
from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError
from fedconformal.tables.layout import COMMA, DECIMAL_COMMA, POINT, Layout, unguarded
from fedconformal.tables.table import CellError, absent

CHUNK = 2**20
"""Characters that are read at a time."""
LONGEST_LINE = 2**24
MOST_COLUMNS = 2**17
SWAPPED = str.maketrans({",": ".", ".": "?"})
GROUPED = re.compile(r"[-+]?\d{1,3}(?:[., '\u2019\u00a0\u202f]\d{3})+(?:[.,]\d+)?")


@dataclass(frozen=True)
class Block:
    """Whole rows of text; `plain` if each is a line."""

    text: str
    rows: int
    plain: bool


@dataclass(frozen=True)
class TextCells:
    """The rows of a text file, in blocks.

    >>> cells = TextCells((Block("a;0,5", 1, True), Block("b;1", 1, True)), ";", decimal=",")
    >>> cells.texts(0), cells.numbers([1]).tolist()
    (['a', 'b'], [[0.5], [1.0]])
    """

    blocks: tuple[Block, ...]
    separator: str
    decimal: str = "."

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(block.rows for block in self.blocks)

    def without_first(self) -> TextCells:
        """Leave out the first row, which is a block of its own."""
        return replace(self, blocks=self.blocks[1:])

    def numbers(self, columns: Sequence[int]) -> Floats:
        """Return columns of numbers; raise at the first cell that is none."""
        found, row = [np.empty((0, len(columns)))], 0
        for block in self.blocks:
            values = self._quickly(block, columns)
            found.append(values if values is not None else self._one_by_one(block, columns, row))
            row += block.rows
        return np.concatenate(found)

    def texts(self, column: int) -> list[str]:
        """Return a column as text, without spaces around it and without the apostrophe of `guarded`."""
        return [unguarded(row[column].strip()) for block in self.blocks for row in rows_of(block.text, self.separator)]

    def _quickly(self, block: Block, columns: Sequence[int]) -> Floats | None:
        """Parse a block at once; None if a cell is no number, or hard to read."""
        text = block.text if self.decimal == "." else block.text.translate(SWAPPED)
        if not block.plain or not text.isascii():
            return None
        try:
            found = np.loadtxt(
                text.split("\n"), delimiter=self.separator, quotechar='"', usecols=columns, ndmin=2, comments=None
            )
        except ValueError:
            return None
        return found if len(found) == block.rows and np.isfinite(found).all() else None

    def _one_by_one(self, block: Block, columns: Sequence[int], start: int) -> Floats:
        found = np.empty((block.rows, len(columns)))
        for i, row in enumerate(rows_of(block.text, self.separator)):
            for k, j in enumerate(columns):
                cell = row[j].strip()
                if not (POINT if self.decimal == "." else DECIMAL_OR_WHOLE).fullmatch(cell):
                    raise CellError(start + i, j, *self._problem(cell))
                found[i, k] = float(cell.replace(",", "."))
                if not np.isfinite(found[i, k]):
                    raise CellError(start + i, j, f"holds {abbreviate(cell)}, which is too large")
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


DECIMAL_OR_WHOLE = re.compile(f"{DECIMAL_COMMA.pattern}|[-+]?+[0-9]++(?:[eE][-+]?+[0-9]++)?+")


def rows_of(text: str, separator: str) -> Iterator[list[str]]:
    """Cut text into rows of cells; quotes must be closed, and nothing but a separator follows them."""
    lines = (f"{line}\n" for line in text.split("\n"))
    return csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)


def chunks(file: TextIO) -> Iterator[str]:
    """Yield text in pieces of whole rows: a piece has an even number of quotes, so that it does not end inside one."""
    kept, line = "", 1
    while text := file.read(CHUNK):
        if "\0" in text:
            at = line + (kept + text[: text.index("\0")]).count("\n")
            raise InputError(
                f"line {at} holds a NUL byte, so this is not text; give the encoding if it is UTF-16", param="encoding"
            )
        text = kept + text
        cut = text.rfind("\n") + 1
        if text.count('"', 0, cut) % 2 and len(text) <= LONGEST_LINE:
            kept = text
            continue
        line += text.count("\n", 0, cut)
        kept = text[cut:]
        if len(kept) > LONGEST_LINE:
            raise InputError(f"line {line} has more than {LONGEST_LINE} characters; is this a table?")
        if cut:
            yield text[:cut]
    if kept:
        yield kept


def first_row(text: str) -> tuple[str, str]:
    """Cut text after its first row, which may have line ends in quotes."""
    end, quotes = 0, 0
    while following := text.find("\n", end) + 1:
        quotes += text.count('"', end, following)
        end = following
        if quotes % 2 == 0:
            return text[:end], text[end:]
    return text, ""


def blocks_of(texts: Iterable[str], layout: Layout) -> Iterator[Block]:
    """Check rows: as many cells in each, quotes closed, none blank but at the very end; the first is alone."""
    line, width, blank = 1, 0, 0
    for text in filter(None, texts):
        lines = text.removesuffix("\n").split("\n")
        careful = '"' in text or max(map(len, lines)) > csv.field_size_limit()
        rows = list(_checked(text.removesuffix("\n"), layout.separator, line)) if careful else None
        widths = [len(row) for row in rows] if rows else [one.count(layout.separator) + 1 for one in lines]
        filled = [any(map(str.strip, row)) for row in rows] if rows else [bool(one.strip(",; \t")) for one in lines]
        width = width or widths[0] + layout.short
        good = not blank and all(filled) and set(widths) == {width}
        kept = len(filled) if good else max((i + 1 for i, some in enumerate(filled) if some), default=0)
        for i in range(0 if good else len(filled)):
            if not filled[i]:
                blank = blank or line + i
            elif blank:
                raise InputError(f"line {blank} is blank; delete it, or fill it in, so that every row keeps its place")
            elif widths[i] != width and not (layout.short and line + i == 1):
                raise InputError(_ragged(text, line, i, widths[i], width, layout.separator))
        if width > MOST_COLUMNS:
            raise InputError(f"line 1 has {width} cells, more than {MOST_COLUMNS}; is this a table?")
        if kept:
            plain = len(lines) == len(filled) and ' "' not in text  # numpy takes a quote after a space as it is
            yield Block("\n".join(lines[: len(lines) - (len(filled) - kept)]), kept, plain)
        line += len(filled)


def _checked(text: str, separator: str, line: int) -> Iterator[list[str]]:
    rows = rows_of(text, separator)
    while True:
        try:
            yield next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            after = "expected after" in str(error)
            problem = "has text after a closing quote" if after else "has a quote that is not closed"
            most = f", or a cell of more than {csv.field_size_limit()} characters" if "limit" in str(error) else ""
            raise InputError(f"line {line} {problem}{most}; write a quote inside a cell twice") from None
        line += 1


def _ragged(text: str, line: int, at: int, cells: int, width: int, separator: str) -> str:
    row = next(islice(rows_of(text, separator), at, None))
    number = f"{cells} cells" if cells > 1 else "1 cell"
    problem = f"line {line + at} has {number}, and line 1 has {width}"
    if separator == COMMA and cells > width and all(cell.strip().isdecimal() for cell in row):
        return f"{problem}; if these are decimal commas, save the table with semicolons"
    return problem
