"""Base classes of the scores: checked parameters and inputs, bounded memory, sets from a threshold."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import (
    CHUNK,
    Booleans,
    Floats,
    Integers,
    Probabilities,
    as_labels,
    as_matrix,
    check_distributions,
    for_each_chunk,
    row_sums,
)
from fedconformal._base.names import abbreviate
from fedconformal._base.registry import Plugin
from fedconformal.errors import InputError

NAME = "probabilities"

Rule = Callable[[Probabilities, Booleans], None]
"""Writes the sets of a chunk of checked rows into its second argument."""


@dataclass(frozen=True, kw_only=True)
class AnyScore(Plugin):
    """Nonconformity of a prediction, for labels or numbers; low scores conform.

    Examples
    --------
    >>> from fedconformal import CQR, LAC
    >>> isinstance(LAC(), AnyScore), CQR().to_dict()
    (True, {'name': 'cqr'})
    """

    noun: ClassVar[str] = "score"
    lower_share: ClassVar[Fraction | None] = None
    """The share of alpha that a lower end of its own may miss; None if low scores conform, however low."""

    def _check(self, name: str, kind: type, least: float, most: float) -> None:
        """Check a parameter of kind bool, int or float from least to most, and convert it."""
        value, words = getattr(self, name), {bool: "True or False", int: "a whole number", float: "a number"}[kind]
        kinds: Any = (int, float) if kind is float else kind
        fits = isinstance(value, kinds) and isinstance(value, bool) == (kind is bool)
        if not fits or not least <= value <= most:
            limits = "" if kind is bool else f" from {least} to {most}"
            raise InputError(f"{name} is {abbreviate(value)}, expected {words}{limits}", param=name)
        object.__setattr__(self, name, kind(value))


@dataclass(frozen=True, kw_only=True)
class Score(AnyScore):
    """Nonconformity score of a label, given a row of probabilities; low scores conform.

    A score is a fixed function of (probabilities, label). Calibration and prediction evaluate the same
    function to the last bit; a difference in one bit would break ties the wrong way and lose coverage.
    """

    top_first: ClassVar[bool] = False
    """Whether no label scores lower than the most probable one; then a set that is not empty holds it."""
    chunk: ClassVar[int] = CHUNK
    """Number of probabilities in a chunk."""

    @property
    def rank_price(self) -> float:
        """Penalty per rank: scores above 1 cluster at its multiples."""
        return 1.0

    @abstractmethod
    def of_labels(self, probs: Probabilities, labels: Integers) -> Floats:
        """Score one label a row, for a chunk of checked rows."""

    @abstractmethod
    def of_all(self, probs: Probabilities) -> Floats:
        """Score every label of a chunk of checked rows, equal to `of_labels` bit for bit."""

    def rule(self, limit: Floats) -> Rule:
        """Return what turns a chunk of checked rows into sets; scores with a faster way have their own."""

        def fill(probs: Probabilities, sets: Booleans) -> None:
            np.less_equal(self.of_all(probs), limit, out=sets)

        return fill

    def largest(self, classes: int) -> float:
        """Return what no label scores more than, in rows of this many classes that add up to one; +inf if not known.

        At a threshold of this every label is in the set. Rows may add up to a little more, within the tolerance that
        is checked, and then a label may score as much more.
        """
        return math.inf

    def evaluate(self, probs: ArrayLike, labels: ArrayLike) -> Floats:
        """Score these labels: (n, J) probabilities and (n,) labels give (n,) scores."""
        matrix = as_matrix(probs, NAME)
        wanted = as_labels(labels, rows=len(matrix), classes=matrix.shape[1])
        out = np.empty(len(matrix))

        def work(rows: slice) -> None:
            out[rows] = self.of_labels(_checked(matrix, rows), wanted[rows])

        for_each_chunk(matrix, work, size=self.chunk)
        return out

    def evaluate_all(self, probs: ArrayLike) -> Floats:
        """Score every label: (n, J) probabilities give (n, J) scores."""
        matrix = as_matrix(probs, NAME)
        out = np.empty(matrix.shape)

        def work(rows: slice) -> None:
            out[rows] = self.of_all(_checked(matrix, rows))

        for_each_chunk(matrix, work, size=self.chunk)
        return out

    def predict_set(self, probs: ArrayLike, threshold: ArrayLike, *, allow_empty: bool = False) -> Booleans:
        """Return (n, J) booleans: the labels that score at most the threshold.

        The threshold is one number, +inf included, or one a class. With `allow_empty=False` the most
        probable label is always in, which can only raise coverage.
        """
        matrix = as_matrix(probs, NAME)
        try:
            limit = np.asarray(threshold, dtype=np.float64)
        except (ValueError, TypeError):
            limit = np.array(np.nan)
        if limit.shape not in ((), (matrix.shape[1],)) or np.isnan(limit).any():
            raise InputError(f"threshold: expected a number or one for each of {matrix.shape[1]} classes, no NaN")
        return self.sets_of(matrix, limit, allow_empty=allow_empty)

    def sets_of(self, matrix: Probabilities, limit: Floats, *, allow_empty: bool) -> Booleans:
        """Do the same for a matrix and a limit whose shapes are checked; rows are checked here."""
        sets, fill = np.empty(matrix.shape, dtype=np.bool_), self.rule(limit)
        holds_top, words = self.top_first and not limit.ndim, f"i{math.gcd(matrix.shape[1], 8)}"

        def work(rows: slice) -> None:
            chunk, found = _checked(matrix, rows), sets[rows]
            fill(chunk, found)
            if not allow_empty:  # a sum of words may overflow to 0, which does no harm: the top label is set again
                without = np.flatnonzero(row_sums(found.view(words)) == 0) if holds_top else np.arange(len(found))
                found[without, chunk[without].argmax(axis=1)] = True

        for_each_chunk(matrix, work, size=self.chunk)
        return sets


def _checked(matrix: Probabilities, rows: slice) -> Probabilities:
    """Check a chunk while it is in the cache, and return it."""
    check_distributions(matrix[rows], NAME, rows.start)
    return matrix[rows]


def of_own_label(probs: Probabilities, labels: Integers) -> Probabilities:
    """Return the probability of one label a row; from the flattened matrix, which is faster than by two indices."""
    return probs.reshape(-1).take(np.arange(0, probs.size, probs.shape[1]) + labels)
