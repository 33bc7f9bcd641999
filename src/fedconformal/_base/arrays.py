"""Checks of arrays.

Each function takes anything with `__array__` (numpy, torch, lists), returns a numpy array and raises `InputError` with
the argument and the first bad row.
"""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.chunks import for_each_chunk
from fedconformal._base.names import abbreviate, name_key
from fedconformal.errors import InputError, SuspiciousInputWarning

SUM_TOLERANCE = 1e-3
ROUNDING = 1e-4
"""Rounding of float32 entries, times 1,000."""
QUICK_CLASSES = 4096
"""Up to this many classes a float32 sum is off by less than a quarter of the tolerance."""
ALPHA_UNIT = 10**15
"""alpha and promised coverage are whole multiples of 1e-15, so they compare as integers."""

Floats = NDArray[np.float64]
Probabilities = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


def as_array(values: ArrayLike, name: str) -> NDArray[Any]:
    """Turn anything array-like into a numeric numpy array, torch tensors included."""
    if hasattr(values, "detach"):  # a torch tensor, recognised without importing torch
        values = values.detach().cpu()
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"cannot be read as an array of numbers ({error})", where=name) from None
    if array.dtype.kind not in "fiub":
        raise InputError(f"holds {array.dtype}, not numbers", where=name)
    return array


def as_matrix(values: ArrayLike, name: str) -> Probabilities:
    """Check for a finite (rows, classes) matrix; float32 and float64 are kept as they are."""
    array = as_array(values, name)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"has shape {array.shape}, expected (rows, classes)", where=name)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    return array


def as_probabilities(values: ArrayLike, name: str = "probabilities") -> Probabilities:
    """Check that every row is a distribution; rows are never renormalised.

    Sums may be off as far as the rounding of entries to 1, 2 or 3 decimals implies.

    >>> as_probabilities([[1.0, -2.0], [3.0, -1.0]], "p")
    Traceback (most recent call last):
    fedconformal.errors.InputError: p: row 0 has the negative entry -2; if these are logits, take their softmax
    """
    array = as_matrix(values, name)
    for_each_chunk(array, lambda rows: check_distributions(array[rows], name, rows.start))
    return array


def check_distributions(array: Probabilities, name: str, start: int) -> None:
    """Refuse rows that are no distributions; `start` is the number of the first row.

    Sums in the precision of the input are far enough from the limit, or they are computed again in float64.
    """
    dtype = array.dtype if array.shape[1] < QUICK_CLASSES else np.float64
    with np.errstate(over="ignore", invalid="ignore"):
        sums = row_sums(array, dtype)
        if np.abs(sums - 1).max(initial=0) <= SUM_TOLERANCE / 2 and array.min(initial=0) >= 0:
            return
        sums = array.sum(axis=1, dtype=np.float64)
    negative = array.min(axis=1) < 0
    off = ~(np.abs(sums - 1) <= SUM_TOLERANCE) | negative
    if off.any() and (decimals := _decimals(array)):
        off &= ~(np.abs(sums - 1) < array.shape[1] * 0.5 * 10.0**-decimals - ROUNDING) | negative
        if not off.any():
            message = f"{name}: are rounded to {decimals} decimal{'s' * (decimals > 1)}, so that rows do not sum to 1"
            warnings.warn(f"{message}; they are taken as they are", SuspiciousInputWarning, stacklevel=2)
    if not off.any():
        return
    row = int(np.argmax(off))
    if not np.isfinite(array[row]).all():
        raise InputError("holds a value that is not finite (NaN or inf)", where=name, row=start + row)
    refuse_other_scales(array, name)
    least = array[row].min()
    problem = f"has the negative entry {least:.4g}" if least < 0 else f"sums to {sums[row]:.6g}, not 1"
    if array.min() < 0 and np.mean(np.abs(sums - 1) <= SUM_TOLERANCE) < 0.5:
        advice, code = "if these are logits, take their softmax", "logits"
    else:
        advice, code = "give whole distributions, one a row", "not-a-distribution"
    raise InputError(f"{problem}; {advice}", code=code, where=name, row=start + row)


def _decimals(array: Probabilities) -> int:
    """Return how many decimals all entries have, from 1 to 3; 0 if more, or if all are whole numbers."""
    exact = array.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        for decimals in range(4):
            scaled = exact * 10.0**decimals
            if np.abs(scaled - np.round(scaled)).max(initial=0) < ROUNDING:
                return decimals
    return 0


