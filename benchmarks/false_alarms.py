"""Count false alarms: 10,000 streams of 100,000 rows while the promise holds, over calibration draws.

    PYTHONPATH=. .venv/bin/python benchmarks/false_alarms.py

Each stream has a calibration of its own, whose miss rate is one minus a beta variable. It is watched with the limit
a_b that the guarantee gives, which promises at most five alarms in a hundred streams, and with alpha, which promises
nothing. The table goes into docs/monitoring.md.
"""

# ruff: noqa: T201

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from common import HERE, save, table

import fedconformal as fc
from tests.validity.watched import alarms

STREAMS, ROWS, FAILURE, LEVEL = 10_000, 100_000, 0.025, 0.025
PAGE = HERE.parent / "docs" / "monitoring.md"
START, END = "<!-- false alarms -->", "<!-- /false alarms -->"


def counted(alpha: str, size: int) -> dict[str, Any]:
    """Count the alarms of one setting, with a_b and with alpha."""
    rng, whole = np.random.default_rng(0), Fraction(alpha)
    rank = math.ceil((1 - whole) * (size + 1))
    found: dict[str, Any] = {"alpha": alpha, "size": size, "limit": None, "alarms": None, "with alpha": None}
    if rank > size:
        return found
    rate = 1 - rng.beta(rank, size + 1 - rank, STREAMS)
    (limit,) = fc.Mixture().miss_rate_bounds(whole, [size], FAILURE)
    kept, naive = (int(alarms(rate, one, ROWS, LEVEL, rng).sum()) for one in (limit.rate, float(whole)))
    return {**found, "limit": limit.rate, "alarms": kept, "with alpha": naive}


def lines(found: list[dict[str, Any]]) -> str:
    """Write the table of the page."""
    head = [
        "| alpha | calibration rows | limits a_b | streams with an alarm, of 10,000 | with alpha as the limit |",
        "|---|---|---|---|---|",
    ]
    for alpha in dict.fromkeys(row["alpha"] for row in found):
        rows = [row for row in found if row["alpha"] == alpha and row["limit"] is not None]
        limits = ", ".join(f"{row['limit']:.4f}" for row in rows)
        counts = (", ".join(f"{row[name]:,}" for row in rows) for name in ("alarms", "with alpha"))
        head.append(f"| {alpha} | {', '.join(str(row['size']) for row in rows)} | {limits} | {' | '.join(counts)} |")
    return "\n".join(head)


def written(page: str, found: list[dict[str, Any]]) -> str:
    """Put the table into the page."""
    before, rest = page.split(START)
    return f"{before}{START}\n{lines(found)}\n{END}{rest.split(END)[1]}"


def main() -> None:
    """Count, print, and write the page."""
    found = []
    for alpha in ("0.01", "0.1", "0.3"):
        for size in (50, 200, 500, 1000, 5000):
            found.append(counted(alpha, size))
            print(found[-1], flush=True)
    table(list(found[0]), [list(row.values()) for row in found])
    save("false_alarms", found)
    PAGE.write_text(written(PAGE.read_text(), found))


if __name__ == "__main__":
    main()
