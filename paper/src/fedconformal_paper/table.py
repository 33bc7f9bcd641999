"""A table of the paper: rows of numbers, the paper's beside ours, and what has to be said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np


class Measured(NamedTuple):
    """A mean over trials, and the standard deviation between them.

    >>> print(Measured.of([0.89, 0.91, 0.93]), Measured.of([17.0, 19.0]))
    0.910±.020 18.00±1.41
    """

    mean: float
    sd: float

    @classmethod
    def of(cls, trials: Sequence[float] | np.ndarray[Any, Any]) -> Measured:
        """Take the mean and the spread."""
        return cls(float(np.mean(trials)), float(np.std(trials, ddof=1)))

    def __str__(self) -> str:
        """Write three digits after the point, two if it is large, and no zero before that of the deviation."""
        digits = 3 if self.mean < 10 else 2
        return f"{self.mean:.{digits}f}±{self.sd:.{digits}f}".replace("±0.", "±.")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns and rows; a row holds text, numbers, measurements, or None where there is nothing to say.

    The last column says what differs from the paper's experiment; as text it is a number that refers to the notes.

    >>> rows = [("a", 1.25, "2 rounds"), ("b", None, "2 rounds"), ("c", Measured(2.0, 0.5), "3 rounds")]
    >>> table = Table(name="t", title="T", columns=("set", "size", "differs"), rows=rows, notes=["Ten trials."])
    >>> table.cells()
    [('a', '1.25', '1'), ('b', '-', '1'), ('c', '2.000±.500', '2')]
    >>> table.remarks()
    ['Ten trials.', '1: 2 rounds', '2: 3 rounds']
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    notes: list[str] = field(default_factory=list)

    def cells(self) -> list[tuple[str, ...]]:
        """Return every row as text."""
        numbers = self._numbers()
        return [(*map(_text, row[:-1]), str(numbers[row[-1]]) if row[-1] else "") for row in self.rows]

    def remarks(self) -> list[str]:
        """Return the notes, and what the numbers in the last column refer to."""
        return [*self.notes, *(f"{number}: {text}" for text, number in self._numbers().items())]

    def _numbers(self) -> dict[str, int]:
        return {text: i + 1 for i, text in enumerate(dict.fromkeys(row[-1] for row in self.rows if row[-1]))}

    def to_dict(self) -> dict[str, Any]:
        """Describe for JSON."""
        keys = [*(column.replace("\n", " ") for column in self.columns[:-1]), "differs"]
        rows = [dict(zip(keys, map(_plain, row), strict=True)) for row in self.rows]
        return {"name": self.name, "title": self.title, "rows": rows, "notes": self.notes}

    def to_markdown(self) -> str:
        """Write as Markdown, with the remarks below."""
        lines = [
            tuple(column.replace("\n", " ") for column in self.columns),
            tuple("---" for _ in self.columns),
            *self.cells(),
        ]
        table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        return f"{table}\n\n" + "".join(f"- {remark}\n" for remark in self.remarks())


def _plain(value: Any) -> Any:
    return {"mean": round(value.mean, 6), "sd": round(value.sd, 6)} if isinstance(value, Measured) else value


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
