"""Count how far a reader walks: functions, modules and hops from one module to another, command by command.

A hop is a pair of functions of the package in two modules, of which the first calls the second, in this run, at least
once. Calls through numpy or typer count for the function of the package that made them. Each command runs once before
it is counted, so that caches are warm and nothing is imported.

    python scripts/hops.py        # a table for docs/architecture.md
    python scripts/hops.py -v     # and each hop
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

import fedconformal
from fedconformal.cli.app import run

PACKAGE = str(Path(fedconformal.__file__).parent)


class Walk(NamedTuple):
    """Functions and files that one command passes through."""

    functions: int
    modules: int
    hops: int


class Steps:
    """A profile function that notes which function of the package calls which."""

    def __init__(self) -> None:
        self.called: set[tuple[str, str]] = set()
        self.hops: set[tuple[tuple[str, str], tuple[str, str]]] = set()

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Note a call."""
        if event != "call" or not _is_ours(frame.f_code):
            return
        callee, caller = _place(frame.f_code), frame.f_back
        self.called.add(callee)
        while caller is not None and not _is_ours(caller.f_code):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != frame.f_code.co_filename:
            self.hops.add((_place(caller.f_code), callee))

    def walk(self) -> Walk:
        """Return what was counted."""
        return Walk(len(self.called), len({module for module, _ in self.called}), len(self.hops))


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(PACKAGE) and code.co_name != "<module>"


def _place(code: CodeType) -> tuple[str, str]:
    """Name the module and the function; what is defined inside a function belongs to it."""
    return str(Path(code.co_filename).relative_to(PACKAGE)), code.co_qualname.partition(".<locals>")[0]


def count(arguments: Sequence[str]) -> Steps:
    """Run a command twice, and count the second time."""
    steps = Steps()
    with contextlib.redirect_stdout(io.StringIO()):
        for profile in (None, steps):
            sys.setprofile(profile)
            try:
                code = run(arguments)
            finally:
                sys.setprofile(None)
            if code:
                raise SystemExit(f"{' '.join(arguments)} ended with {code}")
    return steps


def walks(folder: Path) -> dict[str, Steps]:
    """Count the four commands on the rows of three sites, in this folder."""
    draws = np.random.default_rng(0)
    probs, labels, summaries = folder / "probs.npy", folder / "labels.npy", []
    for site in ("a", "b", "c"):
        truth = draws.integers(0, 4, 60)
        np.save(probs, draws.dirichlet(np.full(4, 0.2), 60) * 0.2 + 0.8 * np.eye(4)[truth])
        np.save(labels, truth)
        summaries.append(str(folder / f"{site}.fcs"))
        found = {"summarize": count(["summarize", str(probs), str(labels), "-o", summaries[-1]])}
    predictor = str(folder / "predictor.json")
    found["calibrate"] = count(["calibrate", *summaries, "-o", predictor])
    found["predict"] = count(["predict", predictor, str(probs), "-o", str(folder / "sets.npz")])
    found["verify"] = count(["verify", predictor, *summaries])
    return found


def main() -> None:
    """Print a table; with -v, each hop too."""
    with tempfile.TemporaryDirectory() as folder:
        found = walks(Path(folder))
    write = sys.stdout.write
    write("| command | functions | modules | hops |\n|---|---|---|---|\n")
    for command, steps in found.items():
        write(f"| {command} | {' | '.join(map(str, steps.walk()))} |\n")
    for command, steps in found.items() if "-v" in sys.argv else ():
        for (module, function), (into, called) in sorted(steps.hops):
            write(f"{command}: {module} {function} -> {into} {called}\n")


if __name__ == "__main__":
    main()