def refuse_other_scales(array: Probabilities, name: str) -> None:
    """Refuse percentages, and distributions beside a column that is no class."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums = array.sum(axis=1, dtype=np.float64)
        if array.min(initial=0) >= 0 and (np.abs(sums - 100) <= 1).all():
            raise InputError(
                "every row sums to 100: these are percentages; divide them by 100", code="percentages", where=name
            )
        if array.shape[1] < 3 or len(array) < 2:
            return
        others = (np.abs(sums[:, None] - array - 1) <= SUM_TOLERANCE).all(axis=0)
    negative = (array < 0).any(axis=0)
    for column in np.flatnonzero(others):
        if not np.delete(negative, column).any() and not (array[:, column] == 0).all():
            raise InputError(
                f"without column {column} every row is a distribution; leave it out if it is no class",
                param="classes",
                code="stray-column",
                where=name,
            )


def row_sums(matrix: NDArray[Any], dtype: Any = None) -> NDArray[Any]:
    """Sum along each row, in any order; several times faster than `sum`."""
    return np.asarray(np.einsum("ij->i", matrix, dtype=dtype))


def softmax(logits: ArrayLike, *, temperature: float = 1.0, name: str = "logits", sure: bool = False) -> Floats:
    """Turn logits into probabilities at a temperature, in float64; rows that look like probabilities are refused.

    Not if it is `sure` that they are logits: one row by itself may look like probabilities.

    >>> softmax([[0.0, 2.0]], temperature=2.0).round(3)
    array([[0.269, 0.731]])
    """
    array = as_matrix(logits, name)
    temperature = as_temperature(temperature)
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        raise InputError("holds a value that is not finite (NaN or inf)", where=name, row=int(np.argmin(finite)))
    if len(array) and not sure:
        refuse_other_scales(array, name)
    if len(array) and not sure and are_distributions(array):
        raise InputError(
            "every row is a distribution already; leave out softmax, or pass logarithms", code="not-logits", where=name
        )
    scaled = array.astype(np.float64, order="C")  # a sum depends on the order in memory, in its last bit
    with np.errstate(over="ignore"):  # a difference too large for a float is a probability of zero
        scaled -= scaled.max(axis=1, keepdims=True)
        scaled /= temperature
    np.exp(scaled, out=scaled)
    scaled /= scaled.sum(axis=1, keepdims=True)
    return scaled


def are_distributions(array: Probabilities) -> bool:
    """Whether all rows could be probabilities, which is by chance only where there are few rows.

    >>> are_distributions(np.array([[0.25, 0.75]])), are_distributions(np.array([[0.25, -0.75]]))
    (True, False)
    """
    if array.shape[1] == 1:  # one class: a column of ones says nothing
        return False
    with np.errstate(over="ignore"):
        sums = array.sum(axis=1, dtype=np.float64)
    return bool(array.min() >= 0 and (np.abs(sums - 1) <= SUM_TOLERANCE).all())


def one_a_row(array: NDArray[Any], rows: int, name: str) -> NDArray[Any]:
    """Check for one value a row, in a vector or in a matrix of one column."""
    if array.shape not in ((rows,), (rows, 1)):
        raise InputError(f"has shape {array.shape}, expected ({rows},) as there are {rows} rows", where=name)
    return array.reshape(rows)


def as_labels(values: ArrayLike, *, rows: int, classes: int, name: str = "labels") -> Integers:
    """Check for one whole class index a row, from 0 to classes - 1."""
    array = one_a_row(as_array(values, name), rows, name)
    if array.dtype.kind == "b":
        raise InputError("holds booleans, expected class indices", where=name)
    whole = array.dtype.kind != "f" or (array == np.floor(array)).all()
    if rows and not (whole and array.min() >= 0 and array.max() < classes):
        bad = ~((array >= 0) & (array < classes) & (array == np.floor(array)))
        row = int(np.argmax(bad))
        raise InputError(
            f"is {array[row]:g}, expected a whole class index from 0 to {classes - 1}", where=name, row=row
        )
    return array.astype(np.int64)


def as_scores(values: ArrayLike, name: str = "scores") -> Floats:
    """Check for a non-empty vector of finite scores; they may be negative or above one."""
    array = as_array(values, name)
    if array.ndim != 1:
        raise InputError(f"has shape {array.shape}, expected one score a row", where=name)
    if not len(array):
        raise InputError("is empty; a site needs at least one calibration row", where=name)
    with np.errstate(over="ignore"):
        array = array.astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        total = array.sum()  # which no score that is not finite leaves finite: one quick pass if all are
    if not math.isfinite(total) and not (finite := np.isfinite(array)).all():
        raise InputError(
            f"is {array[np.argmin(finite)]}, expected a finite score", where=name, row=int(np.argmin(finite))
        )
    return array + 0.0  # -0.0 becomes 0.0


def column_of(values: ArrayLike, name: str) -> NDArray[Any]:
    """Read ids or labels as numbers or text, whatever kind of column they come in; a missing one becomes NaN or "".

    >>> column_of(np.array(["a", None], dtype=object), "sites")
    array(['a', ''], dtype='<U1')
    """
    try:
        array = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
        if array.dtype.kind == "O" and array.ndim:  # text of pandas and Arrow, and numbers with missing ones
            plain = ["" if is_missing(value) else value for value in array.ravel().tolist()]
            array = np.array(plain).reshape(array.shape)
    except ValueError as error:
        raise InputError(f"cannot be read as one value a row ({error})", where=name) from None
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    return array.astype(np.str_) if array.dtype.kind == "T" else array


def is_missing(value: Any) -> bool:
    """Whether a value of a column says that there is none, as Python, numpy or pandas write it."""
    nan = isinstance(value, float | np.floating) and math.isnan(value)
    return nan or value is None or type(value).__name__ in {"NAType", "NaTType"}


def as_sites(values: ArrayLike, *, rows: int, name: str = "sites") -> NDArray[Any]:
    """Check for one site id a row, a number or a name, which is returned as it is compared."""
    array = column_of(values, name)
    if array.shape == (rows, 1):
        array = array[:, 0]
    if array.shape != (rows,) or array.dtype.kind not in "iufbU":
        header = "; leave out the header line" if array.shape[:1] == (rows + 1,) else ""
        raise InputError(f"expected {rows} ids, one a row, got {array.dtype} {array.shape}{header}", where=name)
    if array.dtype.kind == "U":
        spelled, index = np.unique(array, return_inverse=True)
        array = np.array([name_key(str(one)) for one in spelled], dtype=np.str_)[index]
    absent = np.isnan(array) if array.dtype.kind == "f" else array == "" if array.dtype.kind == "U" else None
    if absent is not None and absent.any():
        raise InputError("has no id; give every row one", where=name, row=int(np.argmax(absent)))
    return array


def named_sites(positions: NDArray[Any], names: NDArray[Any] | None) -> NDArray[Any]:
    """Turn a training run's positions of sites into names, where it has them.

    >>> named_sites(np.array([1, 0, 1]), np.array(["a", "b"])).tolist()
    ['b', 'a', 'b']
    """
    if names is None:
        return positions
    different = names.ndim == 1 and len({name_key(str(name)) for name in names}) == len(names)
    if not different or positions.dtype.kind not in "iu" or not np.isin(positions, np.arange(len(names))).all():
        raise InputError("names: expected a name for each site, each a different one")
    named: NDArray[Any] = names[positions]
    return named


def as_sizes(values: ArrayLike, name: str = "sizes") -> list[int]:
    """Check for one whole number of rows a site, each at least 1."""
    array = as_array(values, name)
    whole = (array >= 1) & (array < 2**53) & (array == np.floor(array))
    if array.ndim != 1 or not len(array) or not whole.all():
        raise InputError("expected one whole number of calibration rows a site, each at least 1", where=name)
    return [int(n) for n in array]


def rising(values: NDArray[Any]) -> bool:
    """Whether every value is above the one before; without differences, which could overflow."""
    return bool((values[1:] > values[:-1]).all())


def as_alpha(alpha: Any) -> Fraction:
    """Read alpha as the decimal that was typed, rounded down to 15 places.

    Floats are not decimals: (1 - 0.1) * 10 can round a rank up. Rounding alpha down is the safe side.

    >>> as_alpha(0.1)
    Fraction(1, 10)
    >>> as_alpha(0.30000000000000004)
    Fraction(3, 10)
    """
    try:
        # Through float: a Fraction of the text "1e-999999999" would never finish.
        exact = _rounded_down(alpha if isinstance(alpha, Fraction) else float(str(alpha)))
    except (ValueError, OverflowError):
        exact = Fraction(0)
    if not 0 < exact < 1:
        raise InputError(f"alpha is {abbreviate(alpha)}, expected a number between 0 and 1")
    return exact


@lru_cache(maxsize=1024, typed=True)  # 0.3 and the fraction of its bits are equal
def _rounded_down(alpha: Fraction | float) -> Fraction:
    """Round a fraction, or the decimal of a float, down to 15 places."""
    exact = alpha if isinstance(alpha, Fraction) else Fraction(repr(alpha))
    return Fraction(math.floor(exact * ALPHA_UNIT), ALPHA_UNIT)


def shares_of(alpha: Fraction, lower: Fraction) -> tuple[Fraction, Fraction]:
    """Part alpha between the lower and the upper end of an interval, each rounded down to 15 places.

    >>> shares_of(Fraction(1, 10), Fraction(1, 4))
    (Fraction(1, 40), Fraction(3, 40))
    """
    return as_alpha(alpha * lower), as_alpha(alpha - alpha * lower)


def as_temperature(temperature: Any) -> float:
    """Check for a positive, finite temperature."""
    try:
        number = isinstance(temperature, int | float | np.floating | np.integer) and not isinstance(temperature, bool)
        value = float(temperature) if number else math.nan
    except OverflowError:
        value = math.inf
    if not 0 < value < math.inf:
        raise InputError(f"temperature is {abbreviate(temperature)}, expected a positive number")
    return value
