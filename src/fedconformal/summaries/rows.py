"""From a site's rows to its summary: score them as every predictor will, and say so.

Probabilities are rounded to float32 before they are scored, and predictors do the same. So it does not matter whether
a model's output came as float32 or as float64, here or later: a score that depends on that loses coverage at ties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.arrays import Floats, Integers, Probabilities
from fedconformal._base.classes import as_class_indices, in_order, table_of
from fedconformal._base.groups import Groups
from fedconformal._base.names import as_name
from fedconformal.errors import InputError
from fedconformal.scores import AnyScore, Score
from fedconformal.summaries.provenance import Classes, as_classes
from fedconformal.summaries.summary import Summary, provenance_of

PRECISION = "float32"


def read_rows(
    probs: Any, labels: ArrayLike, classes: int | Sequence[str] | None = None
) -> tuple[Probabilities, Integers, Classes]:
    """Return the probabilities as they are scored, the positions of the labels, and the classes.

    Classes have names if they are given, or if the columns have names; then columns and labels are matched by name.

    >>> read_rows([[0.75, 0.25], [0.5, 0.5]], ["no", "yes"], classes=["no", "yes"])[1:]
    (array([0, 1]), ('no', 'yes'))
    """
    found = classes if classes is not None else table_of(probs)[0]
    known = None if found is None else as_classes(found)
    with np.errstate(over="ignore"):  # what is too large for float32 is refused where it is scored
        matrix = in_order(probs, known).astype(np.float32)
    known = matrix.shape[1] if known is None else known
    return matrix, as_class_indices(labels, rows=len(matrix), classes=known), known


def score_rows(
    probs: Any, labels: ArrayLike, score: Score, classes: int | Sequence[str] | None = None
) -> tuple[Floats, dict[str, Any]]:
    """Return the scores of a site's rows, and what a summary is to say of them."""
    matrix, truth, known = read_rows(probs, labels, classes)
    return score.evaluate(matrix, truth), {"score": score, "classes": known, "precision": PRECISION}


def summarize_rows(
    probs: Any,
    labels: ArrayLike,
    kind: str = "ranks",
    *,
    score: Score,
    by_class: bool = False,
    classes: int | Sequence[str] | None = None,
    **about: Any,
) -> Summary:
    """Score a site's rows and summarise the scores; `about` is what `summarize` takes.

    >>> from fedconformal import LAC
    >>> site = summarize_rows([[0.75, 0.25], [0.5, 0.5]], [0, 1], "exact", score=LAC(), site="clinic-a")
    >>> site.count_at_most(0.25), site.origin.classes, site.origin.precision
    ((1, 1), 2, 'float32')
    """
    matrix, truth, known = read_rows(probs, labels, classes)
    about |= {"score": score, "classes": known, "precision": PRECISION}
    held: dict[str, Any] = {"labels": truth, "by_class": True} if by_class else {}
    return summarize(score.evaluate(matrix, truth), kind, **held, **about)


def summarize(  # noqa: PLR0913
    scores: ArrayLike,
    kind: str = "ranks",
    *,
    alpha: Any = None,
    score: AnyScore | None = None,
    model: str | None = None,
    temperature: float | None = None,
    site: str | None = None,
    labels: ArrayLike | None = None,
    by_class: bool = False,
    groups: Groups | None = None,
    classes: int | Sequence[str] | NDArray[Any] | None = None,
    precision: str | None = None,
    estimated: bool = False,
    trained: bool = False,
    calibration: str | None = None,
    expires: str | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Summary:
    """Summarise the calibration scores of one site; `by_class` with the `labels` for promises given the class.

    `groups` are columns with a value a row, such as {"sex": [...], "age": [...]}, for promises to every group.

    `kind` is "ranks" (certified, about a kilobyte), "exact" (all scores), "ddsketch" (certified, buckets that
    grow by one per cent) or "tdigest" (the paper's sketch; close, but a calibration from it is "estimated").
    `alpha` says where precision matters most; the summary stays valid at every other alpha. What the scores
    were made from (`score`, `model` fingerprint, `temperature`) travels along, so that summaries that do not
    match are never mixed. So do `classes` (their number, or their names in order), `precision` ("float32" if
    probabilities were rounded to it before they were scored), `estimated` (no theorem covers how the scores were made),
    `trained` (the model was trained on other rows of this site, so that nothing is promised to a new site), and the id
    of the one `calibration` that the summary is for, at `alpha`, until the day `expires` (2027-06-30).
    `parameters` are those that the kind itself takes, if it has any.

    >>> summarize([0.1, 0.4, 0.2], site="clinic-a").count_at_most(0.2)
    (2, 2)
    """
    if by_class != (labels is not None):
        raise InputError("labels and by_class=True go together; give both or neither")
    return Summary.of_scores(
        scores,
        kind=kind,
        alpha=alpha,
        site=site,
        labels=labels,
        groups=groups,
        score=score,
        model=model,
        temperature=temperature,
        classes=None if classes is None else as_classes(classes),
        precision=precision,
        estimated=estimated,
        trained=trained,
        calibration=calibration,
        expires=expires,
        parameters=parameters,
    )


def about_site(
    site: str | None, *, alpha: Any = None, calibration: str | None = None, model: str | None = None, **origin: Any
) -> dict[str, Any]:
    """Return what a summary says besides its scores: whose they are, and what they were made from.

    >>> about_site("clinic-a", model="m-1")["sites"]
    ('clinic-a',)
    """
    return {
        "sites": () if site is None else (as_name(site, "site"),),
        "origin": provenance_of(alpha=alpha, calibration=calibration, model=model, **origin),
    }
