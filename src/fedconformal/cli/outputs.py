"""Outputs: never onto a file that is read here, and onto one of another kind only with --force."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer
from numpy.lib.format import MAGIC_PREFIX as NPY

from fedconformal.errors import InputError
from fedconformal.summaries.format import MAGIC, NOISY

Force = Annotated[bool, typer.Option("--force", hidden=True, help="Overwrite a file of another kind.")]

ANSWERS = re.compile(rb"[,;](size|lower[,;]upper\s*$)")
"""Columns in the header of a table of sets or intervals."""
BEGINNING = 4096
"""Bytes that are looked at."""


def check_output(output: Path, *inputs: Path | None, ending: str = "", force: bool | None = None) -> None:
    """Refuse to write onto a file that is read here, by whatever path: it would be lost.

    Refuse a name that does not end as such files do: it would be missed where they are looked for. Refuse to write onto
    a file that is not what a command writes under such a name, unless `force` is true; None does not look.
    """
    if ending and output.suffix != ending:
        raise InputError(f"{output}: expected a file that ends in {ending}")
    for path in inputs:
        if path is not None and _same(output, path):
            problem = "is read by this command as well, and would be lost"
            raise InputError(f"{output}: {problem}; choose another place with -o")
    if force is False and not _is_ours(output):
        what = OURS[output.suffix][0]
        raise InputError(f"{output}: exists, and is not {what}; choose another place with -o, or overwrite it: --force")


def check_outputs(outputs: Iterable[Path], *inputs: Path | None, force: bool | None = None) -> None:
    """Check several outputs."""
    for output in outputs:
        check_output(output, *inputs, force=force)


def _same(one: Path, other: Path) -> bool:
    try:
        return one.resolve() == other.resolve() or one.samefile(other)
    except OSError:  # one of them is not there
        return False


def _is_ours(path: Path) -> bool:
    """Whether nothing of another kind would be lost: there is no such file, it is empty, or it is what we write."""
    if path.suffix not in OURS or not path.is_file():
        return True
    try:
        with path.open("rb") as file:
            start = file.read(BEGINNING)
        return not start or OURS[path.suffix][1](path, start)
    except OSError:
        return False


def _holds_sets(path: Path, _: bytes) -> bool:
    try:
        with zipfile.ZipFile(path) as file:
            return "sets.npy" in file.namelist()
    except (zipfile.BadZipFile, ValueError):
        return False


OURS: dict[str, tuple[str, Callable[[Path, bytes], bool]]] = {
    ".fcs": ("a summary", lambda _, start: start.startswith(MAGIC)),
    ".fcn": ("noisy counts", lambda _, start: start.startswith(NOISY)),
    ".json": ("a predictor", lambda _, start: b'"kind": "fedconformal ' in start),
    ".html": ("a report", lambda _, start: start.startswith(b"<!doctype html>") and b"fedconformal" in start),
    ".npz": ("prediction sets", _holds_sets),
    ".npy": ("prediction sets", lambda _, start: start.startswith(NPY) and b"'descr': '|b1'" in start),
    ".csv": ("prediction sets", lambda _, start: bool(ANSWERS.search(start.partition(b"\n")[0]))),
}
"""What a file of ours is, and how it is recognised, by its ending."""
