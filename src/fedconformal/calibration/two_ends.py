"""Calibrate both ends of an interval, each with a share of alpha of its own.

The upper end is the smallest q that promises its share. The lower end is minus what the same guarantee gives on the
scores times -1: for a mixture, the largest q with sum lambda_k (u_k(q) + 1) / (n_k + 1) <= its share, where u_k(q) is
an upper bound on the number of scores below q. A value that misses the interval misses an end, so the two shares add
up to alpha.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from fedconformal._base.arrays import shares_of
from fedconformal.calibration.certificate import LowerEnd
from fedconformal.calibration.curve import USUAL_ALPHAS, EndCurves
from fedconformal.calibration.result import are_sure, band_of, coverage_of
from fedconformal.calibration.search import Search
from fedconformal.guarantees import Guarantee
from fedconformal.summaries.summary import Summary


def two_ends(
    summaries: Sequence[Summary], alpha: Fraction, bound: Guarantee, share: Fraction
) -> tuple[dict[str, Any], Callable[[], EndCurves]]:
    """Search for both ends, for the certificate and for the promise curve; `share` of alpha is the lower one's."""
    sizes, gaps = [n for summary in summaries for n in summary.sizes], [summary.gap for summary in summaries]
    missed, each, sure = shares_of(alpha, share), bound.bind((), sizes, "end"), are_sure(summaries)
    searches = [Search([-summary for summary in summaries], each, sizes), Search(summaries, each, sizes)]
    found = [search.smallest(part) for search, part in zip(searches, missed, strict=True)]
    lower, upper = [
        band_of(each, part, threshold, sizes, gaps, sure=sure) for part, threshold in zip(missed, found, strict=True)
    ]
    covers = [coverage_of(each, part, q, sizes, gaps, sure=sure) for part, q in zip(missed, found, strict=True)]
    least, most = (max(Fraction(0), sum(column) - 1) for column in zip(*covers, strict=True))
    lower["threshold"] = "-inf" if found[0] == math.inf else 0.0 - found[0]
    upper |= {
        "slack": lower["slack"] + upper["slack"],
        "coverage_at_least": float(least),
        "coverage_at_most": float(most),
    }
    upper["target"] = str(each.band(missed[0], sizes).least + each.band(missed[1], sizes).least - 1)
    upper["lower"] = LowerEnd(alpha=float(missed[0]), **lower)

    def curves() -> EndCurves:
        usual = sorted({part for one in USUAL_ALPHAS for part in (one, *shares_of(one, share))})
        levels = sorted({*usual, *(1 - one for one in USUAL_ALPHAS)})  # of the predictive distribution
        return EndCurves(searches[0].curve(missed[0], usual), searches[1].curve(missed[1], levels), share)

    return upper, curves
