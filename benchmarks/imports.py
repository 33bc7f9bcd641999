"""What `import fedconformal` costs on top of `import numpy`, and how many bytes a certified rank summary takes.

python benchmarks/imports.py [--rounds 21]
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable

import numpy as np
from common import interleaved, save, table

import fedconformal as fc

PROGRAMS = {
    "import numpy": "import numpy",
    "import fedconformal": "import fedconformal",
    "every public name": "import fedconformal as fc\nfor name in fc.__all__: getattr(fc, name)",
    "an empty program": "",
}


def program(text: str) -> Callable[[], object]:
    """Return what runs a program in a fresh interpreter."""
    return lambda: subprocess.run([sys.executable, "-c", text], check=True)  # noqa: S603


def sizes() -> dict[str, int]:
    """Return the bytes of rank summaries with m = 100, alone and with what may travel along."""
    scores = np.random.default_rng(0).random(100_000)
    tilted = {"alpha": 0.1, "score": fc.RAPS()}
    summaries = {
        "bare": fc.summarize(scores),
        "with alpha, score and site": fc.summarize(scores, **tilted, site="site-17"),  # type: ignore[arg-type]
        "with the longest names": fc.summarize(scores, **tilted, site="s" * 64, model="m" * 64),  # type: ignore[arg-type]
    }
    return {name: len(summary.to_bytes()) for name, summary in summaries.items()}


def main() -> None:
    """Print both tables and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    runs = {name: program(text) for name, text in PROGRAMS.items()}
    interleaved(runs, 2)  # files into the cache
    taken = interleaved(runs, options.rounds)
    seconds = {name: statistics.median(times) for name, times in taken.items()}
    ratio = {
        name: statistics.median(own / base for own, base in zip(times, taken["import numpy"], strict=True))
        for name, times in taken.items()
    }
    print("Fresh interpreters in turn, medians; wanted: import fedconformal at most 1.7x import numpy\n")
    table(["", "seconds", "ratio"], [[name, seconds[name], ratio[name]] for name in PROGRAMS])
    print("\nBytes of a rank summary, m = 100; wanted: at most 850\n")
    found = sizes()
    table(["", "bytes"], [[name, size] for name, size in found.items()])
    save("imports", {"seconds": seconds, "ratio": ratio, "rank_summary_bytes": found})


if __name__ == "__main__":
    main()
