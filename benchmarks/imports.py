"""Cost of `import fedconformal` and of a command on top of `import numpy`; bytes of a certified rank summary.

python benchmarks/imports.py [--rounds 21]
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from common import interleaved, save, table

import fedconformal as fc

PROGRAMS = {
    "import numpy": "import numpy",
    "import fedconformal": "import fedconformal",
    "every public name": "import fedconformal as fc\nfor name in fc.__all__: getattr(fc, name)",
    "an empty program": "",
}
COMMAND = "import sys; from fedconformal.cli import main; sys.argv[1:] = {arguments}; main()"
"""As the script does that is installed."""
COMMAND_NAME = "fedconformal calibrate, ten files"


def program(text: str) -> Callable[[], object]:
    """Return what runs a program in a fresh interpreter, which finds bytecode as in an installed package.

    Where PYTHONDONTWRITEBYTECODE is set, a folder of sources is compiled anew each time: 0.1 s for `calibrate`.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", text]
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=env)  # noqa: S603


def sizes() -> dict[str, int]:
    """Return the bytes of rank summaries with m = 100, alone and with what may travel along."""
    scores = np.random.default_rng(0).random(100_000)
    tilted = {"alpha": 0.1, "score": fc.RAPS()}
    summaries = {
        "bare": fc.Summary.of_scores(scores),
        "with alpha, score and site": fc.Summary.of_scores(scores, **tilted, site="site-17"),  # type: ignore[arg-type]
        "with the longest names": fc.Summary.of_scores(scores, **tilted, site="s" * 64, model="m" * 64),  # type: ignore[arg-type]
    }
    return {name: len(summary.to_bytes()) for name, summary in summaries.items()}


def calibrate_ten(folder: Path) -> str:
    """Return the program that calibrates ten sites by files, as the command does."""
    draws, files = np.random.default_rng(0), [str(folder / f"{site}.fcs") for site in range(10)]
    for site, file in enumerate(files):
        Path(file).write_bytes(fc.Summary.of_scores(draws.random(200), score=fc.LAC(), site=f"s{site}").to_bytes())
    arguments = ["calibrate", *files, "--json", "-o", str(folder / "predictor.json")]
    return COMMAND.format(arguments=arguments)


def processor_seconds(runs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median processor time of programs, run in turn, and of what they start, in seconds."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def main() -> None:
    """Print all tables and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    runs = {name: program(text) for name, text in PROGRAMS.items()}
    with tempfile.TemporaryDirectory() as folder:
        calibrate = program(calibrate_ten(Path(folder)))
        calibrate()
        both = {"import numpy": runs["import numpy"], COMMAND_NAME: calibrate}
        processor = processor_seconds(both, options.rounds)
    interleaved(runs, 2)  # files into the cache
    taken = interleaved(runs, options.rounds)
    seconds = {name: statistics.median(times) for name, times in taken.items()}
    ratio = {
        name: statistics.median(own / base for own, base in zip(times, taken["import numpy"], strict=True))
        for name, times in taken.items()
    }
    print("Fresh interpreters in turn, medians; wanted: import fedconformal at most 1.7x import numpy\n")
    table(["", "seconds", "ratio"], [[name, seconds[name], ratio[name]] for name in PROGRAMS])
    print("\nProcessor time; wanted: the command at most 0.25 s on an idle machine\n")
    against = {name: taken / processor["import numpy"] for name, taken in processor.items()}
    table(["", "seconds", "ratio"], [[name, taken, against[name]] for name, taken in processor.items()])
    print("\nBytes of a rank summary, m = 100; wanted: at most 850\n")
    found = sizes()
    table(["", "bytes"], [[name, size] for name, size in found.items()])
    save("imports", {"seconds": seconds, "ratio": ratio, "processor": processor, "rank_summary_bytes": found})


if __name__ == "__main__":
    main()
