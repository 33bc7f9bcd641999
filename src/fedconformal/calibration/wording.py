"""The sentences that every certificate has, whatever its guarantee."""

from __future__ import annotations

CONDITIONS = (
    "The promise is for an alpha fixed beforehand. It says nothing of sites "
    "that sent no summary or were left out. The upper end holds for distinct scores and sets that may be empty; "
    "forcing the top label in keeps the lower end only."
)

INTERVAL_CONDITIONS = (
    "The promise is for an alpha fixed beforehand. It says nothing of sites that sent no summary or were left out. "
    "The largest coverage stated holds for distinct scores, but for the rounding of ends outward."
)
DISTRIBUTION_CONDITIONS = " The predictive distribution holds for each level fixed beforehand, not for all at once."

OF_INTERVALS = (
    ("class or set size", "group or width"),
    ("make the sets larger", "make the intervals wider"),
    ("put every label into every set", "make every interval the whole line"),
)
"""What guarantees say of sets, and what that means for intervals."""


def of_intervals(text: str) -> str:
    """Say of intervals what a guarantee says of sets.

    >>> of_intervals("This is not a promise to a single site, class or set size.")
    'This is not a promise to a single site, group or width.'
    """
    for sets, intervals in OF_INTERVALS:
        text = text.replace(sets, intervals)
    return text
