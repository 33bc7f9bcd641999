"""What a predictor covers after an alarm: from the rows that rang it, and from new ones. Prints the table of the docs.

PYTHONPATH=. python benchmarks/renewal.py
"""

# ruff: noqa: T201

from __future__ import annotations

import numpy as np

from tests.validity.simulation import mean
from tests.validity.test_renewal import after_a_change, after_a_false_alarm, planned

STREAMS = 4000
"""For each row of the table."""


def main() -> None:
    """Print a line for each kind of stream: coverage of watched rows, coverage of new rows, each with its tolerance."""
    for stream in (after_a_change, after_a_false_alarm, planned):
        cells = []
        for rows in ("watched", "new"):
            rng = np.random.default_rng(1)
            found = [one[1] for one in (stream(rows, rng) for _ in range(STREAMS)) if one is not None]
            coverage, tolerance = mean(np.array(found))
            cells.append(f"{coverage:.3f} (+-{tolerance:.3f}, {len(found)} predictors)")
        print(stream.__name__, *cells, sep=" | ")


if __name__ == "__main__":
    main()
