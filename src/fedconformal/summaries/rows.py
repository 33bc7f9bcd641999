"""Summaries of the rows of a site: model outputs and truth are scored exactly as in predictors.

Probabilities are rounded to float32 before scoring, here and in predictors, because scores that depend on the precision
of the outputs lose coverage at ties. Numbers are not rounded, as the last digits of large numbers may matter; the
summary records whether predictions are float32, so that predictors round alike.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, Integers, Probabilities, as_array
from fedconformal._base.classes import as_class_indices, in_order, names_and_values
from fedconformal._base.groups import Groups
from fedconformal._base.registry import build
from fedconformal.errors import InputError, SuspiciousInputWarning
from fedconformal.losses import Loss
from fedconformal.losses.loss import as_grid
from fedconformal.scores import DEFAULT, AnyScore, RegressionScore, Score
from fedconformal.summaries.losses import LossSummary
from fedconformal.summaries.provenance import Classes, as_classes
from fedconformal.summaries.summary import Summary

PRECISION = "float32"
LEAST_ROWS = 20
"""Minimum number of rows for a warning that a model contradicts the labels."""


@dataclass(frozen=True)
class ScoredRows:
    """Scores of rows, and the provenance that follows from the rows."""

    scores: Floats
    labels: Integers | None = None
    classes: Classes | None = None
    precision: str | None = None
    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Number of rows by label and most probable label."""


def warn_of_labels(pairs: Counter[tuple[int, int]], where: str) -> None:
    """Warn, locally, if a model is clearly less accurate than predicting the most frequent class.

    `pairs` counts rows by label and most probable label; `where` opens the warning. As a valid model can do this at a
    site with few classes, another order of the classes must agree more often, or shuffled labels as often.
    """
    seen = {label: i for i, label in enumerate(sorted({label for pair in pairs for label in pair}))}
    table = np.zeros((len(seen), len(seen)))
    for (label, top), count in pairs.items():
        table[seen[label], seen[top]] = count
    n, right, commonest = int(table.sum()), int(table.trace()), int(table.sum(axis=1).max(initial=0))
    if n < LEAST_ROWS or commonest - right <= math.sqrt(n) / 2:
        return
    from scipy.optimize import linear_sum_assignment

    best_order = table[linear_sum_assignment(table, maximize=True)].sum()
    if best_order - right > math.sqrt(n) or _is_chance(table, right):
        warnings.warn(
            f"{where}the most probable label is right in {right} of {n} rows, less often than the commonest class "
            f"alone ({commonest}); check that the classes are in the order of the columns, that labels are not "
            "shifted by one, and that outputs and labels are of the same rows",
            SuspiciousInputWarning,
            stacklevel=3,
        )


def _is_chance(table: Floats, right: int) -> bool:
    """Whether shuffled labels would agree as often, within two standard deviations; False if all labels are equal."""
    n, labels, tops = table.sum(), table.sum(axis=1), table.sum(axis=0)
    both = labels * tops
    variance = (both @ ((n - labels) * (n - tops)) + both.sum() ** 2 - both @ both) / (n**2 * (n - 1))
    return bool(variance > 0 and right <= both.sum() / n + 2 * math.sqrt(variance))


