"""Columns with one value per row: site ids, and groups such as sex=F.

Each column assigns a row to one group, or to none if the value is missing. Two further groups are all rows, and the
rows in no other group.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.arrays import Integers, one_a_row
from fedconformal._base.names import abbreviate, as_name, check_name, escape_control, first_duplicate, name_key
from fedconformal.errors import InputError

Groups = Any
"""A mapping from names to columns, a frame, or a Series with a name; None or an empty text is a missing value."""
ALL, NONE = "all rows", "none of the others"
"""Names of the group of all rows and of the rows in no other group; only these two contain no =."""
ABSENT = "not given"
MISSING = ("nan", "NaN", "NaT", "<NA>")
"""Missing values as numpy and pandas print them."""
WHOLE = re.compile(r"-?[0-9]{1,20}\.0+")
"""A whole number written as a float."""
MOST_VALUES = 200
"""Maximum number of distinct values in a group column."""


def read_column(values: ArrayLike, name: str) -> NDArray[Any]:
    """Convert ids or labels of any column type to numbers or text; missing values become NaN or ""."""
    try:
        array = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
        if array.dtype.kind == "O" and array.ndim:  # text of pandas and Arrow, and numbers with missing values
            cells = array.ravel().tolist()
            present = np.array([cell for cell in cells if not is_missing(cell)])
            empty = math.nan if present.size and present.dtype.kind in "iuf" else ""
            array = np.array([empty if is_missing(cell) else cell for cell in cells]).reshape(array.shape)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"cannot be read as one value per row ({error})", where=name) from None
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    return array.astype(np.str_) if array.dtype.kind in "TMm" else array


def is_missing(value: Any) -> bool:
    """Whether a value is a missing value of Python, numpy or pandas."""
    nan = isinstance(value, float | np.floating) and math.isnan(value)
    return nan or value is None or type(value).__name__ in {"NAType", "NaTType"}


def as_column(values: ArrayLike, *, rows: int, name: str) -> NDArray[Any]:
    """Validate one number or text per row."""
    array = one_a_row(read_column(values, name), rows, name)
    if array.dtype.kind not in "iufbU":
        raise InputError(f"expected a text or a number per row, got {array.dtype}", where=name)
    return array


def as_sites(values: ArrayLike, *, rows: int, name: str = "sites") -> NDArray[Any]:
    """Validate one site id per row; numbers are kept, names are returned in normal form."""
    array = as_column(values, rows=rows, name=name)
    if array.dtype.kind == "U":
        spelled, index = np.unique(array, return_inverse=True)
        array = np.array([name_key(str(name)) for name in spelled], dtype=np.str_)[index]
    absent = np.isnan(array) if array.dtype.kind == "f" else array == "" if array.dtype.kind == "U" else None
    if absent is not None and absent.any():
        raise InputError("has no id; give every row one", where=name, row=int(np.argmax(absent)))
    return array


def named_sites(positions: NDArray[Any], names: NDArray[Any] | None) -> NDArray[Any]:
    """Map the site positions of a training run to site names, if there are names.

    >>> named_sites(np.array([1, 0, 1]), np.array(["a", "b"])).tolist()
    ['b', 'a', 'b']
    """
    if names is None:
        return positions
    different = names.ndim == 1 and first_duplicate(name_key(str(name)) for name in names) is None
    if not different or positions.dtype.kind not in "iu" or not np.isin(positions, np.arange(len(names))).all():
        raise InputError("names: expected a name for each site, each a different one")
    return np.asarray(names[positions])


def as_groups(values: ArrayLike, *, rows: int, name: str) -> NDArray[Any]:
    """Return one group per row, as numbers if all are numbers."""
    array = as_column(values, rows=rows, name=abbreviate(name))
    found = _distinct(array, name)
    if array.dtype.kind not in "iub" and not (array.dtype.kind == "f" and np.isfinite(array).all()):
        array = np.empty(rows, dtype=f"U{max((len(value) for value, _ in found), default=1)}")
        for value, mine in found:
            array[mine] = value
    return array


def group_rows(groups: Groups, *, rows: int) -> dict[str, Integers]:
    """Return the rows of each non-empty group, by name: all rows first, those in no other group last.

    >>> group_rows({"sex": ["F", "M", None, "F"], "age": [60.0, np.nan, np.nan, 70.0]}, rows=4)
    {'all rows': array([0, 1, 2, 3]), 'age=60': array([0]), 'age=70': array([3]),
     'sex=F': array([0, 3]), 'sex=M': array([1]), 'none of the others': array([2])}
    """
    found: dict[str, list[Integers]] = {}
    others = np.ones(rows, dtype=np.bool_)
    given = {name_key(name): values for name, values in group_columns(groups).items()}
    for column in columns_of(groups):
        missing = np.zeros(rows, dtype=np.bool_)
        for value, mine in _distinct(as_column(given[column], rows=rows, name=abbreviate(column)), column):
            if value == ABSENT:
                missing[mine] = True
            else:
                found.setdefault(check_name(f"{column}={value}", "group"), []).append(mine)
        others &= missing
    parts = {name: np.sort(np.concatenate(some)) for name, some in sorted(found.items())}
    rest = np.flatnonzero(others)
    return {ALL: np.arange(rows), **parts, **({NONE: rest} if len(rest) else {})}


def frame_columns(frame: Any) -> list[tuple[Any, Any]] | None:
    """Return names and columns of a mapping, or of a pandas, polars or Arrow frame; None for anything else."""
    if isinstance(frame, Mapping):
        return list(frame.items())
    if hasattr(frame, "column_names"):  # Arrow
        return list(zip(frame.column_names, frame.columns, strict=True))
    if hasattr(frame, "columns") and hasattr(frame, "to_numpy"):
        cells = getattr(frame, "iloc", frame)  # two columns may have one name
        return [(name, cells[:, j]) for j, name in enumerate(frame.columns)]
    return None


def group_columns(groups: Groups | None) -> dict[str, Any]:
    """Return the columns of a mapping, a frame or a Series by their names."""
    if groups is None:
        return {}
    if (columns := frame_columns(groups)) is not None:
        return {str(name): values for name, values in columns}
    if hasattr(groups, "to_numpy") and getattr(groups, "name", None):
        return {str(groups.name): groups}
    raise InputError(
        f'groups is {abbreviate(groups)}, expected a frame or columns by name, such as {{"sex": [...]}}', param="groups"
    )


def columns_of(groups: Groups) -> list[str]:
    """Check the names of the columns, and return them in order."""
    names = sorted(as_name(name, "the name of a column of groups") for name in group_columns(groups))
    if not names:
        raise InputError('groups has no columns, expected columns by name, such as {"sex": [...]}', param="groups")
    if odd := next((name for name in names if "=" in name), None):
        raise InputError(f"the column {abbreviate(odd)!r} has a = in its name; give it another one", where="groups")
    if first_duplicate(names) is not None:
        raise InputError("two columns have the same name", where="groups")
    return names


def column_of(group: str) -> str | None:
    """Return the column of a group such as sex=F; None for the groups without a column."""
    column, _, value = group.partition("=")
    return column if value else None


def _distinct(array: NDArray[Any], name: str) -> list[tuple[str, Integers]]:
    """Return the distinct values as names of groups, and the rows of each."""
    if array.dtype.kind == "U":
        index: dict[str, int] = {}
        codes = np.array([index.setdefault(text, len(index)) for text in array.tolist()], dtype=np.int64)
        values: list[Any] = list(index)
    else:
        unique, codes = np.unique(array, return_inverse=True)
        # Through text, so that float32 0.1 becomes the decimal 0.1.
        values = [float(str(value)) if unique.dtype.kind == "f" else value.item() for value in unique]
    if len(values) > MOST_VALUES:
        raise InputError(
            f"has {len(values)} different values, more than {MOST_VALUES}; give ranges, such as 60-69",
            where=abbreviate(name),
        )
    return [(_name(value), np.flatnonzero(codes == k)) for k, value in enumerate(values)]


def _name(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():  # integers are stored as floats beside missing values
        value = int(value)
    text = "" if str(value) in MISSING else name_key(str(value))
    if WHOLE.fullmatch(text):  # or as text beside a text
        text = str(int(text.partition(".")[0]))
    return escape_control(text) or ABSENT
