"""Time of the paper's largest table, beside reading its files and sorting the scores once per trial.

python benchmarks/paper.py LOGITS_DIRECTORY [--rounds 5]
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # sorting has one thread too

import numpy as np
from common import best, interleaved, save, table
from fedconformal_paper.clients import GROUPS
from fedconformal_paper.full_results import full_results
from fedconformal_paper.logits import LogitsFolder
from fedconformal_paper.numbers import METHODS
from fedconformal_paper.setup import Setup
from fedconformal_paper.trials import TRIALS

import fedconformal as fc
from fedconformal._base.files import read_npz


def main() -> None:
    """Time both in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    folder = LogitsFolder(directory=arguments.directory)
    paths = [path for dataset in GROUPS for method in METHODS if (path := folder.path(dataset, method))]
    scores = {}
    for path in paths:
        arrays = read_npz(path)
        logits = np.concatenate([arrays["val_logits"], arrays["test_logits"]])
        scores[path] = fc.LAC().evaluate_all(fc.softmax(logits)).reshape(-1)

    def read_and_sort() -> None:
        for path in paths:
            read_npz(path)
            for _ in range(TRIALS):
                np.sort(scores[path])

    contenders = {
        "full-results": lambda: full_results(Setup(logits=folder, datasets=tuple(GROUPS))),
        "read the files": lambda: [read_npz(path) for path in paths],
        "read, sort every label's score once per trial": read_and_sort,
    }
    seconds = best(interleaved(contenders, arguments.rounds))
    base = seconds["read, sort every label's score once per trial"]
    print(f"{len(paths)} files, {TRIALS} trials each")
    table(["", "seconds", "ratio"], [[name, took, took / base] for name, took in seconds.items()])
    save("paper", {"files": len(paths), "trials": TRIALS, "seconds": seconds})


if __name__ == "__main__":
    main()
