"""Labels of a table: names where classes have names, else positions from 0."""

from __future__ import annotations

import numpy as np

from fedconformal._base.arrays import Integers, as_labels
from fedconformal._base.names import abbreviate, join_names, name_key
from fedconformal.errors import InputError
from fedconformal.tables.table import Table, absent
from fedconformal.tables.text import is_number


def positions_of(table: Table, column: int, classes: tuple[str, ...] | None, count: int) -> tuple[Integers, str]:
    """Return the position of each label among the classes, and a note; raise at the first row without one."""
    if classes is None:
        return _numbered(table, column, count)
    cells = table.texts(column)
    known = {name: at for at, name in enumerate(classes)}
    found = {cell: known.get(name_key(cell)) for cell in dict.fromkeys(cells)}
    wrong = next((cell for cell, at in found.items() if at is None), None)
    if wrong is not None:
        if absent(wrong) is not None:
            raise table.missing_error([column], "give every row a label")
        within = any(name_key(wrong) in name for name in classes)  # such as benign in prob_benign
        problem = f"{table.place(cells.index(wrong), column)} {_unknown(wrong, classes)}"
        raise table.error(problem, param="classes" if within else None)
    return np.array([found[cell] for cell in cells], dtype=np.int64), ""


def _numbered(table: Table, column: int, count: int) -> tuple[Integers, str]:
    """Read positions; of two classes without names, False is the first and True the second."""
    problem, values = None, np.empty(0, dtype=np.bool_)
    try:
        values = table.numbers([column])[:, 0]
    except InputError as error:
        problem = error
    if problem is None and values.dtype.kind != "b":
        with table.in_lines():
            return as_labels(values, rows=table.rows, classes=count, name=table.source), ""
    cells = table.texts(column)
    spelled = [name_key(cell).lower() for cell in cells]
    if count == 2 and set(spelled) <= {"false", "true"}:
        return np.array([cell == "true" for cell in spelled], dtype=np.int64), "False is class 0 and True is class 1"
    if problem is not None and all(map(is_number, cells)):
        raise problem
    row = next(row for row, cell in enumerate(cells) if not is_number(cell))
    if absent(cells[row]) is not None:
        raise table.missing_error([column], "give every row a label")
    there = f"holds {abbreviate(repr(cells[row]))}, and the {count} classes have no names; give the columns their names"
    raise table.error(f"{table.place(row, column)} {there}", param="classes")


def _unknown(cell: str, classes: tuple[str, ...]) -> str:
    if is_number(cell) and not any(map(is_number, classes)):
        return f"holds {abbreviate(cell)}, and the classes have the names {join_names(classes)}; write these names"
    return f"holds {abbreviate(repr(cell))}, which is none of the classes {join_names(classes)}"
