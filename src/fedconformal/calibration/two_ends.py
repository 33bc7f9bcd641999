"""Calibrate both ends of an interval, each with a share of alpha of its own.

The upper end is the smallest q that promises its share. The lower end is minus what the same guarantee gives on the
scores times -1: for a mixture, the largest q with sum lambda_k (u_k(q) + 1) / (n_k + 1) <= its share, where u_k(q) is
an upper bound on the number of scores below q. A value that misses the interval misses an end, so the two shares add
up to alpha.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from fedconformal._base.arrays import shares_of
from fedconformal.calibration.certificate import LowerEnd
from fedconformal.calibration.curve import USUAL_ALPHAS, EndCurves
from fedconformal.calibration.result import (
    Calibration,
    are_sure,
    band_of,
    certificate_of,
    coverage_of,
    warn_of_too_few,
)
from fedconformal.calibration.search import Search
from fedconformal.evaluation.full import lacks_ends
from fedconformal.guarantees import Guarantee
from fedconformal.guarantees.planning import shortfall
from fedconformal.summaries.summary import Summary


def two_ends(
    summaries: Sequence[Summary],
    alpha: Fraction,
    guarantee: Guarantee,
    bound: Guarantee,
    names: Sequence[str],
    share: Fraction,
) -> Calibration:
    """Search for both ends; `share` of alpha is the lower one's."""
    sizes, gaps = [n for summary in summaries for n in summary.sizes], [summary.gap for summary in summaries]
    missed, each, sure = shares_of(alpha, share), bound.of_one_end(), are_sure(summaries)
    searches = [Search([summary.mirrored() for summary in summaries], each, sizes), Search(summaries, each, sizes)]
    found = [search.smallest(part) for search, part in zip(searches, missed, strict=True)]
    lower, upper = [
        band_of(each, part, threshold, sizes, gaps, sure=sure) for part, threshold in zip(missed, found, strict=True)
    ]
    if so := lacks_ends(found):
        dearest = min(part for part, threshold in zip(missed, found, strict=True) if threshold == math.inf)
        warn_of_too_few(alpha, shortfall(each, dearest, sizes, names), so=so, stacklevel=5)
    covers = [coverage_of(each, part, q, sizes, gaps, sure=sure) for part, q in zip(missed, found, strict=True)]
    least, most = (max(Fraction(0), sum(column) - 1) for column in zip(*covers, strict=True))
    lower["threshold"] = "-inf" if found[0] == math.inf else 0.0 - found[0]
    upper |= {
        "slack": lower["slack"] + upper["slack"],
        "coverage_at_least": float(least),
        "coverage_at_most": float(most),
    }
    certificate = certificate_of(
        summaries,
        alpha,
        guarantee,
        target=str(each.at_least(missed[0], sizes) + each.at_least(missed[1], sizes) - 1),
        lower=LowerEnd(alpha=float(missed[0]), **lower),
        **upper,
    )

    def curves() -> EndCurves:
        usual = sorted({part for one in USUAL_ALPHAS for part in (one, *shares_of(one, share))})
        levels = sorted({*usual, *(1 - one for one in USUAL_ALPHAS)})  # of the predictive distribution
        return EndCurves(searches[0].curve(missed[0], usual), searches[1].curve(missed[1], levels), share)

    return Calibration(certificate, curves)
