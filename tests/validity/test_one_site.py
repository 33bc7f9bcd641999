"""A promise to one client does not depend on what the others send, even if they have seen its scores.

The other sites copy the client's scores, send only huge or only tiny ones, or hide theirs just below and
above its own; coverage on the client stays exactly r / (n_k + 1).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fedconformal as fc
from tests.validity.simulation import Floats, mean

OTHERS: dict[str, Callable[[Floats], Floats]] = {
    "copies": lambda own: own,
    "huge": lambda own: np.full_like(own, 1e300),
    "tiny": lambda own: np.full_like(own, -1e300),
    "just below": lambda own: np.nextafter(own, -np.inf),
    "just above": lambda own: np.nextafter(own, np.inf),
}


@pytest.mark.parametrize("kind", ["exact", "ranks"])
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_other_sites_do_not_matter(kind: str, other: Callable[[Floats], Floats]) -> None:
    drawn = np.random.default_rng(23).random((150, 19))
    thresholds = np.array(
        [
            fc.calibrate(
                [
                    fc.Summary.of_scores(other(own), kind=kind, site="other"),
                    fc.Summary.of_scores(own, kind=kind, site="own"),
                ],
                alpha=0.2,
                guarantee=fc.OneSite(site="own"),
                exact=True,
            ).threshold
            for own in drawn
        ]
    )
    assert (thresholds == np.sort(drawn)[:, 15]).all()
    coverage, tolerance = mean(thresholds)
    assert coverage == pytest.approx(16 / 20, abs=tolerance)
