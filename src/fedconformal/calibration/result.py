"""The answer of a calibration: threshold, certificate, and how the two are put together from what a search found."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from fedconformal._base.arrays import Floats
from fedconformal.calibration.certificate import (
    Certificate,
    SummaryRecord,
    made_certificate,
    threshold_json,
)
from fedconformal.guarantees import Guarantee
from fedconformal.summaries.batch import SummaryBatch
from fedconformal.summaries.provenance import combine_provenances
from fedconformal.summaries.summary import Summary


@dataclass(frozen=True, eq=False)
class Calibration:
    """The threshold, the certificate that says what it promises, and the promise at other thresholds."""

    certificate: Certificate
    make_curve: Callable[[], Any]
    make_site_curves: Callable[[], dict[str, Any]] | None = None

    @cached_property
    def site_curves(self) -> dict[str, Any] | None:
        """The same for every site, where each has a threshold of its own."""
        return None if self.make_site_curves is None else self.make_site_curves()

    @cached_property
    def curve(self) -> Any:
        """What every threshold promises; worked out when it is first asked for."""
        return self.make_curve()

    @property
    def threshold(self) -> float | Floats:
        """The threshold at the certified alpha, or one for each class or group; +inf if alpha cannot be promised."""
        return self.certificate.limit

    def __repr__(self) -> str:
        return f"Calibration(threshold={self.certificate.limit_text}, {self.certificate.sentence()!r})"


def band_of(
    bound: Guarantee,
    alpha: Fraction,
    threshold: float,
    sizes: Sequence[int],
    gaps: Sequence[int],
    *,
    sure: bool,
) -> dict[str, Any]:
    """Say what a threshold promises: the target and the theorem's band, never the count that came out."""
    lowest, highest = coverage_of(bound, alpha, threshold, sizes, gaps, sure=sure)
    band = bound.band(alpha, sizes, gaps)
    return {
        "threshold": threshold_json(threshold),
        "rank": band.rank,
        "rank_out_of": band.out_of,
        "slack": float(band.slack),
        "coverage_at_least": float(lowest),
        "coverage_at_most": float(highest),
    }


def coverage_of(
    bound: Guarantee, alpha: Fraction, threshold: float, sizes: Sequence[int], gaps: Sequence[int], *, sure: bool
) -> tuple[Fraction, Fraction]:
    """Return the least coverage that is promised, and the most."""
    if not sure:  # an estimate promises nothing
        return Fraction(0), Fraction(1)
    if threshold == math.inf:
        return Fraction(1), Fraction(1)
    return bound.band(alpha, sizes, gaps)[:2]


def certificate_of(summaries: Sequence[Summary], alpha: Fraction, guarantee: Guarantee, **found: Any) -> Certificate:
    """State what was found from these summaries."""
    stack = SummaryBatch.of(summaries)
    return made_certificate(
        guarantee=guarantee,
        origin=combine_provenances(stack.origins),
        status="certified" if are_sure(stack) and guarantee.certified else "estimated",
        alpha=float(alpha),
        summaries=[
            SummaryRecord(sites=sites, sizes=sizes, kind=kind, sha256=digest)
            for sites, sizes, kind, digest in zip(stack.sites, stack.sizes, stack.kinds, stack.digests, strict=True)
        ],
        **found,
    )


def are_sure(summaries: Sequence[Summary]) -> bool:
    """Whether all counts are bounded for sure, and a theorem covers how all scores were made."""
    stack = SummaryBatch.of(summaries)
    return stack.certified and not any(origin.estimated for origin in stack.origins)
