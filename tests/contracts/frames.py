"""Tables and columns as users have them: objects like those of pandas, and pandas and polars where there are any."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa


class Column:
    """A column of pandas: an array of objects, with an index of its own."""

    def __init__(self, values: Sequence[Any]) -> None:
        """Keep the values."""
        self._values = np.array(values, dtype=object)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Be read by numpy."""
        return self._values.astype(dtype) if dtype else self._values


class Frame:
    """A table of pandas: names, numbers, and rows by position only through `iloc`."""

    def __init__(self, names: Sequence[Any], values: Any) -> None:
        """Keep the columns."""
        self.columns = np.array(names, dtype=object)
        self.iloc = _Rows(self.columns, values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Be read by numpy."""
        return np.asarray(self.iloc.values, dtype=dtype)


class _Rows:
    def __init__(self, names: Any, values: Any) -> None:
        self.names, self.values = names, np.asarray(values)

    def __getitem__(self, rows: Any) -> Frame:
        return Frame(self.names, self.values[rows])


def arrow_table(names: Sequence[Any], values: Any) -> Any:
    """Return a table of Arrow."""
    return pa.table([pa.array(column) for column in np.asarray(values).T], names=[str(name) for name in names])


SERIES: dict[str, Callable[[Any], Any]] = {"list": list, "column": Column, "arrow": pa.array}
FRAMES: dict[str, Callable[[Any, Any], Any]] = {"columns": Frame, "arrow": arrow_table}

if importlib.util.find_spec("pandas"):
    pandas: Any = importlib.import_module("pandas")
    SERIES["pandas"] = lambda values: pandas.Series(values, index=range(7, 7 + len(values)))
    SERIES["categorical"] = lambda values: pandas.Series(values).astype("category")
    FRAMES["pandas"] = lambda names, values: pandas.DataFrame(values, columns=list(names))
if importlib.util.find_spec("polars"):
    polars: Any = importlib.import_module("polars")
    SERIES["polars"] = polars.Series
    FRAMES["polars"] = lambda names, values: polars.DataFrame(np.asarray(values), schema=list(names))
