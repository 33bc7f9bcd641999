"""Every site is covered as promised at its own threshold, and no longer if its rank is one lower."""

from __future__ import annotations

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Floats

ALPHA = 0.1
SIZES = (9, 19, 49)
"""(1 - alpha)(n + 1) is whole, so that the promise is exact."""
DRAWS = 4000


def coverage(lowered: int = 0) -> tuple[Floats, Floats]:
    """Return each site's mean coverage of uniform scores, and four standard errors of it.

    Sites differ in scale, and share a common factor that makes their rows depend on each other.
    """
    rng = np.random.default_rng(31)
    found = np.empty((DRAWS, len(SIZES)))
    for draw in range(DRAWS):
        common = rng.uniform(0.5, 2)
        scales = common * np.array([1.0, 5.0, 0.1])
        scores = [np.sort(rng.random(n) * scale) for n, scale in zip(SIZES, scales, strict=True)]
        result = fc.calibrate(
            [fc.Summary.of_scores(one, kind="exact", site=f"s{k}", score=fc.LAC()) for k, one in enumerate(scores)],
            alpha=ALPHA,
            guarantee=fc.EverySite(),
            exact=True,
        )
        for k, (one, scale) in enumerate(zip(scores, scales, strict=True)):
            place = int(np.searchsorted(one, result.certificate.thresholds[f"s{k}"])) - lowered
            found[draw, k] = one[place] / scale
    return found.mean(axis=0), 4 * found.std(axis=0) / np.sqrt(DRAWS)


@pytest.mark.long
def test_every_site_is_covered() -> None:
    mean, tolerance = coverage()
    assert (np.abs(mean - (1 - ALPHA)) <= tolerance).all()
    lower, tolerance = coverage(lowered=1)
    assert (lower + tolerance < 1 - ALPHA).all()
