"""From a table to rows for a model's classes: which columns are probabilities, of which class, in which order.

Names decide, and exact ones: without `classes`, every column that has no other use is a class by its own name. With
`classes`, columns are chosen and ordered by them; prob_benign is found for benign if every class has its column by the
same pattern. Whatever was found is in the one line `recognised`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Probabilities
from fedconformal._base.names import abbreviate, join_names, name_key
from fedconformal.errors import InputError
from fedconformal.tables.classes import as_class_names, found_columns, match_columns, positions_of, spellings
from fedconformal.tables.table import Table, absent, twice


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """What a model says of each row: (n, J) probabilities or logits, ids, labels as positions, other columns as text.

    Of a regressor, `values` are its predictions, `labels` the true numbers, and there are no classes.

    `classes` are the names of the columns, or None if they have none; `table` knows the line of each row.
    """

    table: Table
    values: Probabilities
    classes: tuple[str, ...] | None
    recognised: str
    id_column: str | None = None
    ids: list[str] | None = None
    labels: NDArray[Any] | None = None
    others: dict[str, list[str]] = field(default_factory=dict)

    @property
    def truth(self) -> NDArray[Any]:
        """The label of each row as the library takes it: a name where classes have names."""
        labels = np.asarray(self.labels)
        return labels if self.classes is None else np.array(self.classes)[labels]

    def matched(self, wanted: Sequence[str] | int) -> Predictions:
        """Put the columns into the order of these classes; see `match_columns`."""
        try:
            order, said = match_columns(self.classes if self.classes is not None else self.values.shape[1], wanted)
        except InputError as error:
            raise error.at(self.table.source) from None
        classes = self.classes if isinstance(wanted, int) else tuple(map(name_key, wanted))
        back = np.argsort(order)
        return replace(
            self,
            values=self.values if order == sorted(order) else np.ascontiguousarray(self.values[:, order]),
            classes=classes,
            labels=self.labels if self.labels is None else back[self.labels],
            recognised="; ".join(filter(None, [self.recognised, said])),
        )


def probabilities_of(
    table: Table,
    *,
    ids: str | None = None,
    labels: str | None = None,
    classes: Sequence[str] | None = None,
    drop: Collection[str] = (),
    keep: Collection[str] = (),
    positive: str | None = None,
) -> Predictions:
    """Find the columns with a probability for each class, in a table that may hold ids, labels and more.

    `classes` chooses columns by name, in this order, and names those of a table without a header. `keep` are columns
    to return beside, `drop` are columns to leave out. With `positive`, the one column of probabilities is that of this
    class, and that of the other class is 1 - p, rounded once.

    >>> from fedconformal.tables import table_of
    >>> scans = table_of({"id": ["a", "b"], "malignant": [0.1, 0.6], "truth": ["benign", "malignant"]}, name="scans")
    >>> found = probabilities_of(scans, ids="id", labels="truth", positive="malignant")
    >>> found.classes, found.values.tolist(), found.labels.tolist()
    (('benign', 'malignant'), [[0.9, 0.1], [0.4, 0.6]], [0, 1])
    """
    if table.head == ("0",):
        raise table.error("line 1 is 0, which could be a header or a row; write a name there, or 0.0 if it is a row")
    table = table.with_header()  # a first line of text only is no row of probabilities
    if not table.rows:
        raise table.error("has no rows" if table.first_line is None else "is empty but for its header")
    asked = [name for name in (ids, labels, *drop, *keep) if name is not None]
    aside = [table.column(name) for name in asked]
    same = twice(map(name_key, asked))
    if same is not None:
        raise table.error(f"the column {abbreviate(same)} has two uses; give each use a column of its own")
    rest = [j for j in table.columns if j not in aside]
    wanted = None if classes is None else as_class_names(classes)
    said: list[str] = []
    if positive is None:
        chosen, named = _class_columns(table, rest, wanted, said)
        values = _matrix(table, chosen, sure=wanted is not None)
        if len(chosen) == 1:
            whole = (values == np.round(values)).all()  # then they may be labels
            if not whole and not 0 <= values.min() <= values.max() <= 1:
                raise table.error(
                    "has one column of numbers that are no probabilities; if a regressor predicts them, take a score "
                    "of numbers (docs/tables.md)",
                    param="score",
                )
            raise table.error("has one column of probabilities; say which class is the positive one", param="positive")
    else:
        values, named = _two_columns(table, rest, wanted, name_key(positive), labels, said)
    names = table.texts(ids) if ids is not None else None
    if ids is not None:
        said.append(f"ids from {abbreviate(ids)}")
    elif table.row_names is not None and not table.counted:
        names = table.texts(table.row_names)
        said.append("row names are ids")
    found = None
    if labels is not None:
        found, note = positions_of(table, table.column(labels), named, values.shape[1])
        said += [f"labels from {abbreviate(labels)}", note]
    return Predictions(
        table=table,
        values=values,
        classes=named,
        recognised="; ".join(filter(None, [table.recognised, *said])),
        id_column=None if ids is None else name_key(ids),
        ids=filled(table, names, ids),
        labels=found,
        others={name_key(name): table.texts(name) for name in keep},
    )


def _class_columns(
    table: Table, rest: list[int], wanted: tuple[str, ...] | None, said: list[str]
) -> tuple[list[int], tuple[str, ...] | None]:
    """Choose the columns of the classes, and name them."""
    if not rest:
        raise table.error("has no column of probabilities left")
    names = [table.names[j] for j in rest] if table.names is not None else None
    if names is None or names == [str(k) for k in range(len(names))]:
        if wanted is not None and len(wanted) != len(rest):
            raise table.error(f"has {len(rest)} columns without names, and there are {len(wanted)} classes")
        said.append(
            f"{len(rest)} classes without names" if wanted is None else f"classes {join_names(wanted)}, in this order"
        )
        return rest, wanted
    try:
        named = as_class_names(names) if wanted is None else wanted
        order, pattern = found_columns(names, named)
    except InputError as error:
        raise error.at(table.source) from None
    said.append(pattern or f"classes {join_names(named)}")
    unused = set(range(len(names))) - set(order)
    if unused:
        said.append(f"not used: {join_names([names[k] for k in sorted(unused)])}")
    return [rest[k] for k in order], named


def _two_columns(
    table: Table, rest: list[int], wanted: tuple[str, ...] | None, positive: str, labels: str | None, said: list[str]
) -> tuple[Probabilities, tuple[str, ...]]:
    """Make two columns from the one of a binary model."""
    named = [j for j in rest if table.names is not None and table.names[j] == positive]
    if len(rest) != 1 and (
        len(named) != 1 or wanted is None or set(wanted) & {(table.names or ())[j] for j in rest} != {positive}
    ):
        raise table.error(
            f"a positive class needs one column of probabilities, and there are {len(rest)}; leave the others out",
            param="drop",
        )
    column = rest[0] if len(rest) == 1 else named[0]
    both = wanted
    if both is None:
        there = spellings(table, labels) if labels is not None else set()
        if len(there - {positive}) != 1:
            raise table.error(
                f"the class beside {abbreviate(positive)} has no name; give the names of both classes", param="classes"
            )
        both = (*(there - {positive}), positive)
    if len(both) != 2 or positive not in both:
        raise table.error(f"the classes {join_names(both)} are not {abbreviate(positive)} and one other")
    p = _matrix(table, [column])[:, 0].astype(np.float64)
    outside = ~((p >= 0) & (p <= 1))
    if outside.any():
        row = int(np.argmax(outside))
        raise table.error(f"{table.place(row, column)} is {p[row]:g}, expected a probability from 0 to 1")
    negative = next(name for name in both if name != positive)
    title = table.place(0, column).split(", ", 1)[1]
    said.append(f"{title} is the probability of {abbreviate(positive)}, and 1 - p that of {abbreviate(negative)}")
    other = 1.0 - p
    values = np.column_stack([other, p] if both[1] == positive else [p, other])
    unused = [(table.names or ())[j] for j in rest if j != column]
    if unused:
        said.append(f"not used: {join_names(unused)}")
    return values, both


def _matrix(table: Table, columns: list[int], *, sure: bool = True) -> Any:
    """Read the numbers; a column that is only here as it has no other use may be none."""
    try:
        values = table.numbers(columns)
    except InputError as error:
        if sure or table.names is None or error.code != "not-a-number":
            raise
        advice = "if the column is no class, use it for ids or labels, or leave it out"
        raise table.error(f"{error.problem}; {advice}", param="drop", code=error.code) from None
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def filled(table: Table, ids: list[str] | None, name: str | None) -> list[str] | None:
    """Refuse an id that is missing."""
    row = next((row for row, cell in enumerate(ids or ()) if absent(cell)), None)
    if ids is not None and row is not None:
        column = table.column(name) if name is not None else table.row_names
        raise table.error(f"{table.place(row, column)} {absent(ids[row])}; give every row an id")
    return ids
