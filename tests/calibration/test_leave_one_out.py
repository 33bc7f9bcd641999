"""Leave one site out: no theorem covers it, so it is never certified."""

from __future__ import annotations

from typing import Any

import numpy as np

import fedconformal as fc
from fedconformal.calibration.leave_one_out import leave_one_site_out


def only_even(others: dict[str, Any]) -> Any:
    """Fit a learner that is good only for an even number of sites, and knows nothing otherwise."""
    good = len(others) % 2 == 0

    def predict(rows: Any) -> Any:
        truth = np.asarray(rows, dtype=int)
        sure = np.eye(4)[truth if good else (truth + 1) % 4]
        return 0.9 * sure + 0.025

    return predict


def test_a_learner_that_is_good_only_for_an_even_number_of_sites_covers_nothing_and_nothing_is_certified() -> None:
    rng = np.random.default_rng(0)
    labels = {f"site-{k}": rng.integers(0, 4, 50) for k in range(21)}
    sites = {name: (truth, truth) for name, truth in labels.items()}
    summaries = leave_one_site_out(sites, only_even, score=fc.LAC(), alpha=0.1)
    assert all(summary.provenance.estimated for summary in summaries)
    result = fc.calibrate(summaries, alpha=0.1, guarantee=fc.NewSite())
    # Each model saw 20 sites and is right; the one that is used saw 21 and is not.
    fresh = rng.integers(0, 4, 1000)
    predictor = result
    sets = predictor.predict_set(only_even(sites)(fresh), allow_empty=True)
    assert sets[np.arange(1000), fresh].mean() == 0.0
    certificate = predictor.certificate
    assert certificate.status == "estimated"
    assert (certificate.coverage_at_least, certificate.coverage_at_most) == (0.0, 1.0)
    assert "are estimated to hold" in certificate.sentence()
    sent = [fc.Summary.from_bytes(summary.to_bytes()) for summary in summaries]
    assert fc.calibrate(sent, alpha=0.1, guarantee=fc.NewSite()).certificate.status == "estimated"
