"""A table as it came: named columns, and where each row stands in its file.

A column stays as it came until it is used: ids and labels are read as text, probabilities as numbers. So an id 007 is
not 7, and only a column of probabilities is searched for cells that are no numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from numpy.typing import NDArray

from fedconformal._base.names import abbreviate, first_duplicate, join_names, name_key, plural
from fedconformal.errors import InputError

MISSING = {"", "na", "n/a", "nan", "null", "none", "#n/a", "<na>", "."}
"""Missing values as Excel, R, pandas and SAS write them, in lower case."""
CHECKED = ("probabilities", "predictions", "groups", "features", "losses")
"""Names that checks of rows give to them."""
NUMBERS_MISSING = "give every row its numbers, or leave the row out of every file"
LONGEST_TEXT = 256
MOST_LISTED = 10
"""Rows with a missing value that an error names."""


class CellError(Exception):
    """An invalid cell and its position; the table knows its name."""

    def __init__(self, row: int, column: int, problem: str, code: str = "invalid") -> None:
        super().__init__(problem)
        self.row, self.column, self.problem, self.code = row, column, problem, code


class Cells(Protocol):
    """Storage of a table; columns are given by their positions."""

    @property
    def rows(self) -> int:
        """The number of rows."""

    def numbers(self, columns: Sequence[int]) -> NDArray[Any]:
        """Return columns of numbers as (rows, columns); raise `CellError` at the first cell that is none."""

    def texts(self, column: int) -> list[str]:
        """Return a column as text, without spaces around it."""

    def take(self, rows: Sequence[int]) -> Cells:
        """Return these rows only."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns with or without names; `said` is what was recognised.

    `columns` are the positions of those in use: without row names, which are at `row_names`, and without empty ones.
    `counted` says that the row names are the numbers of the rows, from 0 (pandas) or from 1 (R).
    `head` is a first row that could be a header as well, if the content does not tell, and `below` are the cells below
    it. `first_line` is the line that the first row is in, as a spreadsheet counts lines; None if the table is not from
    a text file. `taken` are the rows of the file that are in use, if not all are.
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
        """Count the rows; refuse two columns of one name."""
        object.__setattr__(self, "rows", self.cells.rows)
        names = [self.names[j] for j in self.columns] if self.names is not None else []
        same = first_duplicate(names)
        if same is not None:
            raise self.error(f"two columns are called {abbreviate(same)}; give each a name of its own")

    @property
    def recognised(self) -> str:
        """The source, its format and its size in one line."""
        header = "" if self.first_line is None else "no header" if self.names is None else "header"
        return f"{self.source}: {', '.join(filter(None, (*self.said, header)))}; {plural(self.rows, 'row')}"

    def column(self, name: str) -> int:
        """Return the position of a column, or say which names there are."""
        if self.names is None:
            raise self.error(f"line 1 is not a header, so there is no column {abbreviate(name)}; write the names above")
        if name_key(name) not in self.names:
            there = [self.names[j] for j in self.columns]
            close = closest(name, there)
            meant = "" if close is None else f"did you mean {abbreviate(close)}? "
            raise self.error(f"has no column {abbreviate(name)}; {meant}there are {join_names(there)}")
        return self.names.index(name_key(name))

    def numbers(self, columns: Sequence[int | str]) -> NDArray[Any]:
        """Return columns, by name or position, as a matrix of numbers; name the first cell that is none."""
        positions = [self.column(one) if isinstance(one, str) else one for one in columns]
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
            found = self.cells.texts(position)
        except CellError as error:
            raise self.error(f"{self.place(error.row, error.column)} {error.problem}", code=error.code) from None
        if max(map(len, found), default=0) > LONGEST_TEXT:
            row = next(row for row, cell in enumerate(found) if len(cell) > LONGEST_TEXT)
            problem = f"has {len(found[row])} characters, more than {LONGEST_TEXT}"
            raise self.error(f"{self.place(row, position)} {problem}")
        return found

    def missing(self, columns: Sequence[int]) -> dict[int, tuple[int, str]]:
        """Return the rows with a missing value in one of the columns, and the first such cell of each."""
        found: dict[int, tuple[int, str]] = {}
        for column in columns:
            for row, cell in enumerate(self.cells.texts(column)):
                if absent(cell) is not None:
                    found.setdefault(row, (column, cell))
        return found

    def missing_error(self, columns: Sequence[int], advice: str = NUMBERS_MISSING) -> InputError:
        """Return an error that names the rows with a missing value: the first ten, and how many there are."""
        found = self.missing(columns)
        rows = sorted(found)
        first = [f"{self.place(row, found[row][0])} {absent(found[row][1])}" for row in rows[:MOST_LISTED]]
        many = f"; {len(rows)} rows lack a value" if len(rows) > 1 else ""
        return self.error(f"{'; '.join(first)}{many}; {advice}", param="skip_missing", code="missing")

    def take(self, rows: Sequence[int]) -> Table:
        """Return these rows only; they keep their places."""
        known = range(self.rows) if self.taken is None else self.taken
        return replace(self, cells=self.cells.take(rows), taken=tuple(known[row] for row in rows))

    def place(self, row: int, column: int | None = None) -> str:
        """Name a row as a spreadsheet counts it, and a column by its name: "line 7, column benign"."""
        row = row if self.taken is None else self.taken[row]
        where = f"row {row}" if self.first_line is None else f"line {self.first_line + row}"
        if column is None:
            return where
        return f"{where}, column {abbreviate(self.names[column]) if self.names and self.names[column] else column + 1}"

    def error(self, problem: str, *, param: str | None = None, code: str = "invalid") -> InputError:
        """Return an error that names this table."""
        return InputError(problem, param=param, code=code, where=self.source)

    def with_header(self) -> Table:
        """Take the first row as the header that it could be."""
        if self.below is None or self.first_line is None:
            return self
        return replace(self, cells=self.below, names=self.head, head=None, below=None, first_line=self.first_line + 1)

    @contextmanager
    def in_lines(self) -> Iterator[None]:
        """Name the line where a check names a row of what is checked, or of this table."""
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
    """Return the name that differs in capitals and marks only, or else holds the other or is held by it."""
    plain = {one: "".join(filter(str.isalnum, one.lower())) for one in (name, *names)}
    wanted = plain[name]
    same = [one for one in names if plain[one] == wanted]
    long = [one for one in names if min(len(wanted), len(plain[one])) > 2]
    return next(iter([*same, *(one for one in long if wanted in plain[one] or plain[one] in wanted)]), None)


def absent(cell: str) -> str | None:
    """Return the words for a missing value; None if the cell has a value."""
    if cell.lower() not in MISSING:
        return None
    return f"holds {abbreviate(cell)}, a missing value" if cell else "is empty"
