"""Private sums: the coordinator sees sums over all sites, never the scores or counts of one.

Run it with: python examples/private_sums.py (it needs the extra secure)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import fedconformal as fc
from fedconformal.privacy import calibrate_privately


def rows_of(seed: int, rows: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Make probabilities of three classes, and labels."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(3), size=rows)
    return probs, (rng.random((rows, 1)) < probs.cumsum(axis=1)).argmax(axis=1)


def main() -> None:
    """Find the threshold from masked counts, and compare it with the one from all scores."""
    # Here all sites are in this process; `fedconformal.engines.flower` does it over a network.
    # With epsilon=1 (and the extra dp, and more scores) the sum itself is differentially private.
    sites = [fc.summarize(*rows_of(k, 200), kind="exact", site=f"clinic-{k}") for k in range(4)]
    predictor = calibrate_privately(sites, mode="sums", alpha=0.1)
    plain = fc.calibrate(sites, exact=True)
    print(f"threshold {predictor.threshold:.4f}, never below that of all scores, {plain.threshold:.4f}")
    print(predictor.sentence())
    print(predictor.certificate.statement.caveat)
    result = predictor.evaluate(*rows_of(99, 2000))
    print(f"coverage {result.coverage:.3f}, {result.mean_size:.2f} labels per set")


if __name__ == "__main__":
    main()
