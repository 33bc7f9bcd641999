"""Coverage and width of prediction intervals: over all rows, by site and by any other column; and a verdict.

The Winkler score of an interval is its width, and 2/alpha times how far the true value is outside of it: the lower,
the better, and no interval does better on average than the one between the true quantiles. Winkler, "A
decision-theoretic approach to interval estimation", 1972.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, Integers, as_alpha, as_array, as_sites, one_a_row
from fedconformal._base.groups import as_groups
from fedconformal.certificates.certificate import Certificate
from fedconformal.errors import InputError
from fedconformal.evaluation.claims import Rows
from fedconformal.evaluation.mixture import Reweighted, interval_text, reweighted
from fedconformal.evaluation.outcomes import Outcomes, as_clusters, assumed_words
from fedconformal.evaluation.verdict import Verdict, verdict_of
from fedconformal.scores.regression_score import as_numbers

FROM_A_QUANTILE = 2
"""What a distance outside counts for, over alpha."""


class IntervalGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows: how many, how often the truth is in the interval, and how wide the intervals are.

    A width or score that is infinite is None.
    """

    name: str
    rows: int
    coverage: float
    low: float | None
    high: float | None
    """The 95% interval of the coverage is from low to high; there is none if the rows are all of one cluster."""
    mean_width: float | None
    median_width: float | None
    winkler: float | None
    """The mean Winkler score; also None where no alpha is known."""
    infinite: int
    """How many intervals have an end at infinity."""
    clusters: int | None = None
    """How many, where rows come in clusters."""

    @property
    def interval(self) -> str:
        """From where to where the coverage is, as text."""
        return interval_text(self.low, self.high)

    @property
    def width_text(self) -> str:
        """The mean width, as text."""
        return _text(self.mean_width)

    @property
    def cells(self) -> tuple[str, ...]:
        """The numbers as text, for a table with the columns of the evaluation."""
        clusters = () if self.clusters is None else (str(self.clusters),)
        widths = (self.width_text, _text(self.median_width), _text(self.winkler))
        return self.name, str(self.rows), *clusters, f"{self.coverage:.4f}", self.interval, *widths


class IntervalEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """How intervals did on rows with known values.

    A single site a little below 1 - alpha is not a violation: the promise is on average over calibration draws and the
    stated mixture.
    """

    overall: IntervalGroup
    by_site: list[IntervalGroup]
    interval_assumes: str
    """What the 95% intervals of the coverage assume."""
    reweighted: Reweighted | None = None
    """Coverage under the mixture of the sites that was certified, where a certificate was given."""
    by_group: dict[str, list[IntervalGroup]] = {}
    """Coverage by the values of other columns, by the name of the column."""
    verdict: Verdict | None = None
    """Whether the rows contradict the promise, where a certificate was given."""

    @property
    def coverage(self) -> float:
        """The share of rows whose interval holds the truth."""
        return self.overall.coverage

    @property
    def columns(self) -> tuple[str, ...]:
        """The titles of a group's cells, after its name."""
        clusters = () if self.overall.clusters is None else ("clusters",)
        return "rows", *clusters, "coverage", "95% interval", "mean width", "median", "Winkler"

    @property
    def interval_words(self) -> str:
        """What the 95% intervals are, and what they assume, in a sentence."""
        return assumed_words(self.interval_assumes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, dicts and numbers, ready for JSON."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built

    def __repr__(self) -> str:
        overall = self.overall
        width = "inf" if overall.mean_width is None else f"{overall.mean_width:.6g}"
        return f"IntervalEvaluation(coverage={self.coverage:.4f}, mean_width={width}, rows={overall.rows})"


def evaluate_intervals(
    intervals: ArrayLike,
    y: ArrayLike,
    *,
    sites: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    groups: Mapping[str, ArrayLike] | None = None,
    certificate: Certificate | None = None,
    alpha: Any = None,
) -> IntervalEvaluation:
    """Compare (n, 2) intervals, lower and upper ends, with the true values.

    Args:
        intervals: the two ends of each row; they may be infinite, and both belong to the interval.
        y: the true values.
        sites: which site each row is from.
        clusters: which cluster each row is from, such as the patient of a visit; rows of one cluster may depend on
            each other. Without them the 95% intervals are right only if all rows are independent.
        groups: other columns to give the coverage by, such as {"sex": [...], "age": [...]}: one value a row.
        certificate: whose promise is tested; for the coverage of its mixture it needs `sites`.
        alpha: at which the intervals were made, if it is not the certified one.

    >>> result = evaluate_intervals([[0, 2], [1, 2], [1, 4]], [1.0, 2.5, 3.0], sites=["a", "a", "b"], alpha=0.5)
    >>> result
    IntervalEvaluation(coverage=0.6667, mean_width=2, rows=3)
    >>> result.overall.winkler  # one row is .5 outside: 2 + 2/.5 * .5/3
    2.6666666666666665
    >>> [(group.name, group.coverage, group.mean_width) for group in result.by_site]
    [('a', 0.5, 1.5), ('b', 1.0, 3.0)]
    """
    ends = as_intervals(intervals)
    rows = len(ends)
    truth = as_numbers(one_a_row(as_array(y, "y"), rows, "y"), "y")
    owners = None if sites is None else as_sites(sites, rows=rows)
    ids = as_clusters(clusters, rows=rows)
    columns = {name: as_groups(values, rows=rows, name=name) for name, values in (groups or {}).items()}
    low, high = ends.T
    covered = (low <= truth) & (truth <= high)
    known = certificate.alpha if alpha is None and certificate is not None else alpha
    wanted = None if known is None else as_alpha(known)
    outside = np.maximum(0.0, np.maximum(low - truth, truth - high))
    winkler = None if wanted is None else high - low + FROM_A_QUANTILE / float(wanted) * outside
    counted = Outcomes(covered, ids, partial(_group, high - low, winkler))
    overall = counted.overall()
    verdict = None
    if certificate is not None and wanted is not None:
        whole = bool((np.isneginf(low) & np.isposinf(high)).all())
        outcome = Rows(covered, np.zeros(rows, np.int64), owners, ids)
        verdict = verdict_of(certificate, wanted, outcome, all_full=whole, noun="intervals")
    return IntervalEvaluation(
        overall=overall,
        by_site=[] if owners is None else counted.by_value(owners),
        interval_assumes=counted.assumes,
        reweighted=None if certificate is None else reweighted(covered, owners, ids, certificate),
        by_group={name: counted.by_value(values) for name, values in columns.items()},
        verdict=verdict,
    )


def as_intervals(intervals: ArrayLike) -> Floats:
    """Return (n, 2) ends; each lower end is at most the upper one."""
    ends = as_array(intervals, "intervals")
    if ends.ndim != 2 or ends.shape[1] != 2 or ends.dtype.kind not in "iuf" or not len(ends):
        raise InputError(f"intervals: expected (rows, 2) ends, got {ends.dtype} of shape {ends.shape}")
    ends = ends.astype(np.float64)
    wrong = ~(ends[:, 0] <= ends[:, 1])  # also where one is no number
    if wrong.any():
        row = int(np.argmax(wrong))
        low, high = ends[row].tolist()
        raise InputError(f"intervals: row {row} is from {low:g} to {high:g}, expected the lower end first")
    return ends


def infinite_words(infinite: int, rows: int) -> str:
    """Say how many intervals say nothing on one side or on both.

    >>> infinite_words(3, 200)
    '3 of 200 intervals have an end at infinity'
    """
    return f"{infinite} of {rows} intervals have an end at infinity"


def _group(widths: Floats, winkler: Floats | None, mine: Integers, about: dict[str, Any]) -> IntervalGroup:
    return IntervalGroup(
        **about,
        mean_width=_finite(widths[mine].mean()),
        median_width=_finite(np.sort(widths[mine])[(len(mine) - 1) // 2]),
        winkler=None if winkler is None else _finite(winkler[mine].mean()),
        infinite=int(np.isinf(widths[mine]).sum()),
    )


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _text(width: float | None) -> str:
    return "infinite" if width is None else f"{width:.4g}"
