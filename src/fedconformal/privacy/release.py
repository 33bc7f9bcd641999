"""Certificates of thresholds from sums only or with noise.

The noise fails with probability at most gamma, whatever the test row, so coverage is at least 1 - gamma times the
coverage of the guarantee at rank r. For each gamma, r is chosen from public numbers so that this is 1 - alpha.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedconformal._base.arrays import Floats
from fedconformal.calibration.predictor import Predictor
from fedconformal.calibration.search import PromiseCurve, in_units
from fedconformal.certificates import text
from fedconformal.certificates.certificate import (
    Promise,
    SummaryRecord,
    made_certificate,
    site_names,
    threshold_json,
)
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.guarantees import Guarantee
from fedconformal.guarantees.guarantee import Counts
from fedconformal.scores import AnyScore, RegressionScore
from fedconformal.summaries import Provenance

FAILURES = [Fraction(1, 2**power) for power in range(2, 60)]
"""Candidate failure probabilities."""
OUTSIDE = "the model, the temperature, every n_k, the names of the sites, and whatever else is published about the rows"
UNIT = "replacing one calibration row of one site; every n_k is public"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Minimum rank of the threshold, derived from public numbers."""

    rank: int
    covered: Fraction
    """Coverage at this rank without noise."""
    failure: Fraction

    @property
    def promised(self) -> Fraction:
        """Coverage with noise."""
        return (1 - self.failure) * self.covered


def plans_to_try(guarantee: Guarantee, alpha: Fraction, sizes: Counts) -> Iterator[Plan]:
    """Yield the plan for each failure probability at which 1 - alpha is feasible."""
    for failure in FAILURES:
        least = 1 - (1 - alpha) / (1 - failure)
        band = guarantee.band(least, sizes) if least > 0 else None
        if band is not None and band.rank is not None:
            yield Plan(rank=band.rank, covered=band.least, failure=failure)


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Terms of a calibration and the records of its sites."""

    alpha: Fraction
    guarantee: Guarantee
    records: Sequence[SummaryRecord]
    provenance: Provenance


def check_one_end(score: AnyScore | None, label: str) -> None:
    """Refuse a score whose intervals have a threshold at each end."""
    if score is not None and score.lower_share is not None:
        raise InputError(
            f"{label} has scores of {score.name}, whose intervals need a threshold at each end, and sums and "
            "noisy counts give one; use residual, normalized or cqr"
        )


def certify(curve: PromiseCurve, inputs: Inputs, **fields: Any) -> Predictor:
    """Return a predictor for a threshold without summaries, with one step; `fields` go into the certificate."""
    answers = text.answers_to(inputs.provenance.score)
    words = {key: fields.pop(key) for key in ("promise", "caveat") if key in fields}
    certificate = made_certificate(
        statement=text.statement(inputs.guarantee, site_names(inputs.records), answers, **words),
        guarantee=inputs.guarantee,
        provenance=inputs.provenance,
        alpha=float(inputs.alpha),
        summaries=inputs.records,
        status="estimated" if inputs.provenance.estimated else "certified",
        **fields,
    )
    text.warn_of_sites(certificate)
    return Predictor(certificate=certificate, make_curves=lambda: [curve])


def one_step(threshold: float, promised: Fraction) -> PromiseCurve:
    """Return the promise curve with one step at the threshold; at +inf, zero at every finite threshold.

    >>> one_step(0.5, Fraction(9, 10)).threshold(Fraction(1, 10)), one_step(math.inf, Fraction(1)).promised.tolist()
    (0.5, [0])
    """
    if threshold == math.inf:
        return PromiseCurve(np.array([np.finfo(np.float64).max]), np.array([0]))
    return PromiseCurve(np.array([threshold]), np.array([in_units(promised)]))


def certify_release(
    threshold: float,
    plan: Plan | None,
    inputs: Inputs,
    *,
    definition: str,
    epsilon: Fraction,
    grid: Floats,
    outside: str = OUTSIDE,
    caveat: str = "",
    **details: Any,
) -> Predictor:
    """Return a predictor that holds the threshold and the privacy claim only; without a plan nothing is released."""
    alpha, guarantee, provenance = inputs.alpha, inputs.guarantee, inputs.provenance
    scores = sum(sum(record.sizes) for record in inputs.records)
    promised = Fraction(1) if plan is None else plan.promised
    if plan is None:
        numbers = isinstance(provenance.score, RegressionScore)
        warnings.warn(
            f"alpha={float(alpha):g} cannot be promised from {scores} scores with epsilon={float(epsilon):g}, so "
            f"{text.missing_ends([threshold]) if numbers else text.SETS.uninformative}; "
            "calibration scores needed: more, at any site",
            InfeasibleWarning,
            stacklevel=3,
        )
    return certify(
        one_step(threshold, promised),
        inputs,
        promise=text.promise(guarantee, site_names(inputs.records)) + ", and over the noise of the release",
        caveat=text.caveat(guarantee, text.answers_to(provenance.score)) + caveat,
        target=1 - alpha,
        promises=[Promise.of(threshold, scores, least=0.0 if provenance.estimated else float(promised))],
        privacy={
            "definition": definition,
            "epsilon": float(epsilon),
            "unit": UNIT,
            "candidates": len(grid),
            "grid": [threshold_json(candidate) for candidate in grid.tolist()],
            **details,
            "failure": 0.0 if plan is None else float(plan.failure),
            "coverage": float(promised),
            "outside": outside,
        },
    )
