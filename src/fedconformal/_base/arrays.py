"""Validation of arrays and numbers, and chunked processing of large arrays.

A check accepts any array-like, returns a numpy array and raises `InputError` with the first invalid row.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError, SuspiciousInputWarning

SUM_TOLERANCE = 1e-3
ROUNDING = 1e-4
"""Above the rounding error of float32 entries multiplied by 1,000."""
QUICK_CLASSES = 4096
"""Up to this number of classes the error of a float32 sum is below a quarter of the tolerance."""
LARGEST = 1.7976931348623157e308
ALPHA_UNIT = 10**15
"""Units per one: alpha and promised coverage are multiples of 1e-15, which compare as integers."""
CHUNK = 2**20
"""Entries of a chunk, which fits the cache; with smaller chunks, threads wait for each other."""
SHARE = 2
"""Minimum number of chunks per thread."""
MOST_THREADS = 4
"""Maximum number of threads; each has its own workspace, and more are limited by memory bandwidth."""
Floats = NDArray[np.float64]
Probabilities = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Keys = NDArray[np.uint64]
"""Floats as integers in the same order, for a digit-by-digit search."""
SIGN = np.uint64(1 << 63)


def as_array(values: ArrayLike, name: str) -> NDArray[Any]:
    """Convert an array-like, such as a list or a torch tensor, to a numeric numpy array."""
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
    """Validate the shape (rows, classes); float32 and float64 are kept, other types become float64."""
    array = as_array(values, name)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"has shape {array.shape}, expected (rows, classes)", where=name)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    return array


def as_probabilities(values: ArrayLike, name: str = "probabilities") -> Probabilities:
    """Validate that every row is a distribution, up to rounding of its entries; rows are never renormalised."""
    array = as_matrix(values, name)
    for_each_chunk(array, lambda rows: check_distributions(array[rows], name, rows.start))
    return array


def check_distributions(array: Probabilities, name: str, start: int) -> None:
    """Refuse rows that are not distributions; `start` is the number of the first row."""
    # Sums in the precision of the input decide only far from the limit; otherwise they are recomputed in float64.
    dtype = array.dtype if array.shape[1] < QUICK_CLASSES else np.float64
    with np.errstate(over="ignore", invalid="ignore"):
        sums = row_sums(array, dtype)
        near = sums.max(initial=1) <= 1 + SUM_TOLERANCE / 2 and sums.min(initial=1) >= 1 - SUM_TOLERANCE / 2
        if near and array.min(initial=0) >= 0:
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
        advice, code = "give one complete distribution per row", "not-a-distribution"
    raise InputError(f"{problem}; {advice}", code=code, where=name, row=start + row)


def _decimals(array: Probabilities) -> int:
    """Return the number of decimals of the entries, 1 to 3; 0 if there are more, or if all are whole numbers."""
    exact = array.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        for decimals in range(4):
            scaled = exact * 10.0**decimals
            if np.abs(scaled - np.round(scaled)).max(initial=0) < ROUNDING:
                return decimals
    return 0


def refuse_other_scales(array: Probabilities, name: str) -> None:
    """Refuse percentages, and matrices that are distributions without one column."""
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
    """Sum each row, in unspecified order; several times faster than `sum`."""
    return np.asarray(np.einsum("ij->i", matrix, dtype=dtype))


def softmax(logits: ArrayLike, *, temperature: float = 1.0, name: str = "logits", sure: bool = False) -> Floats:
    """Convert logits to probabilities at a temperature.

    Parameters
    ----------
    logits
        Array of shape (n, J).
    temperature
        Positive number that divides the logits.
    name
        Name of the logits in messages.
    sure
        Whether to accept rows that look like probabilities; otherwise they are refused.

    Returns
    -------
    ndarray of shape (n, J)
        Probabilities in float64.

    Examples
    --------
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
        if are_distributions(array):
            problem = "every row is a distribution already; leave out softmax, or pass logarithms"
            raise InputError(problem, code="not-logits", where=name)
    scaled = array.astype(np.float64, order="C")  # a sum depends on the order in memory, in its last bit
    with np.errstate(over="ignore"):  # a difference too large for a float is a probability of zero
        scaled -= scaled.max(axis=1, keepdims=True)
        scaled /= temperature
    np.exp(scaled, out=scaled)
    scaled /= scaled.sum(axis=1, keepdims=True)
    return scaled


def are_distributions(array: Probabilities) -> bool:
    """Whether all rows could be distributions; with few rows this may be a coincidence."""
    if array.shape[1] == 1:  # a column of ones is no evidence
        return False
    with np.errstate(over="ignore"):
        sums = array.sum(axis=1, dtype=np.float64)
    return bool(array.min() >= 0 and (np.abs(sums - 1) <= SUM_TOLERANCE).all())