def summarize(  # noqa: PLR0913
    outputs: Any,
    truth: Any = None,
    *,
    score: AnyScore | str = DEFAULT,
    loss: Loss | str | None = None,
    kind: str = "ranks",
    site: str | None = None,
    alpha: Any = None,
    by_class: bool = False,
    groups: Groups | None = None,
    classes: int | Sequence[str] | None = None,
    thresholds: ArrayLike | None = None,
    skipped: int = 0,
    **provenance: Any,
) -> Summary:
    """Score the calibration rows of one site and summarise the scores.

    Parameters
    ----------
    outputs, truth
        Probabilities and labels; predictions and numbers for a regression score; scores and masks for a loss. Or
        `outputs` alone, an iterator of batches (outputs, truth).
    score
        The score, or its spec string such as "raps:penalty=0.1".
    loss
        The loss, or its spec string such as "false-negative-rate"; the summary then holds sums of losses.
    kind
        "ranks" (certified, about a kilobyte), "exact" (all scores), "ddsketch" (certified) or "tdigest" (estimated).
    site
        Name of the site.
    alpha
        Miscoverage level around which the summary is most precise; it is valid at every alpha.
    by_class, groups
        Whether to summarise by class; columns with one value per row, such as {"sex": [...]}, to summarise by group.
    classes
        Number of classes, or their names in order; columns and labels are matched by name.
    thresholds
        With `loss`: the grid, by default 0, 0.001, ..., 1. The same at all sites, fixed beforehand.
    skipped
        Number of rows of the site that were omitted because of a missing value, recorded in the summary.
    provenance
        Other fields of `Provenance`: model, temperature, calibration, expires, estimated, trained.

    Returns
    -------
    Summary

    Examples
    --------
    >>> site = summarize([[0.75, 0.25], [0.5, 0.5]], [0, 1], kind="exact", site="clinic-a")
    >>> site.count_at_most(0.25), site.provenance.classes, site.provenance.precision
    ((1, 1), 2, 'float32')
    >>> summarize([1.0, 2.0], [1.5, 2.5], score="residual").count_at_most(0.5)
    (2, 2)
    >>> summarize([[0.75, 0.25]], [[True, True]], loss="false-negative-rate", thresholds=[0.0, 0.5, 1.0]).mean_losses
    array([1. , 0.5, 0. ])
    """
    if loss is not None:
        if groups is not None or by_class or kind != "ranks" or score is not DEFAULT:
            raise InputError("losses are sums over all rows; leave out score, kind, by_class and groups", param="loss")
        function, grid = build(loss, Loss), as_grid(thresholds)
        losses = np.concatenate([function.evaluate(*batch, thresholds=grid) for batch in _batches(outputs, truth)])
        return LossSummary.of_losses(losses, thresholds=grid, loss=function, site=site, skipped=skipped, **provenance)
    if thresholds is not None:
        raise InputError("thresholds are the grid of a loss; give loss as well", param="thresholds")
    rule: AnyScore = build(score, AnyScore)
    rows = _joined([score_rows(*batch, rule, classes) for batch in _batches(outputs, truth)])
    warn_of_labels(rows.pairs, "" if site is None else f"site {site!r}: ")
    if by_class and rows.labels is None:
        raise InputError(f"{rule.name} scores numbers, which have no class; leave out by_class", param="by_class")
    return Summary.of_scores(
        rows.scores,
        kind=kind,
        site=site,
        alpha=alpha,
        labels=rows.labels if by_class else None,
        groups=groups,
        score=rule,
        classes=rows.classes,
        precision=rows.precision,
        skipped=skipped,
        **provenance,
    )


def score_rows(
    outputs: Any, truth: ArrayLike, score: AnyScore, classes: int | Sequence[str] | None = None
) -> ScoredRows:
    """Score rows, and return the fields that a summary records."""
    if isinstance(score, RegressionScore):
        rounded = as_array(outputs, "predictions").dtype == PRECISION
        return ScoredRows(score.evaluate(outputs, truth), precision=PRECISION if rounded else None)
    if not isinstance(score, Score):
        raise InputError(f"score is {score!r:.80}, expected a score such as fedconformal.LAC()", param="score")
    matrix, labels, known = read_rows(outputs, truth, classes)
    seen, counts = np.unique(labels * matrix.shape[1] + matrix.argmax(axis=1), return_counts=True)
    places = zip(*(part.tolist() for part in divmod(seen, matrix.shape[1])), strict=True)
    pairs = Counter(dict(zip(places, counts.tolist(), strict=True)))
    return ScoredRows(score.evaluate(matrix, labels), labels, known, PRECISION, pairs)


def read_rows(
    probs: Any, labels: ArrayLike, classes: int | Sequence[str] | None = None
) -> tuple[Probabilities, Integers, Classes]:
    """Return probabilities rounded for scoring, class indices of the labels, and the classes."""
    stated = classes if classes is not None else names_and_values(probs)[0]
    known = None if stated is None else as_classes(stated)
    with np.errstate(over="ignore"):  # values too large for float32 are refused at scoring
        matrix = in_order(probs, known).astype(np.float32)
    known = matrix.shape[1] if known is None else known
    return matrix, as_class_indices(labels, rows=len(matrix), classes=known), known


def _batches(outputs: Any, truth: Any) -> Iterable[tuple[Any, Any]]:
    """Return one batch of all rows, or the batches of an iterator."""
    if truth is not None:
        return [(outputs, truth)]
    if not isinstance(outputs, Iterator):
        raise InputError(
            "the truth of the rows is missing; give both, or an iterator of batches of both", param="truth"
        )
    return outputs


def _joined(batches: Sequence[ScoredRows]) -> ScoredRows:
    if not batches:
        raise InputError("there are no batches; a site needs at least one calibration row")
    first = batches[0]
    for number, rows in enumerate(batches):
        for what in ("classes", "precision"):
            if getattr(rows, what) != getattr(first, what):
                raise InputError(f"has other {what} than batch 0; give all batches the same", where=f"batch {number}")
    labels = None if first.labels is None else np.concatenate([rows.labels for rows in batches])
    scores = np.concatenate([rows.scores for rows in batches])
    pairs = sum((rows.pairs for rows in batches), Counter[tuple[int, int]]())
    return ScoredRows(scores, labels, first.classes, first.precision, pairs)
