"""Base classes of scores: validated parameters and inputs, bounded memory, prediction sets from a threshold."""

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
"""Writes the sets of a chunk of validated rows into its second argument."""


@dataclass(frozen=True, kw_only=True)
class AnyScore(Plugin):
    """Base class of nonconformity scores of labels or numbers; low scores conform.

    Examples
    --------
    >>> from fedconformal import CQR, LAC
    >>> isinstance(LAC(), AnyScore), CQR().to_dict()
    (True, {'name': 'cqr'})
    """

    noun: ClassVar[str] = "score"
    lower_share: ClassVar[Fraction | None] = None
    """Share of alpha of the lower end of a two-sided score; None if all low scores conform."""

    def _check(self, name: str, kind: type, least: float, most: float) -> None:
        """Validate and convert a parameter of type bool, int or float, from least to most."""
        value, words = getattr(self, name), {bool: "True or False", int: "a whole number", float: "a number"}[kind]
        kinds: Any = (int, float) if kind is float else kind
        fits = isinstance(value, kinds) and isinstance(value, bool) == (kind is bool)
        if not fits or not least <= value <= most:
            limits = "" if kind is bool else f" from {least} to {most}"
            raise InputError(f"{name} is {abbreviate(value)}, expected {words}{limits}", param=name)
        object.__setattr__(self, name, kind(value))


@dataclass(frozen=True, kw_only=True)
class Score(AnyScore):
    """Base class of nonconformity scores of a label, given a row of probabilities; low scores conform.

    A score is a fixed function of (probabilities, label). Calibration and prediction must compute it identically: a
    difference in the last bit would break ties and lose coverage. A subclass defines `name`, `of_labels` and `of_all`.

    Examples
    --------
    >>> from fedconformal import LAC
    >>> isinstance(LAC(), Score), LAC().to_dict()
    (True, {'name': 'lac'})
    """

    top_first: ClassVar[bool] = False
    """Whether the most probable label has the lowest score, so that every non-empty set contains it."""
    chunk: ClassVar[int] = CHUNK
    """Number of probabilities in a chunk."""

    @property
    def rank_price(self) -> float:
        """Penalty per rank: scores above 1 cluster at its multiples."""
        return 1.0

    @abstractmethod
    def of_labels(self, probs: Probabilities, labels: Integers) -> Floats:
        """Score one label per row, for a chunk of validated rows."""

    @abstractmethod
    def of_all(self, probs: Probabilities) -> Floats:
        """Score every label of a chunk of validated rows, equal to `of_labels` bit for bit."""

    def rule(self, limit: Floats) -> Rule:
        """Return the function that computes the sets of a chunk of validated rows; overridden where faster."""

        def fill(probs: Probabilities, sets: Booleans) -> None:
            np.less_equal(self.of_all(probs), limit, out=sets)

        return fill

    def largest(self, classes: int) -> float:
        """Return an upper bound on the score, for rows of this many classes with the sum one; +inf if unknown."""
        return math.inf

    def evaluate(self, probs: ArrayLike, labels: ArrayLike) -> Floats:
        """Return the (n,) scores of (n,) labels, given (n, J) probabilities."""
        matrix = as_matrix(probs, NAME)
        wanted = as_labels(labels, rows=len(matrix), classes=matrix.shape[1])
        out = np.empty(len(matrix))

        def work(rows: slice) -> None:
            out[rows] = self.of_labels(_checked(matrix, rows), wanted[rows])

        for_each_chunk(matrix, work, size=self.chunk)
        return out

    def evaluate_all(self, probs: ArrayLike) -> Floats:
        """Return the (n, J) scores of all labels, given (n, J) probabilities."""
        matrix = as_matrix(probs, NAME)
        out = np.empty(matrix.shape)

        def work(rows: slice) -> None:
            out[rows] = self.of_all(_checked(matrix, rows))

        for_each_chunk(matrix, work, size=self.chunk)
        return out

    def predict_set(self, probs: ArrayLike, threshold: ArrayLike, *, allow_empty: bool = False) -> Booleans:
        """Return (n, J) booleans: the labels that score at most the threshold.

        The threshold is a number, which may be +inf, or one per class. Unless `allow_empty`, the most probable label is
        always included, which can only raise coverage.
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
        """Return the sets for arrays of validated shape; rows are validated here."""
        sets, fill = np.empty(matrix.shape, dtype=np.bool_), self.rule(limit)
        holds_top, words = self.top_first and not limit.ndim, f"i{math.gcd(matrix.shape[1], 8)}"

        def work(rows: slice) -> None:
            chunk, part = _checked(matrix, rows), sets[rows]
            fill(chunk, part)
            if not allow_empty:  # a sum of words that overflows to 0 is harmless: the top label is set again
                without = np.flatnonzero(row_sums(part.view(words)) == 0) if holds_top else np.arange(len(part))
                if len(without):
                    part[without, chunk[without].argmax(axis=1)] = True

        for_each_chunk(matrix, work, size=self.chunk)
        return sets


def _checked(matrix: Probabilities, rows: slice) -> Probabilities:
    """Validate a chunk while it is in the cache, and return it."""
    check_distributions(matrix[rows], NAME, rows.start)
    return matrix[rows]


def of_own_label(probs: Probabilities, labels: Integers) -> Probabilities:
    """Return the probability of one label per row; a flat index is faster than two indices."""
    return probs.reshape(-1).take(np.arange(0, probs.size, probs.shape[1]) + labels)
