"""Unparsed tables: named columns, and the position of each row in its file.

Columns are parsed lazily, ids and labels as text and probabilities as numbers. An id 007 is therefore not 7, and only
columns of probabilities are searched for cells that are not numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from numpy.typing import NDArray

from fedconformal._base.names import abbreviate, first_duplicate, join_names, name_key, plural
from fedconformal.errors import InputError

MISSING = {"", "na", "n/a", "nan", "null", "none", "#n/a", "<na>", "."}
"""Missing values as Excel, R, pandas and SAS write them, in lower case."""
CHECKED = ("probabilities", "predictions", "groups", "features", "losses")
"""Names of arrays in error messages whose row numbers refer to the table."""
NUMBERS_MISSING = "give every row its numbers, or leave the row out of every file"
LONGEST_TEXT = 256
MOST_LISTED = 10
"""Maximum number of rows with a missing value in an error message."""


class CellError(Exception):
    """An invalid cell with its position; `Table` adds the name of the column."""

    def __init__(self, row: int, column: int, problem: str, code: str = "invalid") -> None:
        super().__init__(problem)
        self.row, self.column, self.problem, self.code = row, column, problem, code


class Cells(Protocol):
    """Storage of a table; columns are given by their positions."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    def numbers(self, columns: Sequence[int]) -> NDArray[Any]:
        """Return numeric columns as (rows, columns); raise `CellError` at the first cell that is not a number."""

    def texts(self, column: int) -> list[str]:
        """Return a column as stripped text."""

    def take(self, rows: Sequence[int]) -> Cells:
        """Return a subset of the rows."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns with or without names; `said` describes the recognised layout.

    `columns` are the positions of the columns in use, without empty columns and without row names, which are at
    `row_names`. `counted` is true if the row names are row numbers, from 0 (pandas) or from 1 (R). `head` is a first
    row that may be a header, if the content is ambiguous, and `below` are the cells below it. `first_line` is the
    1-based line number of the first row; None if the table is not from a text file. `taken` are the rows of the file
    in use, if not all.
    """

    source: str
    cells: Cells
    names: tuple[str, ...] | None
    columns: tuple[int, ...]
    said: tuple[str, ...]
    row_names: int | None = None
    counted: bool = False
    head: tuple[str, ...] | None = None
    below: Cells | None = None
    first_line: int | None = None
    taken: tuple[int, ...] | None = None
    rows: int = field(init=False)

    def __post_init__(self) -> None:
        """Count the rows; refuse duplicate column names."""
        object.__setattr__(self, "rows", self.cells.rows)
        names = [self.names[j] for j in self.columns] if self.names is not None else []
        same = first_duplicate(names)
        if same is not None:
            raise self.error(f"two columns are called {abbreviate(same)}; give each a name of its own")

    @property
    def recognised(self) -> str:
        """Source, format and size in one line."""
        header = "" if self.first_line is None else "no header" if self.names is None else "header"
        return f"{self.source}: {', '.join(filter(None, (*self.said, header)))}; {plural(self.rows, 'row')}"

    def column(self, name: str) -> int:
        """Return the position of a column; an error lists the available names."""
        if self.names is None:
            raise self.error(f"line 1 is not a header, so there is no column {abbreviate(name)}; write the names above")
        if name_key(name) not in self.names:
            available = [self.names[j] for j in self.columns]
            close = closest(name, available)
            hint = "" if close is None else f"did you mean {abbreviate(close)}? "
            raise self.error(f"has no column {abbreviate(name)}; {hint}there are {join_names(available)}")
        return self.names.index(name_key(name))

    def numbers(self, columns: Sequence[int | str]) -> NDArray[Any]:
        """Return columns, by name or position, as a numeric matrix; an error names the first other cell."""
        positions = [self.column(column) if isinstance(column, str) else column for column in columns]
        try:
            return self.cells.numbers(positions)
        except CellError as error:
            if error.code == "missing":
                raise self.missing_error(positions) from None
            raise self.error(f"{self.place(error.row, error.column)} {error.problem}", code=error.code) from None

    def texts(self, column: int | str) -> list[str]:
        """Return a column, by name or position, as text."""
        position = self.column(column) if isinstance(column, str) else column
        try:
            cells = self.cells.texts(position)
        except CellError as error:
            raise self.error(f"{self.place(error.row, error.column)} {error.problem}", code=error.code) from None
        if max(map(len, cells), default=0) > LONGEST_TEXT:
            row = next(row for row, cell in enumerate(cells) if len(cell) > LONGEST_TEXT)
            problem = f"has {len(cells[row])} characters, more than {LONGEST_TEXT}"
            raise self.error(f"{self.place(row, position)} {problem}")
        return cells

    def missing(self, columns: Sequence[int], classes: Collection[str] | None = ()) -> dict[int, tuple[int, str]]:
        """Return the rows with a missing value in a column, which no class is called, and the first cell of each."""
        missing: dict[int, tuple[int, str]] = {}
        for column in columns:
            for row, cell in enumerate(self.cells.texts(column)):
                if absent(cell) is not None and name_key(cell) not in (classes or ()):
                    missing.setdefault(row, (column, cell))
        return missing

    def missing_error(
        self, columns: Sequence[int], advice: str = NUMBERS_MISSING, classes: Collection[str] | None = ()
    ) -> InputError:
        """Return an error that lists the first ten rows with a missing value and counts all of them."""
        missing = self.missing(columns, classes)
        rows = sorted(missing)
        first = [f"{self.place(row, missing[row][0])} {absent(missing[row][1])}" for row in rows[:MOST_LISTED]]
        many = f"; {len(rows)} rows lack a value" if len(rows) > 1 else ""
        return self.error(f"{'; '.join(first)}{many}; {advice}", param="skip_missing", code="missing")

    def take(self, rows: Sequence[int]) -> Table:
        """Return a subset of the rows; they keep their row numbers in the file."""
        taken = range(self.rows) if self.taken is None else self.taken
        return replace(self, cells=self.cells.take(rows), taken=tuple(taken[row] for row in rows))

    def place(self, row: int, column: int | None = None) -> str:
        """Format the location of a cell with the line number of a spreadsheet: "line 7, column benign"."""
        row = row if self.taken is None else self.taken[row]
        where = f"row {row}" if self.first_line is None else f"line {self.first_line + row}"
        return where if column is None else f"{where}, {self.title(column)}"

    def title(self, column: int) -> str:
        """Format a column by its name, or by its number from 1."""
        return f"column {abbreviate(self.names[column]) if self.names and self.names[column] else column + 1}"

    def error(self, problem: str, *, param: str | None = None, code: str = "invalid") -> InputError:
        """Return an error located in this table."""
        return InputError(problem, param=param, code=code, where=self.source)

    def with_header(self) -> Table:
        """Interpret an ambiguous first row as the header."""
        if self.below is None or self.first_line is None:
            return self
        return replace(self, cells=self.below, names=self.head, head=None, below=None, first_line=self.first_line + 1)

    @contextmanager
    def in_lines(self) -> Iterator[None]:
        """Convert row numbers in errors about rows of this table to line numbers of its file."""
        try:
            yield
        except InputError as error:
            if error.where not in (*CHECKED, self.source):
                raise
            place = "" if error.row is None else f"{self.place(error.row)} "
            raise type(error)(
                f"{place}{error.problem}", param=error.param, code=error.code, where=self.source
            ) from None


def closest(name: str, names: Sequence[str]) -> str | None:
    """Return the first name that is equal up to case and punctuation; otherwise one that contains it or vice versa."""
    folded = {text: "".join(filter(str.isalnum, text.lower())) for text in (name, *names)}
    wanted = folded[name]
    equal = [other for other in names if folded[other] == wanted]
    long = [other for other in names if min(len(wanted), len(folded[other])) > 2]
    return next(iter([*equal, *(other for other in long if wanted in folded[other] or folded[other] in wanted)]), None)


def absent(cell: str) -> str | None:
    """Describe a missing value; None if the cell has a value."""
    if cell.lower() not in MISSING:
        return None
    return f"holds {abbreviate(cell)}, a missing value" if cell else "is empty"
