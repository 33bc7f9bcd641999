"""Arrays: three sites have probabilities and labels; each sends a summary, and all use one threshold.

Run it with: python examples/arrays.py
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import fedconformal as fc

ALPHA = 0.1  # allowed miss rate


def rows_of(site: int, rows: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Make a site's probabilities and labels; the most frequent class differs between sites."""
    probs = rng.dirichlet(1 + 4 * np.eye(3)[site], size=rows)
    labels = (rng.random((rows, 1)) < probs.cumsum(axis=1)).argmax(axis=1)
    return probs, labels


def main() -> None:
    """Calibrate on 200 rows of each site, and look at the sets of 1,000 other rows of each."""
    rng = np.random.default_rng(0)

    # At each site. Rows, labels and probabilities stay there; the summary is all that leaves.
    summaries = []
    for site in range(3):
        probs, labels = rows_of(site, 200, rng)
        summaries.append(fc.summarize(probs, labels, score="lac", alpha=ALPHA, site=f"site-{site}"))

    # At the coordinator.
    predictor = fc.calibrate(summaries, alpha=ALPHA)
    print(predictor.sentence())

    # Anywhere. Sets are booleans, one row for each row of probabilities. The promise is an average over calibration
    # draws: after a single draw, as here, coverage is slightly above or below it.
    tests = [rows_of(site, 1000, rng) for site in range(3)]
    probs, labels = np.concatenate([p for p, _ in tests]), np.concatenate([y for _, y in tests])
    print("the first sets:", [np.flatnonzero(one).tolist() for one in predictor.predict_set(probs[:4])])
    found = predictor.evaluate(probs, labels)
    print(f"coverage {found.coverage:.3f}, {found.mean_size:.2f} labels per set")


if __name__ == "__main__":
    main()
