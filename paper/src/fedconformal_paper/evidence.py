"""Evidence for claims: recorded tables and our own runs, by data set and method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from fedconformal_paper import runs
from fedconformal_paper.numbers import FULL_RESULTS, METHODS
from fedconformal_paper.record import Record
from fedconformal_paper.runs import Run

LEVEL = 0.9
"""At which sets are compared."""
OTHERS = "others' logits"


class Found(NamedTuple):
    """Size and coverage at 0.9, with a short description of their origin."""

    size: float
    coverage: float
    cut: str


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The tables of a record and the runs of a directory."""

    record: Record
    runs: list[Run]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """Return the rows of a recorded table; empty if it is not recorded."""
        return self.record.tables[table].rows if table in self.record.tables else []

    def others(self, dataset: str, method: str) -> Found | None:
        """Return the result of others' logits, if any."""
        found = self._tabled(dataset, method)
        return found if found and found.cut == OTHERS else None

    def all_others(self) -> list[Found]:
        """Return the results of others' logits on the paper's data sets."""
        return [one for dataset in FULL_RESULTS for method in METHODS if (one := self.others(dataset, method))]

    def largest(self, logits: str, *, way: str = "", model: str = "") -> Run | None:
        """Return our run with the most training."""
        return runs.largest(self.runs, logits, way=way, model=model)

    def best(self, dataset: str, method: str) -> Found | None:
        """Return the result of others' logits if any, else of our run with the most training, else of a table."""
        tabled = self._tabled(dataset, method)
        run = self.largest(f"{dataset}_{method}")
        if run is None or (tabled and tabled.cut == OTHERS):
            return tabled
        way = f", {run.way}" if run.way else ""
        return Found(run.size, run.coverage, f"{run.short}{way}")

    def _tabled(self, dataset: str, method: str) -> Found | None:
        for row in self.rows("full-results"):
            if row[:3] == (dataset, METHODS[method], LEVEL):
                return Found(row[6].mean, row[4].mean, OTHERS if row[-1].startswith(OTHERS) else "own run")
        return None
