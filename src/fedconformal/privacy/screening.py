"""Which sites' scores are far from the rest: something to ask about, never a reason to drop a site.

The distance is Kolmogorov's, between a site's distribution of scores and the median over all sites, score by score,
which less than half of them cannot move far. Sites that are naturally different look as liars do, and leaving one out
because of its scores voids the promise; so sites are flagged, and everything is computed with them all the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from fedconformal.errors import InputError
from fedconformal.summaries.batch import check_together
from fedconformal.summaries.summary import Summary

POINTS = 512
"""Distributions are compared at this many scores."""

CHANCE = 0.01
"""If all sites are alike, the chance that one is flagged is about this."""

FAR = 3
"""Times the median distance beyond noise."""


class Screened(msgspec.Struct, frozen=True, kw_only=True):
    """How far a site's scores are from the rest, how much of that may be noise, and whether it is worth a question."""

    site: str
    distance: float
    noise: float
    flagged: bool


def screen(summaries: Sequence[Summary]) -> list[Screened]:
    """Compare every site's scores with the median over the sites.

    >>> from fedconformal import Summary
    >>> honest = [Summary.of_scores([i / 50 for i in range(50)], site=f"site-{k}") for k in range(6)]
    >>> for found in screen([*honest, Summary.of_scores([0.0] * 50, site="zero")]):
    ...     if found.flagged:
    ...         print(found.site, round(found.distance, 2))
    zero 0.98
    """
    summaries = list(summaries)
    check_together(summaries)
    if len(summaries) < 3 or any(len(summary.sizes) > 1 for summary in summaries):
        raise InputError("screening needs the summaries of three sites or more, none of them pooled")
    values = np.unique(np.concatenate([summary.points for summary in summaries]))
    q = values[np.unique(np.linspace(0, len(values) - 1, POINTS).astype(np.int64))]
    shares = np.stack([summary.bounds(q)[0] / summary.n for summary in summaries])
    distances = np.abs(shares - np.median(shares, axis=0)).max(axis=1)
    # Dvoretzky, Kiefer and Wolfowitz, for all sites together; then what the summaries leave open.
    spread = math.sqrt(math.log(2 * len(summaries) / CHANCE) / 2)
    noise = np.array([spread / math.sqrt(summary.n) + summary.gap / summary.n for summary in summaries])
    usual = float(np.median(np.maximum(0, distances - noise)))
    return [
        Screened(
            site=summary.sites[0] if summary.sites else f"#{k + 1}",
            distance=float(distances[k]),
            noise=float(noise[k]),
            flagged=bool(distances[k] > noise[k] + FAR * usual),
        )
        for k, summary in enumerate(summaries)
    ]
