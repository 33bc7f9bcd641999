"""Promises to single sites: each at its own threshold, and one whatever the others send.

A site is no longer covered if its rank is one lower. The others copy its scores, send only huge or only tiny ones, or
hide theirs just below and above its own; coverage stays exactly r / (n_k + 1).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Floats
from tests.validity.simulation import calibrator, mean

ALPHA = 0.1
SIZES = (9, 19, 49)
"""(1 - alpha)(n + 1) is whole, so that the promise is exact."""
DRAWS = 600


def coverages() -> tuple[Floats, Floats]:
    """Draw the coverage of uniform scores at each site, and that of a rank one lower.

    Sites differ in scale, and share a common factor that makes their rows depend on each other.
    """
    rng = np.random.default_rng(31)
    found, lower = np.empty((2, DRAWS, len(SIZES)))
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
            place = int(np.searchsorted(one, result.certificate.thresholds[f"s{k}"]))
            found[draw, k], lower[draw, k] = one[place] / scale, one[place - 1] / scale
    return found, lower


@pytest.mark.long
def test_every_site_is_covered() -> None:
    found, lower = coverages()
    assert (np.abs(found.mean(axis=0) - (1 - ALPHA)) <= 4 * found.std(axis=0) / np.sqrt(DRAWS)).all()
    assert (lower.mean(axis=0) + 4 * lower.std(axis=0) / np.sqrt(DRAWS) < 1 - ALPHA).all()


OTHERS: dict[str, Callable[[Floats], Floats]] = {
    "copies": lambda own: own,
    "huge": lambda own: np.full_like(own, 1e300),
    "tiny": lambda own: np.full_like(own, -1e300),
    "just below": lambda own: np.nextafter(own, -np.inf),
    "just above": lambda own: np.nextafter(own, np.inf),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_other_sites_do_not_matter(other: Callable[[Floats], Floats]) -> None:
    drawn = np.random.default_rng(23).random((150, 19))
    calibrate = calibrator(fc.OneSite(site=1), 0.2)
    thresholds = np.array([calibrate([other(own), own]).threshold for own in drawn])
    assert (thresholds == np.sort(drawn)[:, 15]).all()
    average, tolerance = mean(thresholds)
    assert average == pytest.approx(16 / 20, abs=tolerance)
