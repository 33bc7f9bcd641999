"""Joins of two tables of the same rows: by ids if both have ids, otherwise by position."""

from __future__ import annotations

from fedconformal._base.names import abbreviate, join_names, name_key, plural
from fedconformal.tables.predictions import Predictions
from fedconformal.tables.table import Table


def pair(
    found: Predictions, table: Table, *, ids: str | None = None, labels: str | None = None, skip_missing: bool = False
) -> Predictions:
    """Add the truth of every row from another table, joined by ids or by position.

    `ids` is the id column of that table, by default the name used by the predictions; `labels` is the column of the
    truth, by default the only other column. With `skip_missing`, rows without truth are dropped.

    >>> from fedconformal.tables import probabilities_of, table_of
    >>> probs = probabilities_of(table_of({"id": ["p", "q"], "a": [0.5, 0.1], "b": [0.5, 0.9]}, name="probs"), ids="id")
    >>> rows = pair(probs, table_of({"id": ["q", "p"], "label": ["b", "a"]}, name="labels"))
    >>> rows.labels.tolist(), rows.recognised.split("; ")[-1]
    ([0, 1], 'joined by id, as the rows are in another order')
    """
    table, column, order, how = _align(found, table, ids, labels, "true numbers" if found.numeric else "labels")
    how = f"{table.recognised}; {how}"
    if order is not None:
        table = table.take(order)
    if skip_missing and (missing := table.missing([column], found.classes)):
        complete = [row for row in range(table.rows) if row not in missing]
        found = found.take(complete, tuple(table.place(row, column) for row in sorted(missing)))
        table = table.take(complete)
    return found.with_truth(table, column, how)


def aligned_column(
    found: Predictions, table: Table, *, ids: str | None = None, column: str | None = None
) -> tuple[list[str], str]:
    """Return a text column of another table, such as sites, in the order of the predictions, and a note.

    >>> from fedconformal.tables import probabilities_of, table_of
    >>> probs = probabilities_of(table_of([[0.5, 0.5], [0.1, 0.9]], name="probs"))
    >>> aligned_column(probs, table_of(["clinic-a", "clinic-b"], name="sites"))[0]
    ['clinic-a', 'clinic-b']
    """
    table, position, order, how = _align(found, table, ids, column, "values")
    how = f"{table.recognised}; {how}"
    table = table if order is None else table.take(order)
    texts = table.texts(position)
    if "" in texts:
        raise table.error(f"{table.place(texts.index(''), position)} is empty; give every row a value")
    return texts, how


def _align(
    found: Predictions, table: Table, ids: str | None, wanted: str | None, what: str
) -> tuple[Table, int, list[int] | None, str]:
    """Return the table with its header resolved, the wanted column, the order of the rows, and a note on the join."""
    table = _headed(found, table, ids, wanted)
    if found.id_column is None and ids is not None:
        raise found.table.error(f"has no ids, and {table.source} has; name its column of ids too")
    name = ids if ids is not None else found.id_column
    has_ids = name is not None and (ids is not None or name_key(name) in (table.names or ()))
    column_of_ids = table.column(name) if name is not None and has_ids else None
    rest = [j for j in table.columns if j != column_of_ids]
    if len(rest) > 1 and table.names is None:
        several = len(rest) == found.values.shape[1] > 2
        looks = "; it looks like several labels a row, which is not covered (docs/tables.md)" if several else ""
        raise table.error(f"has {len(rest)} columns without names{looks or '; write their names above'}")
    if found.id_column is not None and column_of_ids is None and len(rest) > 1:
        raise table.error(
            f"has no column {abbreviate(found.id_column)}; name its column of ids, or leave only the {what}"
        )
    if wanted is None and len(rest) != 1:
        named, param = join_names([(table.names or ())[j] for j in rest]), "column" if what == "values" else "labels"
        raise table.error(f"has {len(rest)} columns {named}; name the one with the {what}", param=param)
    column = rest[0] if wanted is None else table.column(wanted)
    all_rows = found.table.rows + len(found.skipped)  # the other table may have the skipped rows too
    if table.rows not in (found.table.rows, all_rows):
        raise table.error(f"has {plural(table.rows, 'row')}, and {found.table.source} has {all_rows}")
    return table, column, *_order(found, table, column_of_ids)


def _headed(found: Predictions, table: Table, ids: str | None, wanted: str | None) -> Table:
    """Resolve an ambiguous line 1: a header if it has the requested names, or if there is one row too many."""
    if table.head is None or (ids, wanted) != (None, None) or found.id_column in table.head:
        return table.with_header()
    headed = table.with_header()
    values = {name_key(cell) for j in table.columns for cell in headed.texts(j)} | set(found.classes or ())
    is_name = table.head == ("0",) or not values & set(table.head)
    return headed if is_name and table.rows != found.table.rows else table


def _order(found: Predictions, table: Table, column: int | None) -> tuple[list[int] | None, str]:
    """Return the row of each prediction, or None if all rows are in the same order; and a note."""
    same = None if table.rows == found.table.rows else list(found.table.taken or ())
    if column is not None and found.ids is not None:
        mine, theirs, what = found.ids, table.texts(column), f"by {abbreviate(found.id_column)}"
    elif table.row_names is not None and found.table.row_names is not None and found.id_column is None:
        mine, theirs, what = found.table.texts(found.table.row_names), table.texts(table.row_names), "by row names"
    elif table.row_names is not None and not table.counted and found.ids is not None:
        mine, theirs, what = found.ids, table.texts(table.row_names), "by row names"
    else:
        return same, "paired by the order of rows"
    there = theirs if same is None else [theirs[row] for row in same]
    if mine == there:
        return same, f"paired {what}, in the same order"
    if found.id_column is None and all(name.isdecimal() for name in (*mine, *theirs)):
        row = next(row for row, pair in enumerate(zip(mine, there, strict=True)) if pair[0] != pair[1])
        where = table.place(same[row] if same else row)
        raise table.error(
            f"{where} has the row number {there[row]}, and {found.table.source} has {mine[row]} there; "
            "name the column if it is an id, or save both without row numbers if the rows are in one order",
            param="ids",
        )
    row_of = _positions(theirs, table)
    _positions(mine, found.table)
    missing = next((row for row, name in enumerate(mine) if name not in row_of), None)
    if missing is not None:
        raise found.table.error(
            f"{found.table.place(missing)} has the id {abbreviate(mine[missing])}, which {table.source} does not have"
        )
    return [row_of[name] for name in mine], f"joined {what}, as the rows are in another order"


def _positions(ids: list[str], table: Table) -> dict[str, int]:
    row_of: dict[str, int] = {}
    for row, name in enumerate(ids):
        if row_of.setdefault(name, row) != row:
            raise table.error(
                f"{table.place(row)} has the id {abbreviate(name)}, as {table.place(row_of[name])} has; ids must differ"
            )
    return row_of
