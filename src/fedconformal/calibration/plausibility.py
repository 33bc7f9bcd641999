"""Warnings about input that is valid and probably a mistake."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np

from fedconformal._base.names import join_names
from fedconformal.errors import SuspiciousInputWarning
from fedconformal.scores import Score
from fedconformal.summaries import SummaryBatch
from fedconformal.summaries.provenance import combine_provenances, number_of

MOST_SITES = 1_000
"""More sites are not compared with each other."""

TOLERANCE = 1e-6
"""Rounding of probabilities to float32."""

LEAST_VALUES = 10
"""Number of different scores from which on two sites with the same ones are suspicious."""


def warn_of_alpha(alpha: Fraction) -> None:
    """Warn of an alpha that was probably meant as the coverage."""
    if alpha > Fraction(1, 2):
        _warn(
            f"alpha is {float(alpha):g}, the share of rows whose sets may miss the truth; "
            f"did you mean {float(1 - alpha):g}?"
        )


def warn_of_summaries(batch: SummaryBatch) -> None:
    """Warn of sites with the same scores, and of sites whose labels contradict the model."""
    if len(batch) > MOST_SITES:
        return
    values, rises = batch.points()
    ends = np.cumsum(batch.lengths())[:-1]
    parts = list(zip(np.split(values, ends), np.split(rises, ends), strict=True))
    names = [join_names(some) if some else f"number {i + 1}" for i, some in enumerate(batch.sites)]
    seen: dict[bytes, str] = {}
    for (points, counts), name in zip(parts, names, strict=True):
        first = seen.setdefault(points.tobytes() + counts.tobytes(), name)
        if first is not name and len(np.unique(points)) >= LEAST_VALUES:
            _warn(f"the sites {first} and {name} have the same scores; are they the same rows under two names?")
    provenance = combine_provenances(batch.provenances)
    if not isinstance(provenance.score, Score) or provenance.classes is None:
        return
    classes = number_of(provenance.classes)
    guess = provenance.score.of_guess(classes) + TOLERANCE
    for (points, counts), name, sizes, gap in zip(parts, names, batch.sizes, batch.gaps, strict=True):
        n, likely = sum(sizes), int(counts[points <= guess].sum()) + gap
        if likely < n / 2 - math.sqrt(n):
            _warn(
                f"at site {name} the model gives the true label less probability than a guess, {1 / classes:.2g}, in "
                f"at least {n - likely} of {n} rows; are its classes or its rows in another order?"
            )


def _warn(message: str) -> None:
    warnings.warn(message, SuspiciousInputWarning, stacklevel=4)
