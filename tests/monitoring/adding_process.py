"""Processes that add rows and outcomes to a watch until they are killed, and print what was acknowledged.

Run as: python adding_process.py WATCH; each line of the input, FIRST SEED, starts one, and "ended" says that it ended.
"""

import os
import sys

import numpy as np

from fedconformal.monitoring.events import Outcomes, Predicted
from fedconformal.monitoring.store import Watch

MISSED = 3
"""Every third row is missed."""


def add(path: str, first: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    with Watch.open(path) as watch:
        sys.stdout.write(f"{os.getpid()}\n")
        sys.stdout.flush()
        while True:
            numbers = np.arange(first, first + int(rng.integers(1, 6)))
            first += len(numbers)
            ids = [str(k) for k in numbers]
            sets = np.tile([True, False, False], (len(ids), 1))
            watch.add(Predicted(ids=ids, times=np.full(len(ids), float(first)), sets=sets))
            sys.stdout.write("".join(f"row {name}\n" for name in ids))
            sys.stdout.flush()
            values = np.where(numbers % MISSED == 0, 2.0, 0.0)
            watch.add(None, Outcomes(ids=ids, times=np.full(len(ids), first + 0.5), values=values))
            sys.stdout.write("".join(f"outcome {name}\n" for name in ids))
            sys.stdout.flush()


def main(path: str) -> None:
    Watch.open(path).__exit__()  # so that all is imported
    for line in sys.stdin:
        child = os.fork()
        if not child:
            first, seed = map(int, line.split())
            add(path, first, seed)
        os.waitpid(child, 0)
        sys.stdout.write("\nended\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
