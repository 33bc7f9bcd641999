"""Random tables and options, for the command line and for the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

CELLS = 20_000
LARGE = 0.1
"""Number of cases with all cells; the others have a twentieth, to save time."""
MOST_CLASSES = 1000
NAMES = ("benign", "malignant", "böse", "病", "class", "Ωmega", "x y", "a-b", "naïve", "0b")
SITES = ("a", "clinic-a", "Köln", "病院", "Spitäler & Söhne (Nord)", "e\u0301cole", "x" * 64)
SEEDS = (0, 1, 7, 2**31, 2**53 + 1, 2**63 - 1)


@dataclass
class Case:
    """Files by name, with columns and wishes in the page's terms."""

    files: dict[str, bytes] = field(default_factory=dict)
    columns: dict[str, Any] = field(default_factory=dict)
    wanted: dict[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> list[str]:
        """The same for `fedconformal summarize`."""
        about = {name: value for name, value in self.wanted.items() if name not in ("score", "byClass")}
        given = {NAMES_OF_OPTIONS[name]: value for name, value in self.columns.items() if name in NAMES_OF_OPTIONS}
        given |= {"groups": ",".join(self.columns.get("groups", [])), **about}
        name, *parameters = (f"{PARAMETERS.get(key, key)}={value}" for key, value in self.wanted["score"].items())
        given["score"] = ":".join([name.removeprefix("name="), *filter(None, [",".join(parameters)])])
        flags = ["--by-class"] if self.wanted.get("byClass") else []
        return [*flags, *(word for key, value in given.items() if value for word in (f"--{key}", value))]


NAMES_OF_OPTIONS = {"ids": "id", "labels": "labels", "encoding": "encoding", "prediction": "predictions"}
PARAMETERS = {"seed": "random_state", "free": "free_ranks"}


def between(rng: np.random.Generator, low: int, high: int) -> int:
    """Draw a number of any size: as many small as large ones."""
    return round(float(np.exp(rng.uniform(np.log(low), np.log(high)))))


def random_case(seed: int, cells: int = CELLS) -> Case:
    """Make the case of a seed."""
    rng = np.random.default_rng(seed)
    cells = cells if rng.random() < LARGE else cells // 20
    return _regression(rng, cells) if rng.random() < 0.1 else _classes(rng, cells)


def probabilities(rng: np.random.Generator, rows: int, classes: int) -> NDArray[np.float64]:
    """Draw rows: smooth or spiky, with ties, with tiny and with huge entries, a little off one."""
    kind = rng.integers(7)
    if kind == 0:  # ties
        counts = rng.multinomial(8, np.full(classes, 1 / classes), rows)
        return counts / 8
    if kind == 1:
        return np.full((rows, classes), 1 / classes)
    found = rng.dirichlet(np.full(classes, 10.0 ** rng.uniform(-2, 1)), rows)
    found = np.where(np.isfinite(found), found, 1 / classes)
    if kind == 2:
        found = found.round(int(rng.integers(1, 6)))
        found[:, 0] = np.maximum(0, 1 - found[:, 1:].sum(axis=1))
    elif kind == 3:  # a tiny one each, also too small for float32
        found[np.arange(rows), rng.integers(0, classes, rows)] = 10.0 ** rng.uniform(-320, -20, rows)
        found /= found.sum(axis=1, keepdims=True)
    elif kind == 4:  # one label has nearly all
        found *= 10.0 ** rng.uniform(-18, -3)
        found[np.arange(rows), rng.integers(0, classes, rows)] += 1 - found.sum(axis=1)
    elif kind == 5:
        found = found.astype(np.float32).astype(np.float64)
    else:
        found *= 1 + rng.uniform(-9e-4, 9e-4)
    return found


WRITERS: dict[int, Callable[[float], str]] = {
    0: repr,
    2: "{:.17f}".format,
    3: "{:.9E}".format,
    4: lambda value: f"{value:.8g}".replace("0.", ".", 1) if value else "+0.",
    5: " {!r}".format,
    6: "{:.25e}".format,
}
"""Formats of numbers; 1 is float32."""


def written(rng: np.random.Generator, values: NDArray[np.float64]) -> list[list[str]]:
    """Write numbers in one of the ways that programs write them."""
    style = int(rng.integers(7))
    if style == 1:
        with np.errstate(over="ignore"):
            return [[str(value) for value in row] for row in values.astype(np.float32)]
    write = WRITERS[style]
    return [[write(value) for value in row] for row in values.tolist()]


def table(rng: np.random.Generator, head: list[str] | None, rows: list[list[str]]) -> str:
    """Put rows together, with some separator, decimal mark, line end and quotes."""
    separator = (",", ";", "\t")[rng.integers(3)]
    if separator != "," and rng.random() < 0.5 and not any("," in cell for cell in head or ()):
        rows = [[cell.replace(".", ",") if _is_number(cell) else cell for cell in row] for row in rows]
    if rng.random() < 0.2:
        rows = [[f'"{cell}"' if k % 3 == 0 else cell for k, cell in enumerate(row)] for row in rows]
    end = ("\n", "\r\n", "\r")[rng.choice(3, p=[0.6, 0.3, 0.1])]
    lines = ([] if head is None else [head]) + rows
    return end.join(separator.join(line) for line in lines) + (end if rng.random() < 0.9 else "")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return not any(letter in cell for letter in "naif")


def _classes(rng: np.random.Generator, cells: int) -> Case:
    classes = between(rng, 2, MOST_CLASSES)
    rows = between(rng, 1, max(1, cells // classes))
    names = [f"{NAMES[k % len(NAMES)]} {k}" for k in range(classes)] if rng.random() < 0.7 else None
    probs = probabilities(rng, rows, classes)
    labels = rng.integers(0, classes, rows)
    if rng.random() < 0.5:  # labels that go with the rows
        labels = np.where(rng.random(rows) < 0.8, probs.argmax(axis=1), labels)
    spelled = [str(label) if names is None else names[label] for label in labels.tolist()]
    cases = Case()
    head = list(names) if names is not None else [str(k) for k in range(classes)] if rng.random() < 0.5 else None
    body = written(rng, probs)
    second = head is None or rng.random() < 0.3
    if head is not None:
        ids = [f"p{k}" for k in rng.permutation(rows).tolist()]
        extra: dict[str, list[str]] = {}
        if rng.random() < 0.4:
            extra["the id"] = ids
            cases.columns["ids"] = "the id"
        if rng.random() < 0.3:
            extra |= _groups(rng, rows, cases)
        if not second:
            extra["truth"] = spelled
            cases.columns["labels"] = "truth"
        head = [*extra, *head]
        body = [[*(values[row] for values in extra.values()), *line] for row, line in enumerate(body)]
    cases.files["probs.csv"] = _encoded(rng, table(rng, head, body), cases)
    if second:
        if "ids" in cases.columns:
            order = rng.permutation(rows).tolist()
            text = table(rng, ["the id", "truth"], [[ids[row], spelled[row]] for row in order])
        else:
            text = table(rng, ["truth"], [[label] for label in spelled])
        cases.files["labels.csv"] = text.encode(cases.columns.get("encoding", "utf-8"))
    _score(rng, cases)
    _about(rng, cases)
    cases.wanted["byClass"] = bool(rng.random() < 0.2)
    return cases


def _groups(rng: np.random.Generator, rows: int, cases: Case) -> dict[str, list[str]]:
    values = {
        "sex": ["F", "M", "", "NaN"],
        "age": ["60", "60.0", "61-70", "-5", "nan", "not given"],
        "Gerät": ["x", "é"],
    }
    chosen = {name: values[name] for name in ("sex", "age", "Gerät")[: rng.integers(1, 4)]}
    found = {name: [kinds[k] for k in rng.integers(0, len(kinds), rows)] for name, kinds in chosen.items()}
    cases.columns["groups"] = list(found)
    return found


def _encoded(rng: np.random.Generator, text: str, cases: Case) -> bytes:
    kind = rng.integers(6)
    if kind == 0:
        return text.encode("utf-8-sig")
    if kind == 1 and rng.random() < 0.5:
        return text.encode("utf-16")
    if kind == 2:
        try:
            data = text.encode("cp1252")
        except UnicodeEncodeError:
            return text.encode()
        cases.columns["encoding"] = "cp1252"
        return data
    return text.encode()


def _score(rng: np.random.Generator, cases: Case) -> None:
    name = ("lac", "aps", "raps")[rng.integers(3)]
    score: dict[str, Any] = {"name": name}
    cases.wanted["score"] = score
    if name != "lac" and rng.random() < 0.5:
        score |= {"randomized": True, "seed": str(rng.choice(np.array(SEEDS, dtype=np.uint64)))}
    if name == "raps":
        penalty = rng.choice([0.0, 0.001, 0.1, 1 / 3, 1e-9, 2.0**20])
        score |= {"penalty": repr(float(penalty)), "free": str(rng.integers(0, 6))}


def _about(rng: np.random.Generator, cases: Case) -> None:
    alpha = ("0.1", "0.05", "0.3", "0.001", "1e-05", "0.123456789012345", "0.30000000000000004", "0.9")[rng.integers(8)]
    kind = "exact" if rng.random() < 0.3 else "ranks"
    site = SITES[rng.integers(len(SITES))]
    said: dict[str, str | None] = {"alpha": alpha, "kind": kind, "site": site}
    said["model"] = "sha256:0f3a" if rng.random() < 0.3 else None
    said["calibration"] = "4be0643f1d98573b97cdca98a65347dd" if rng.random() < 0.3 else None
    said["expires"] = "2031-02-28" if rng.random() < 0.2 else None
    if cases.wanted["score"]["name"] != "residual":
        said["temperature"] = ("1.5", "0.1", "2")[rng.integers(3)] if rng.random() < 0.2 else None
    cases.wanted |= said


def _regression(rng: np.random.Generator, cells: int) -> Case:
    rows = between(rng, 1, max(1, cells // 2))
    scale = 10.0 ** rng.uniform(-300, 300)
    values = rng.normal(size=(rows, 2)) * scale
    if rng.random() < 0.3:
        values = values.round(2)
    cases = Case({}, {"numbers": True}, {"score": {"name": "residual"}})
    body = written(rng, values)
    if rng.random() < 0.5:
        cases.files["numbers.csv"] = table(rng, ["prediction", "y"], body).encode()
        cases.columns["labels"] = "y"
    else:
        cases.files["numbers.csv"] = table(rng, ["f"], [line[:1] for line in body]).encode()
        cases.files["y.csv"] = table(rng, ["y"], [line[1:] for line in body]).encode()
        cases.columns["prediction"] = "f"
    _about(rng, cases)
    return cases
