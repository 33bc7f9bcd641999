"""Tables of the paper: rows with the paper's numbers and ours, and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from fedconformal_paper.absent import not_here

NOT_GIVEN = "not given"
"""Text of a number that the paper does not state."""


class Measured(NamedTuple):
    """A mean over trials, and the standard deviation between them.

    >>> print(Measured.of([0.89, 0.91, 0.93]), Measured.of([17.0, 19.0]))
    0.910±.020 18.00±1.41
    """

    mean: float
    sd: float

    @classmethod
    def of(cls, trials: Sequence[float] | np.ndarray[Any, Any]) -> Measured:
        """Return mean and standard deviation of trials."""
        return cls(round(float(np.mean(trials)), 6), round(float(np.std(trials, ddof=1)), 6))

    def __str__(self) -> str:
        """Format with three decimals, two for large means, without the leading zero of the deviation."""
        digits = 3 if self.mean < 10 else 2
        return f"{self.mean:.{digits}f}±{self.sd:.{digits}f}".replace("±0.", "±.")


@dataclass(frozen=True, kw_only=True)
class Part:
    """Rows from the same logits, or the command that makes absent logits."""

    name: str
    rows: Sequence[tuple[Any, ...]] = ()
    """Text, numbers, measurements, or None if the paper states no number."""
    see: str = ""
    """Deviations from the paper's experiment."""
    network: str = ""
    """The network of an own run; empty for others' logits."""
    command: str = ""
    """Empty unless the part is absent."""

    def to_dict(self) -> dict[str, Any]:
        """Describe for JSON."""
        if self.command:
            return {"name": self.name, "command": self.command}
        rows = [list(map(_plain, row)) for row in self.rows]
        return {"name": self.name, "see": self.see, "network": self.network, "rows": rows}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Part:
        """Return the part of a dictionary from `to_dict`."""
        rows = [tuple(map(_value, row)) for row in found.get("rows", ())]
        rest = {key: found[key] for key in ("see", "network", "command") if key in found}
        return cls(name=found["name"], rows=rows, **rest)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns, and rows in parts; the last column refers to notes on deviations from the paper.

    >>> parts = [Part(name="a", rows=[("a", 1.25), ("b", None)], see="2 rounds"), Part(name="c", command="train c")]
    >>> table = Table(name="t", title="T", columns=("set", "size", "see"), parts=parts, notes=["Ten trials."])
    >>> table.cells()
    [('a', '1.25', '1'), ('b', 'not given', '1')]
    >>> table.remarks()
    ['Ten trials.', '1: 2 rounds', 'Not here: c. Such logits come from `train c`.']
    """

    name: str
    title: str
    columns: tuple[str, ...]
    parts: list[Part]
    notes: list[str] = field(default_factory=list)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """All measured rows, each with its deviations in the last column."""
        return [(*row, part.see) for part in self.parts for row in part.rows]

    @property
    def absent(self) -> list[Part]:
        """Parts without logits, unless a further run of the same model, with a label in brackets, replaces them."""
        there = [part.name for part in self.parts if not part.command]
        return [
            part for part in self.parts if part.command and not any(name.startswith(f"{part.name} (") for name in there)
        ]

    def cells(self) -> list[tuple[str, ...]]:
        """Return every row as text."""
        numbers = self._numbers()
        return [(*map(_text, row[:-1]), str(numbers[row[-1]]) if row[-1] else "") for row in self.rows]

    def remarks(self) -> list[str]:
        """Return the notes, the references of the last column, and the absent parts."""
        numbered = [f"{number}: {text}" for text, number in self._numbers().items()]
        return [*self.notes, *numbered, *not_here({part.name: part.command for part in self.absent})]

    def _numbers(self) -> dict[str, int]:
        return {text: i + 1 for i, text in enumerate(dict.fromkeys(row[-1] for row in self.rows if row[-1]))}

    def with_kept(self, before: Table) -> tuple[Table, list[str]]:
        """Return the table with absent parts from an earlier table, and the names of the kept parts.

        >>> made = Table(name="t", title="T", columns=("n", "see"), parts=[Part(name="a", command="train a")])
        >>> before = replace(made, parts=[Part(name="a", rows=[(1,)]), Part(name="a (run x)", rows=[(2,)])])
        >>> table, kept = made.with_kept(before)
        >>> table.rows, kept
        ([(1, ''), (2, '')], ['a', 'a (run x)'])
        """
        measured = {part.name: part for part in before.parts if not part.command}
        kept = [part.name for part in self.parts if part.command and part.name in measured]
        parts = [measured[part.name] if part.name in kept else part for part in self.parts]
        for name, part in measured.items():
            if name not in [one.name for one in parts]:
                same = [i for i, one in enumerate(parts) if name.startswith(one.name.partition(" (")[0] + " (")]
                parts.insert(same[-1] + 1 if same else len(parts), part)
                kept.append(name)
        return replace(self, parts=parts), kept

    def to_dict(self) -> dict[str, Any]:
        """Return the table for JSON, with a name for every number."""
        keys = [*(column.replace("\n", " ") for column in self.columns[:-1]), "differs"]
        rows = [dict(zip(keys, map(_plain, row), strict=True)) for row in self.rows]
        absent = [part.to_dict() for part in self.absent]
        return {"name": self.name, "title": self.title, "rows": rows, "absent": absent, "notes": self.notes}

    def to_record(self) -> dict[str, Any]:
        """Return the table for JSON, in the format of `from_record`."""
        columns = [column.replace("\n", " ") for column in self.columns]
        parts = [part.to_dict() for part in self.parts]
        return {"title": self.title, "columns": columns, "notes": self.notes, "parts": parts}

    @classmethod
    def from_record(cls, name: str, found: Mapping[str, Any]) -> Table:
        """Return the table of a dictionary from `to_record`."""
        parts = [Part.from_dict(part) for part in found["parts"]]
        columns = tuple(found["columns"])
        return cls(name=name, title=found["title"], columns=columns, parts=parts, notes=list(found["notes"]))

    def to_markdown(self) -> str:
        """Return the table as Markdown, followed by remarks; a last column without notes is omitted."""
        width = len(self.columns) if self._numbers() else len(self.columns) - 1
        lines = [
            tuple(column.replace("\n", " ") for column in self.columns),
            tuple("---" for _ in self.columns),
            *self.cells(),
        ]
        table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line[:width]) + " |" for line in lines)
        remarks = "".join(f"- {remark}\n" for remark in self.remarks())
        return f"{table}\n\n{remarks}" if self.rows else remarks


def _plain(value: Any) -> Any:
    return {"mean": round(value.mean, 6), "sd": round(value.sd, 6)} if isinstance(value, Measured) else value


def _value(plain: Any) -> Any:
    return Measured(float(plain["mean"]), float(plain["sd"])) if isinstance(plain, dict) else plain


def _text(value: Any) -> str:
    if value is None:
        return NOT_GIVEN
    return f"{value:.4g}" if isinstance(value, float) else str(value)
