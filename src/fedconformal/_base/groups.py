"""Groups of rows by the values of columns, such as sex=F.

A row is in one group of each column, or in none where it has no value. All rows are a group too, and so are those in
no other group.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.arrays import Integers
from fedconformal._base.names import abbreviate, as_name, check_name, escape_control, name_key
from fedconformal.errors import InputError

Groups = Any
"""A mapping from names to columns, a frame, or a Series with a name; None or an empty text is a missing value."""
ALL, NONE = "all rows", "none of the others"
"""The two groups that are always there; their names are not those of a column and a value."""
ABSENT = "not given"
MISSING = ("nan", "NaN", "NaT", "<NA>")
"""Missing values as numpy and pandas print them."""
WHOLE = re.compile(r"-?[0-9]{1,20}\.0+")
"""How a whole number reads if it was a float when it became a text."""
MOST_VALUES = 200
"""Maximum number of distinct values in a group column."""


def as_groups(values: ArrayLike, *, rows: int, name: str) -> NDArray[Any]:
    """Return one group a row, as numbers if all are numbers.

    >>> as_groups(["f", "m", None, " f"], rows=4, name="sex").tolist()
    ['f', 'm', 'not given', 'f']
    """
    array = _one_a_row(values, rows=rows, name=name)
    found = _distinct(array, name)
    if array.dtype.kind not in "iub" and not (array.dtype.kind == "f" and np.isfinite(array).all()):
        array = np.empty(rows, dtype=f"U{max((len(_name(value)) for value, _ in found), default=1)}")
        for value, mine in found:
            array[mine] = _name(value)
    return array


def members(groups: Groups, *, rows: int) -> dict[str, Integers]:
    """Return which rows are in each group that has any, by its name: all rows first, those in no other group last.

    >>> members({"sex": ["F", "M", None, "F"], "age": [60.0, np.nan, np.nan, 70.0]}, rows=4)
    {'all rows': array([0, 1, 2, 3]), 'age=60': array([0]), 'age=70': array([3]),
     'sex=F': array([0, 3]), 'sex=M': array([1]), 'none of the others': array([2])}
    """
    found: dict[str, list[Integers]] = {}
    others = np.ones(rows, dtype=np.bool_)
    given = {name_key(name): values for name, values in group_columns(groups).items()}
    for column in columns_of(groups):
        missing = np.zeros(rows, dtype=np.bool_)
        for value, mine in _distinct(_one_a_row(given[column], rows=rows, name=column), column):
            if (text := _name(value)) == ABSENT:
                missing[mine] = True
            else:
                found.setdefault(check_name(f"{column}={text}", "group"), []).append(mine)
        others &= missing
    parts = {name: np.sort(np.concatenate(some)) if some[1:] else some[0] for name, some in sorted(found.items())}
    rest = np.flatnonzero(others)
    return {ALL: np.arange(rows), **parts, **({NONE: rest} if len(rest) else {})}


def group_columns(groups: Groups | None) -> dict[str, Any]:
    """Return the columns of a mapping, a frame of pandas, polars or Arrow, or a Series by their names.

    >>> group_columns({"sex": ["F", "M"]})
    {'sex': ['F', 'M']}
    """
    if groups is None:
        return {}
    if isinstance(groups, Mapping):
        return {str(name): values for name, values in groups.items()}
    names = getattr(groups, "column_names", getattr(groups, "columns", None))
    if names is not None and hasattr(groups, "__getitem__"):
        return {str(name): groups[name] for name in names}
    if hasattr(groups, "to_numpy") and getattr(groups, "name", None):
        return {str(groups.name): groups}
    raise InputError(
        f'groups is {abbreviate(groups)}, expected a frame or columns by name, such as {{"sex": [...]}}', param="groups"
    )


def columns_of(groups: Groups) -> list[str]:
    """Check the names of the columns, and return them in order.

    >>> columns_of({"sex": [], " age": []})
    ['age', 'sex']
    """
    names = sorted(as_name(name, "the name of a column of groups") for name in group_columns(groups))
    if not names:
        raise InputError('groups has no columns, expected columns by name, such as {"sex": [...]}', param="groups")
    if odd := next((name for name in names if "=" in name), None):
        raise InputError(f"the column {abbreviate(odd)!r} has a = in its name; give it another one", where="groups")
    if len(set(names)) < len(names):
        raise InputError("two columns have the same name", where="groups")
    return names


def column_of(group: str) -> str | None:
    """Return the column of a group, if it is one of a column and a value.

    >>> column_of("age=60-69"), column_of(ALL)
    ('age', None)
    """
    column, _, value = group.partition("=")
    return column if value else None


def _one_a_row(values: ArrayLike, *, rows: int, name: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"cannot be read as one value a row ({error})", where=abbreviate(name)) from None
    if array.shape == (rows, 1):
        array = array[:, 0]
    if array.shape != (rows,):
        raise InputError(
            f"expected {rows} values, one a row, got an array of shape {array.shape}", where=abbreviate(name)
        )
    if array.dtype.kind not in "iubfU":  # such as the objects of a table with missing values
        named = lru_cache(maxsize=None, typed=True)(_name)  # of a million rows a few values
        try:
            array = np.array(list(map(named, array.tolist())), dtype=np.str_)
        except TypeError:
            raise InputError(
                "expected a text or a number a row, got lists or the like", where=abbreviate(name)
            ) from None
    return array


def _distinct(array: NDArray[Any], name: str) -> list[tuple[Any, Integers]]:
    """Return the distinct values and the rows of each."""
    if array.dtype.kind == "U":
        index: dict[str, int] = {}
        codes = np.array([index.setdefault(text, len(index)) for text in array.tolist()], dtype=np.int64)
        values: list[Any] = list(index)
    else:
        unique, codes = np.unique(array, return_inverse=True)
        # The decimal that was typed: 0.1 in float32 is the number nearest to it.
        values = [float(str(one)) if unique.dtype.kind == "f" else one.item() for one in unique]
    if len(values) > MOST_VALUES:
        raise InputError(
            f"has {len(values)} different values, more than {MOST_VALUES}; give ranges, such as 60-69",
            where=abbreviate(name),
        )
    return [(value, np.flatnonzero(codes == k)) for k, value in enumerate(values)]


def _name(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():  # whole numbers are floats where some are missing
        value = int(value)
    if value is None or str(value) in MISSING:
        return ABSENT
    text = name_key(str(value))
    if WHOLE.fullmatch(text):  # and these are texts where another row has one: a row's group may not hang on others
        text = str(int(text.partition(".")[0]))
    return escape_control(text) or ABSENT
