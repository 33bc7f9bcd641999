"""TCT's second stage by its two solvers, on one and the same problem: the training loss against rounds.

    python benchmarks/tct_solvers.py

No intercept, sites that count by their rows, and a ridge that is next to nothing, as SCAFFOLD has neither. A round of
L-BFGS is one pass over a site's features; one of SCAFFOLD is as many steps as its name says, each on all rows.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from common import save, table

from fedconformal.training.config import Config
from fedconformal.training.run import train

ROUNDS = 41
SHOWN = (6, 11, 21, 41)
"""In round 11 the loss is that after ten rounds."""
PROBLEMS: dict[str, dict[str, Any]] = {
    "digits": {"dataset": "digits"},
    "heart disease": {"dataset": "heart_disease", "partition": "column", "column": "hospital"},
}
SOLVERS: dict[str, dict[str, Any]] = {
    "lbfgs": {"solver": "lbfgs", "ridge": 1e-6},
    "scaffold, 100 steps": {"solver": "scaffold", "steps": 100},
    "scaffold, 500 steps": {"solver": "scaffold", "steps": 500},
}


def losses(settings: dict[str, Any]) -> list[float]:
    """Return the loss in every round of the second stage, from the lowest point that is known by then."""
    with tempfile.TemporaryDirectory() as folder:
        common = {"method": "tct", "intercept": False, "linear_rounds": ROUNDS, "workers": 1}
        train(Config.from_dict({**common, **settings}), Path(folder) / "run")
        lines = [json.loads(line) for line in (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()]
    found = [line["loss"] for line in lines if line["stage"] == "tct"]
    found += found[-1:] * (ROUNDS - len(found))  # the optimum was reached before
    return [min(found[: number + 1]) for number in range(ROUNDS)]


def main() -> None:
    """Print a table and write the results."""
    rows = []
    for problem, data in PROBLEMS.items():
        for solver, settings in SOLVERS.items():
            rows.append({"problem": problem, "solver": solver, "losses": losses({**data, **settings})})
    table(
        ["problem", "solver", *(f"after {number - 1} rounds" for number in SHOWN)],
        [[row["problem"], row["solver"], *(f"{row['losses'][number - 1]:.5f}" for number in SHOWN)] for row in rows],
    )
    save("tct_solvers", {"rows": rows})


if __name__ == "__main__":
    main()
