"""What a site says of its scores: a small message that bounds how many lie at or below any number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike, NDArray

from fedconformal._base import registry
from fedconformal._base.arrays import as_scores
from fedconformal._base.names import as_name
from fedconformal.errors import InputError
from fedconformal.scores import Score
from fedconformal.summaries.by_class import ClassSummary
from fedconformal.summaries.origin import Origin, as_classes
from fedconformal.summaries.summary import Summary, pool

__all__ = ["ClassSummary", "Origin", "Summary", "pool", "summarize"]


def summarize(  # noqa: PLR0913
    scores: ArrayLike,
    kind: str = "ranks",
    *,
    alpha: Any = None,
    score: Score | None = None,
    model: str | None = None,
    temperature: float | None = None,
    site: str | None = None,
    labels: ArrayLike | None = None,
    by_class: bool = False,
    classes: int | Sequence[str] | NDArray[Any] | None = None,
    precision: str | None = None,
    estimated: bool = False,
    calibration: str | None = None,
    expires: str | None = None,
) -> Summary:
    """Summarise the calibration scores of one site; `by_class` with the `labels` for promises given the class.

    `kind` is "ranks" (certified, about a kilobyte), "exact" (all scores), "ddsketch" (certified, buckets that
    grow by one per cent) or "tdigest" (the paper's sketch; close, but a calibration from it is "estimated").
    `alpha` says where precision matters most; the summary stays valid at every other alpha. What the scores
    were made from (`score`, `model` fingerprint, `temperature`) travels along, so that summaries that do not
    match are never mixed. So do `classes` (their number, or their names in order), `precision` ("float32" if
    probabilities were rounded to it before they were scored), `estimated` (no theorem covers how the scores were made),
    and the id of the one `calibration` that the summary is for, at `alpha`, until the day `expires` (2027-06-30).

    >>> summarize([0.1, 0.4, 0.2], site="clinic-a").count_at_most(0.2)
    (2, 2)
    """
    cls = registry.find(kind, Summary)
    about: dict[str, Any] = {
        "sites": () if site is None else (as_name(site, "site"),),
        "origin": Origin(
            score=score,
            model=None if model is None else as_name(model, "model fingerprint"),
            temperature=temperature,
            classes=None if classes is None else as_classes(classes),
            precision=precision,
            estimated=estimated,
            calibration=calibration,
            alpha=None if calibration is None else alpha,
            expires=expires,
        ),
    }
    if by_class != (labels is not None):
        raise InputError("labels and by_class=True go together; give both or neither")
    if labels is not None:
        return ClassSummary.of_classes(scores, labels, cls, alpha=alpha, **about)
    return cls.of_scores(as_scores(scores), alpha=alpha, **about)
