"""The certificate of a private release: the threshold, what is claimed, and nothing else that comes from the rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fedconformal._base.arrays import Floats
from fedconformal.calibration.calibrate import Calibration
from fedconformal.calibration.certificate import SummaryRecord, made_certificate, threshold_json
from fedconformal.calibration.remarks import heavy_sites, warn_of_sites
from fedconformal.errors import InfeasibleWarning
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.one_step import one_step
from fedconformal.summaries import Origin

OUTSIDE = "the model, the temperature, every n_k, the names of the sites, and whatever else is published about the rows"
UNIT = "replacing one calibration row of one site; every n_k is public"


@dataclass(frozen=True, kw_only=True, eq=False)
class Claim:
    """What is claimed about privacy, and what that costs."""

    definition: str
    epsilon: Fraction
    grid: Floats
    promised: Fraction
    """The coverage that remains."""
    failure: Fraction
    details: dict[str, Any]
    """What else is public about the mechanism."""
    outside: str = OUTSIDE

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the certificate."""
        return {
            "definition": self.definition,
            "epsilon": float(self.epsilon),
            "unit": UNIT,
            "candidates": len(self.grid),
            "grid": [threshold_json(candidate) for candidate in self.grid.tolist()],
            **self.details,
            "failure": float(self.failure),
            "coverage": float(self.promised),
            "outside": self.outside,
        }


def released(
    threshold: float,
    claim: Claim,
    *,
    alpha: Fraction,
    guarantee: Guarantee,
    names: Sequence[str],
    records: Sequence[SummaryRecord],
    origin: Origin,
    caveat: str = "",
) -> Calibration:
    """Write the certificate; its promise curve has one step."""
    sizes = [n for record in records for n in record.sizes]
    certificate = made_certificate(
        guarantee=guarantee,
        sites=names,
        origin=origin,
        status="estimated" if origin.estimated else "certified",
        promise=guarantee.promise(names) + ", and over the noise of the release",
        caveat=guarantee.caveat + caveat,
        alpha=float(alpha),
        threshold=threshold_json(threshold),
        target=str(1 - alpha),
        rank=None,
        rank_out_of=None,
        slack=1.0,
        coverage_at_least=0.0 if origin.estimated else float(claim.promised),
        coverage_at_most=1.0,
        summaries=records,
        heavy_sites=heavy_sites(guarantee, names, sizes) or None,
        privacy=claim.to_dict(),
    )
    warn_of_sites(certificate)
    return Calibration(certificate, lambda: one_step(threshold, claim.promised))


def warn_of_too_few(alpha: Fraction, scores: int, epsilon: Fraction) -> None:
    """Say that nothing can be promised."""
    warnings.warn(
        f"alpha={float(alpha):g} cannot be promised from {scores} scores with epsilon={float(epsilon):g}, so "
        "every label is in every set; calibration scores needed: more, at any site",
        InfeasibleWarning,
        stacklevel=3,
    )
