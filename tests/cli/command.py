"""Run a command in this process and look at what it did."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedconformal._base.arrays import Floats, Integers
from fedconformal.cli.app import run


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Exactly one object, and nothing else, on stdout."""
        found: dict[str, Any] = json.loads(self.out)
        return found


class Command:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Done:
        """Run `fedconformal ARGUMENTS`."""
        self._capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = self._capsys.readouterr()
        return Done(code, captured.out, captured.err)

    def ok(self, *arguments: str | Path) -> Done:
        """Run and insist on success."""
        done = self(*arguments)
        assert done.code == 0, done.err
        return done

    def no(self, said: str, *arguments: str | Path) -> Done:
        """Run and insist on the answer no, with these words."""
        done = self(*arguments)
        assert (done.code, said in done.out) == (1, True), done
        return done

    def refuses(self, said: str, *arguments: str | Path) -> Done:
        """Run and insist on one line with these words, and on nothing written."""
        before = files()
        done = self(*arguments)
        assert (done.code, done.out, done.err.count("error: ")) == (2, "", 1), done
        last = done.err.splitlines()[-1]  # what was recognised may stand before it
        assert (last.startswith("error: "), said in last) == (True, True), done.err
        assert files() == before
        return done


def files() -> dict[Path, bytes]:
    """All files here, apart from watches."""
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file() and ".db" not in path.name}


def write_table(path: str | Path, header: Iterable[str], rows: Iterable[Sequence[Any]], separator: str = ",") -> None:
    """Write a header and rows as CSV."""
    with Path(path).open("w", newline="") as file:
        csv.writer(file, delimiter=separator, lineterminator="\n").writerows([list(header), *rows])


def write_columns(path: str | Path, columns: Mapping[str, Iterable[Any]], separator: str = ",") -> None:
    """Write columns by name as CSV."""
    write_table(path, columns, list(zip(*columns.values(), strict=True)), separator)


def site_rows(seed: int, rows: int = 60, classes: int = 4) -> tuple[Floats, Integers]:
    """Probabilities and labels drawn from them, for one site."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(classes) + 3 * np.eye(classes)[seed % classes], rows)
    labels = np.array([rng.choice(classes, p=p) for p in probs])
    return probs, labels


def write_sites(folder: Path, count: int = 3) -> None:
    """Write probs-K.npy, labels-K.npy for each site, and test rows of all of them."""
    for k in range(count):
        probs, labels = site_rows(k)
        np.save(folder / f"probs-{k}.npy", probs)
        np.save(folder / f"labels-{k}.npy", labels)
    tests = [site_rows(100 + k) for k in range(count)]
    np.save(folder / "test-probs.npy", np.concatenate([probs for probs, _ in tests]))
    np.save(folder / "test-labels.npy", np.concatenate([labels for _, labels in tests]))
    names = [f"site-{k}\n" for k, (_, labels) in enumerate(tests) for _ in labels]
    (folder / "test-sites.csv").write_text("".join(names))
