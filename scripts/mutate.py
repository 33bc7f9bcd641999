"""Would a test notice? Break the package in one place at a time, and demand that the tests named for it fail.

    python scripts/mutate.py
    python scripts/mutate.py --only pac

The mutants are listed in mutants.toml: a file, a text that occurs in it exactly once, another text in its place, and
the tests to run. Each is tried in a copy of the tree, so the tree itself stays as it is. One that is listed as
equivalent, with the reason, must survive; every other one must be killed, by a test that fails: a hang does not count.
Exit code 0 if all is as listed, 1 if not, 2 if the list does not fit the tree or its tests fail without any mutant.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parent.parent
LIST = ROOT / "scripts" / "mutants.toml"
TREE = ("src", "tests", "scripts", "conftest.py", "pyproject.toml")
"""Parts of the repository that the tests need."""

WORKERS = 2
SECONDS = 120
"""Time limit for the tests of one mutant."""

VERDICTS = {0: "survived", 1: "killed"}
"""By pytest's exit code; any other means that the tests did not run at all."""


class ListError(Exception):
    """The list does not fit the tree."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A change of the code, and the tests that should fail."""

    path: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str = ""
    """Why nothing can notice it, if so."""

    def __str__(self) -> str:
        """Tell it in one line."""
        return f"{self.path}: {' '.join(self.old.split())} -> {' '.join(self.new.split())}"

    def applied(self, text: str) -> str:
        """Return the changed text of the file; refuse unless there is one place to change."""
        if (count := text.count(self.old)) != 1:
            raise ListError(f"{self}: the old text occurs {count} times, expected once")
        return text.replace(self.old, self.new)


def mutants(listed: Path = LIST) -> list[Mutant]:
    """Read the list; a mutant may name tests of its own in the place of those of its file."""
    return [
        Mutant(**{**one, "path": path, "tests": tuple(one.get("tests", file["tests"]))})
        for path, file in tomllib.loads(listed.read_text("utf-8")).items()
        for one in file["mutants"]
    ]


def copied(root: Path, to: Path) -> Path:
    """Copy what the tests need."""
    for name in TREE:
        if (root / name).is_dir():
            shutil.copytree(root / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (root / name).exists():
            to.mkdir(exist_ok=True)
            shutil.copy(root / name, to / name)
    return to


def run_tests(tree: Path, *, tests: Sequence[str], seconds: float) -> tuple[str, str]:
    """Run tests in a copy, and return the verdict and what pytest said."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", *tests]
    settings = {
        "PYTHONPATH": str(tree / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # none is needed, and some load slowly
        "OMP_NUM_THREADS": "1",
    }
    with subprocess.Popen(  # noqa: S603
        command,
        cwd=tree,
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that what a test started ends with it
    ) as process:
        try:
            said = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "hung", f"no answer after {seconds:g} s"
    return VERDICTS.get(process.returncode, "broken"), said


def tried(mutant: Mutant, tree: Path, *, seconds: float) -> tuple[str, str]:
    """Change one file of a copy, run the tests, and change it back."""
    path = tree / "src" / "fedconformal" / mutant.path
    text = path.read_text("utf-8")
    path.write_text(mutant.applied(text), "utf-8")
    try:
        verdict, said = run_tests(tree, tests=mutant.tests, seconds=seconds)
    finally:
        path.write_text(text, "utf-8")
    if mutant.equivalent:
        return ("equivalent" if verdict == "survived" else f"{verdict}, not equivalent"), said
    return verdict, said


def check(chosen: Sequence[Mutant], root: Path = ROOT) -> None:
    """Refuse a list that is empty or does not fit the tree."""
    if not chosen:
        raise ListError("there is no such mutant")
    for mutant in chosen:
        mutant.applied((root / "src" / "fedconformal" / mutant.path).read_text("utf-8"))
        for test in mutant.tests:
            if not (root / test.split("::")[0]).exists():
                raise ListError(f"{mutant}: there is no {test}")


def trial(chosen: Sequence[Mutant], root: Path = ROOT, seconds: float = SECONDS) -> list[str]:
    """Try all mutants, with a line for each, and return what is not as listed."""
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(WORKERS) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(WORKERS):
            trees.put(copied(root, Path(scratch) / str(number)))

        def work(job: Callable[[Path], tuple[str, str]]) -> tuple[str, str, float]:
            tree, start = trees.get(), time.monotonic()
            try:
                return *job(tree), time.monotonic() - start
            finally:
                trees.put(tree)

        tests = sorted({test for mutant in chosen for test in mutant.tests})
        shares = [tests[number::WORKERS] for number in range(min(WORKERS, len(tests)))]
        plain = [partial(run_tests, tests=share, seconds=seconds * len(share)) for share in shares]
        for verdict, said, took in pool.map(work, plain):
            print(f"without a mutant: {verdict} {took:.1f} s", flush=True)
            if verdict != "survived":
                raise ListError(f"the tests do not pass without a mutant:\n{said}")
        jobs = {pool.submit(work, partial(tried, mutant, seconds=seconds)): mutant for mutant in chosen}
        for number, job in enumerate(as_completed(jobs), start=1):
            verdict, said, took = job.result()
            by = next((f" by {line.split()[1]}" for line in said.splitlines() if line.startswith("FAILED")), "")
            print(f"[{number:3}/{len(chosen)}] {verdict} {took:.1f} s{by}\n    {jobs[job]}", flush=True)
            if verdict not in ("killed", "equivalent"):
                problems.append(f"{verdict}: {jobs[job]}" + (f"\n{said}" if verdict == "broken" else ""))
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the listed mutants."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="only the mutants in whose line this text is")
    only = parser.parse_args(arguments).only
    start = time.monotonic()
    try:
        chosen = [mutant for mutant in mutants() if only in str(mutant)]
        check(chosen)
        problems = trial(chosen)
    except ListError as error:
        print(error, file=sys.stderr)
        return 2
    print(*problems, sep="\n")
    print(f"{len(chosen)} mutants, {len(problems)} not as listed, {time.monotonic() - start:.0f} s")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
