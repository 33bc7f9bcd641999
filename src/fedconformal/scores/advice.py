"""Which score would help where most sets hold every label, as measured on 2 to 100 classes: docs/scores.md.

LAC has the smallest sets on most data. Where sets are full, the model rules too many true labels out. With two classes
LAC still leaves more out than the others; with many classes most labels tie near zero, and only the price that RAPS
puts on a rank tells them apart. For what was not measured there is no advice.
"""

from __future__ import annotations

from fedconformal.scores.aps import APS
from fedconformal.scores.lac import LAC
from fedconformal.scores.raps import RAPS
from fedconformal.scores.score import Score

RANGES = (2, 10, 100)
"""Up to how many classes a column of the table below goes."""
LESS = "the score lac gives smaller sets"
RANKS = "the score raps, randomised, gives smaller sets"
HELPS = {
    "lac": ("", "", RANKS),
    "aps": (LESS, RANKS, RANKS),
    "aps, randomised": (LESS, RANKS, RANKS),
    "raps": (LESS, LESS, ""),
    "raps, randomised": (LESS, "", ""),
}
"""What has smaller sets on most problems of `benchmarks/synthetic_scores.py` where a score's are mostly full; "" if
none has, or if there are too few such problems. A test compares this with the results."""


def smaller_sets(score: Score, classes: int | None) -> str:
    """Say which score has smaller sets, if most sets of this one hold every label; "" if none is known.

    >>> print(smaller_sets(RAPS(), 2))
    the score lac gives smaller sets on most problems of this kind, and so does a randomised raps (docs/scores.md);
    choose it before new calibration rows are scored
    >>> smaller_sets(LAC(), 2)
    ''
    """
    name = measured_as(score)
    if name not in HELPS or classes is None or not RANGES[0] <= classes <= RANGES[-1]:
        return ""
    helps = HELPS[name][next(k for k, most in enumerate(RANGES) if classes <= most)]
    if not helps:
        return ""
    also = f", and so does a randomised {name}" if helps == LESS and name in (APS.name, RAPS.name) else ""
    # A choice that calibration rows made would void the promise on the same rows.
    condition = "choose it before new calibration rows are scored"
    return f"{helps} on most problems of this kind{also} (docs/scores.md); {condition}"


def before(score: Score, classes: int | None = None) -> str:
    """Say what is known of a score before any row is there: which one has smaller sets, and what two labels do to it.

    >>> before(LAC())
    'score lac: no score that was measured has smaller sets on most data (docs/scores.md)'
    >>> print(before(APS(), 2).partition(";")[0])
    score aps: with 2 labels the second label of every row has one and the same score, so if the model is wrong in more
    than alpha of the calibration rows, nearly every set holds both
    """
    name = measured_as(score)
    if name == LAC.name:
        return f"score {name}: no score that was measured has smaller sets on most data (docs/scores.md)"
    parts = [f"{LESS} on most data" if name in HELPS else "how large its sets are was not measured"]
    if name in (APS.name, RAPS.name) and classes == RANGES[0]:
        parts.insert(
            0,
            "with 2 labels the second label of every row has one and the same score, so if the model is wrong in more "
            "than alpha of the calibration rows, nearly every set holds both",
        )
    return f"score {name or score.name}: {'; '.join(parts)} (docs/scores.md)"


def measured_as(score: Score) -> str:
    """Return the name that a score has in the table; "" if it was not measured.

    >>> measured_as(APS(randomized=True))
    'aps, randomised'
    """
    if type(score) not in (LAC, APS, RAPS):
        return ""
    return f"{score.name}, randomised" if isinstance(score, APS) and score.randomized else score.name
