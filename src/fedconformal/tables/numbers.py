"""From a table to rows for a regressor: which columns are its predictions, and which is the true number.

Names decide: a score says what its columns are called, such as lower and upper, and `columns` names others in their
place. A table without names needs exactly as many columns. Whatever was found is in the one line `recognised`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedconformal._base.arrays import Floats
from fedconformal._base.names import abbreviate, join_names, name_key
from fedconformal.tables.pairing import aligned
from fedconformal.tables.predictions import Predictions, filled
from fedconformal.tables.table import Table, twice


def numbers_of(
    table: Table,
    wanted: Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    ids: str | None = None,
    y: str | None = None,
    drop: Collection[str] = (),
    keep: Collection[str] = (),
) -> Predictions:
    """Find the columns of a regressor's predictions, in a table that may hold ids, the true number and more.

    `columns` are other names for the `wanted` ones, in the same order. `keep` are columns to return beside.

    >>> from fedconformal.tables import table_of
    >>> visits = table_of({"id": ["a", "b"], "lower": [1.0, 2.0], "upper": [3.0, 5.0], "y": [2.5, 1.0]}, name="visits")
    >>> found = numbers_of(visits, ("lower", "upper"), ids="id", y="y")
    >>> found.values.tolist(), found.truth.tolist(), found.ids
    ([[1.0, 3.0], [2.0, 5.0]], [2.5, 1.0], ['a', 'b'])
    """
    named = wanted if columns is None else columns
    if len(named) != len(wanted):
        raise table.error(
            f"{len(named)} columns are named, {join_names(named)}; the score needs {' and '.join(wanted)}"
        )
    if table.head is not None and (columns is not None or {*map(name_key, named)} & {*table.head}):
        table = table.with_header()
    if not table.rows:
        raise table.error("has no rows" if table.first_line is None else "is empty but for its header")
    asked = [name for name in (ids, y, *drop, *keep) if name is not None]
    same = twice(map(name_key, [*asked, *(named if table.names is not None else ())]))
    if same is not None:
        raise table.error(f"the column {abbreviate(same)} has two uses; give each use a column of its own")
    aside = [table.column(name) for name in asked]
    rest = [j for j in table.columns if j not in aside]
    if table.names is None:
        if columns is not None or len(rest) != len(wanted):
            problem = f"has {len(rest)} columns without names, and the score needs {' and '.join(wanted)}"
            raise table.error(f"{problem}; write their names above")
        chosen = rest
    else:
        if absent := [name for name in named if name_key(name) not in table.names]:
            there = join_names([table.names[j] for j in rest])
            raise table.error(
                f"has no column {abbreviate(absent[0])}; there are {there}; name the columns of {_and(wanted)}",
                param="predictions",
            )
        chosen = [table.column(name) for name in named]
    said = [f"{_and(wanted)} from {join_names(named)}" if table.names is not None else f"{_and(wanted)} in this order"]
    names = None if ids is None else table.texts(ids)
    if ids is not None:
        said.append(f"ids from {abbreviate(ids)}")
    elif table.row_names is not None and not table.counted:
        names = table.texts(table.row_names)
        said.append("row names are ids")
    if y is not None:
        said.append(f"true numbers from {abbreviate(y)}")
    if unused := [j for j in rest if j not in chosen and table.names is not None]:
        said.append(f"not used: {join_names([(table.names or ())[j] for j in unused])}")
    return Predictions(
        table=table,
        values=_floats(table, chosen),
        classes=None,
        recognised="; ".join([table.recognised, *said]),
        id_column=None if ids is None else name_key(ids),
        ids=filled(table, names, ids),
        labels=None if y is None else _floats(table, [table.column(y)])[:, 0],
        others={name_key(name): table.texts(name) for name in keep},
    )


def pair_numbers(found: Predictions, table: Table, *, y: str | None = None) -> Predictions:
    """Give every row its true number from another table; the rows are in the same order, or joined by their ids.

    >>> from fedconformal.tables import table_of
    >>> found = numbers_of(table_of([1.0, 2.0], name="predictions"), ("prediction",))
    >>> pair_numbers(found, table_of([1.5, 2.5], name="y")).truth.tolist()
    [1.5, 2.5]
    """
    table, column, order, how = aligned(found, table, None, y, "true numbers")
    values = _floats(table, [column])[:, 0]
    said = f"{found.recognised}; {table.recognised}; {how}"
    return replace(found, labels=values if order is None else values[order], recognised=said)


def _floats(table: Table, columns: list[int]) -> Floats:
    """Read finite numbers; one that is not is named by its line."""
    values = table.numbers(columns).astype(np.float64)
    finite = np.isfinite(values)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise table.error(
            f"{table.place(int(row), columns[column])} is {values[row, column]}, expected a finite number"
        )
    return values


def _and(names: Any) -> str:
    return " and ".join(names)
