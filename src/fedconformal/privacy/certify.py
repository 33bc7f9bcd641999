"""The certificate of a threshold that came without summaries: from sums only, or with differential privacy.

Nothing is known of any other threshold, so the promise curve has one step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from fedconformal.calibration.calibrate import Calibration, heavy_sites, warn_of_sites
from fedconformal.calibration.certificate import SummaryRecord, made_certificate, threshold_json
from fedconformal.calibration.curve import PromiseCurve, in_units
from fedconformal.guarantees import Guarantee
from fedconformal.summaries import Origin


def certify(
    threshold: float,
    promised: Fraction,
    *,
    alpha: Fraction,
    guarantee: Guarantee,
    names: Sequence[str],
    records: Sequence[SummaryRecord],
    origin: Origin,
    **found: Any,
) -> Calibration:
    """Write the certificate; `found` has the other fields of it."""
    sizes = [n for record in records for n in record.sizes]
    certificate = made_certificate(
        guarantee=guarantee,
        sites=names,
        origin=origin,
        alpha=float(alpha),
        threshold=threshold_json(threshold),
        clients=len(sizes),
        scores=sum(sizes),
        summaries=list(records),
        heavy_sites=heavy_sites(guarantee, names, sizes) or None,
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
