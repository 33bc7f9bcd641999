"""The certificate of a threshold that came without summaries: from sums only, or with differential privacy.

Nothing is known of any other threshold, so the promise curve has one step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedconformal.calibration.calibrate import Calibration
from fedconformal.calibration.certificate import SummaryRecord, made_certificate, threshold_json
from fedconformal.calibration.curve import PromiseCurve, in_units
from fedconformal.calibration.remarks import heavy_sites, warn_of_sites
from fedconformal.guarantees import Guarantee
from fedconformal.summaries import Origin


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What was calibrated from, for which promise."""

    alpha: Fraction
    guarantee: Guarantee
    names: Sequence[str]
    records: Sequence[SummaryRecord]
    origin: Origin

    @property
    def sizes(self) -> list[int]:
        """The number of scores of every site."""
        return [n for record in self.records for n in record.sizes]


def certify(threshold: float, promised: Fraction, inputs: Inputs, **found: Any) -> Calibration:
    """Write the certificate; `found` has the other fields of it."""
    certificate = made_certificate(
        guarantee=inputs.guarantee,
        sites=inputs.names,
        origin=inputs.origin,
        alpha=float(inputs.alpha),
        threshold=threshold_json(threshold),
        summaries=inputs.records,
        heavy_sites=heavy_sites(inputs.guarantee, inputs.names, inputs.sizes) or None,
        **found,
    )
    warn_of_sites(certificate)
    return Calibration(certificate, lambda: one_step(threshold, promised))


def one_step(threshold: float, promised: Fraction) -> PromiseCurve:
    """Return the curve that promises this much from the threshold on; at +inf, nothing at any finite threshold.

    >>> one_step(0.5, Fraction(9, 10)).threshold(Fraction(1, 10)), one_step(math.inf, Fraction(1)).most
    (0.5, Fraction(0, 1))
    """
    if threshold == math.inf:
        return PromiseCurve(np.array([np.finfo(np.float64).max]), np.array([0]))
    return PromiseCurve(np.array([threshold]), np.array([in_units(promised)]))
