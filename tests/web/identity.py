"""The command line and the page's modules on the same cases: the same bytes, or both refuse.

python -m tests.web.identity START COUNT
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fedconformal.cli.app import run
from tests.web.cases import CELLS, Case, random_case
from tests.web.modules import node

BATCH = 1000
FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
"""Files in memory, where the machine has such a folder: every output is waited for until it is on the disk."""


def by_command_line(case: Case, folder: Path) -> str:
    """Return the bytes that `fedconformal summarize` writes, in hexadecimal digits, or what it says."""
    output, said = folder / "made.fcs", io.StringIO()
    output.unlink(missing_ok=True)
    files = [str(folder / name) for name in case.files]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = run(["--quiet", "summarize", *files, *case.options, "-o", str(output)])
    return output.read_bytes().hex() if code == 0 else f"refused: {said.getvalue().strip()}"


def compared(seeds: range, cells: int, folder: Path) -> Iterator[tuple[int, str, str]]:
    """Yield a seed, and what both sides make of its case."""
    expected, listed = [], []
    for seed in seeds:
        case = random_case(seed, cells)
        own = folder / str(seed)
        own.mkdir()
        for name, data in case.files.items():
            (own / name).write_bytes(data)
        expected.append(by_command_line(case, own))
        paths = [str(own / name) for name in case.files]
        listed.append({"files": paths, "columns": case.columns, "wanted": case.wanted})
    (folder / "cases.json").write_text(json.dumps(listed), "utf-8")
    yield from zip(seeds, expected, node("tools/identity.js", folder / "cases.json").splitlines(), strict=True)


def differences(start: int, count: int, cells: int = CELLS) -> tuple[list[str], Counter[str]]:
    """Compare many cases; return those that differ, in words, and how many were equal or refused by both."""
    found, seen = [], Counter[str]()
    for first in range(start, start + count, BATCH):
        with tempfile.TemporaryDirectory(dir=FAST) as folder:
            for seed, one, other in compared(range(first, min(first + BATCH, start + count)), cells, Path(folder)):
                both = one.startswith("refused") and other.startswith("refused")
                if one != other and not both:
                    found.append(f"case {seed}: {one[:200]} against {other[:200]}")
                seen["refused by both" if both else "byte-identical" if one == other else "different"] += 1
        sys.stderr.write(f"{first + BATCH - start} of {count} {dict(seen)}\n")
    return found, seen


def main() -> None:
    """Compare cases from a seed on, and print the result."""
    start, count = map(int, sys.argv[1:])
    found, seen = differences(start, count)
    sys.stdout.write(json.dumps({"cases": count, "from": start, **seen}) + "\n")
    sys.stdout.writelines(f"{line}\n" for line in found[:20])
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