def one_a_row(array: NDArray[Any], rows: int, name: str) -> NDArray[Any]:
    """Validate one value per row, in a vector or a single-column matrix."""
    if array.shape not in ((rows,), (rows, 1)):
        header = "; leave out the header line" if array.shape[:1] == (rows + 1,) else ""
        raise InputError(f"has shape {array.shape}, expected ({rows},) as there are {rows} rows{header}", where=name)
    return array.reshape(rows)


def as_labels(values: ArrayLike, *, rows: int, classes: int, name: str = "labels") -> Integers:
    """Validate one class index per row, from 0 to classes - 1."""
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
    """Validate a non-empty vector of finite scores, which may be negative or above one."""
    array = as_array(values, name)
    if array.ndim != 1:
        raise InputError(f"has shape {array.shape}, expected one score per row", where=name)
    if not len(array):
        raise InputError("is empty; a site needs at least one calibration row", where=name)
    return as_numbers(array, name) + 0.0  # -0.0 becomes 0.0


def as_numbers(array: NDArray[Any], name: str, start: int = 0) -> Floats:
    """Validate a vector of finite numbers; an error names the row, counted from `start`."""
    with np.errstate(over="ignore"):
        numbers = array.astype(np.float64, copy=False)
    finite = np.isfinite(numbers)
    if not finite.all():
        row = int(np.argmin(finite))
        raise InputError(f"is {numbers[row]}, expected a finite number", where=name, row=start + row)
    return numbers


def as_sizes(values: ArrayLike, name: str = "sizes") -> list[int]:
    """Validate one number of rows per site, each at least 1."""
    array = as_array(values, name)
    whole = (array >= 1) & (array < 2**53) & (array == np.floor(array))
    if array.ndim != 1 or not len(array) or not whole.all():
        raise InputError("expected one whole number of calibration rows per site, each at least 1", where=name)
    return [int(n) for n in array]


def rising(values: NDArray[Any]) -> bool:
    """Whether values are strictly increasing; compared without differences, which could overflow."""
    return bool((values[1:] > values[:-1]).all())


def as_alpha(alpha: Any) -> Fraction:
    """Convert alpha to the decimal as typed, since floats can round a rank up, and round down to 15 places."""
    exact = rounded_down(alpha)
    if not 0 < exact < 1:
        raise InputError(f"alpha is {abbreviate(alpha)}, expected a number between 0 and 1")
    return exact


def rounded_down(value: Any) -> Fraction:
    """Convert a value to a decimal rounded down to 15 places; 0 if it is not a number."""
    try:
        # Through float: a Fraction of the text "1e-999999999" would never finish.
        exact = value if isinstance(value, Fraction) else Fraction(repr(float(str(value))))
        return Fraction(math.floor(exact * ALPHA_UNIT), ALPHA_UNIT)
    except (ValueError, OverflowError):
        return Fraction(0)


def shares_of(alpha: Fraction, lower: Fraction) -> tuple[Fraction, Fraction]:
    """Split alpha between the lower and the upper end of an interval, each rounded down to 15 places."""
    return as_alpha(alpha * lower), as_alpha(alpha - alpha * lower)


def as_temperature(temperature: Any) -> float:
    """Validate a positive, finite temperature."""
    if not is_number(temperature) or not 0 < temperature <= LARGEST:
        raise InputError(f"temperature is {abbreviate(temperature)}, expected a positive number")
    return float(temperature)


def is_number(value: Any) -> bool:
    """Whether a value is a real number of Python or numpy, and not a boolean."""
    return isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)


def chunks(array: NDArray[Any], size: int, shares: int = 1) -> Iterator[slice]:
    """Split the rows of a matrix into slices of at most `size` entries, balanced over `shares` threads."""
    count = max(1, -(-len(array) // max(1, size // array.shape[1])))
    step = max(1, -(-len(array) // (-(-count // shares) * shares)))
    for start in range(0, len(array), step):
        yield slice(start, min(start + step, len(array)))


def for_each_chunk(array: NDArray[Any], work: Callable[[slice], None], *, size: int = CHUNK) -> None:
    """Call `work` with every slice of rows, on several threads; raise the error of the first invalid slice."""
    threads = max(1, min(cores(), MOST_THREADS, array.size // (SHARE * size)))
    if threads == 1:
        for rows in chunks(array, size):
            work(rows)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, chunks(array, size, threads)))  # the list cancels the rest after an error


def cores() -> int:
    """Return the number of processor cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keys_of(scores: Floats) -> Keys:
    """Convert scores to integer keys in the same order; -0.0 is 0.0.

    >>> keys_of(np.array([-1.0, 0.0, 1.0])).tolist() == sorted(keys_of(np.array([1.0, -1.0, -0.0])).tolist())
    True
    """
    # The bits of a positive double increase with its value: set the sign bit; invert all bits of a negative double.
    bits = (scores + 0.0).view(np.uint64)
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def scores_of(keys: Keys) -> Floats:
    """Convert keys back to scores."""
    return np.asarray(np.where(keys & SIGN, keys ^ SIGN, ~keys).view(np.float64) + 0.0)
