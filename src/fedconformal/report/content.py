"""Test rows of a report, and the parts of a page that depend on the kind of predictor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.groups import Groups
from fedconformal.report.html import Answer


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedRows:
    """Outputs of the model and the truth of test rows.

    Parameters
    ----------
    outputs
        Probabilities, or predictions in the columns of the score.
    truth
        Labels as positions, or numbers.
    groups, sites
        Columns that the predictor takes thresholds by.
    """

    outputs: NDArray[Any]
    truth: NDArray[Any]
    groups: Groups | None = None
    sites: NDArray[Any] | None = None

    def strata_at(self, index: Any = slice(None)) -> dict[str, Any]:
        """Return the groups and the sites of some of the rows, as predictors take them."""
        groups = self.groups and {name: np.asarray(values)[index] for name, values in self.groups.items()}
        return {"groups": groups, "sites": None if self.sites is None else self.sites[index]}


class Content(NamedTuple):
    """Title, introduction, answers, notes (HTML), sections (HTML) and script of a page."""

    title: str
    lede: str
    answers: Iterable[Answer]
    notes: Iterable[str]
    sections: Iterable[str]
    script: str = ""
