"""What is to be known of the sites of a calibration: who outweighs the others, and who says less of its scores."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from fedconformal.calibration.certificate import Certificate, HeavySite, heavy_sites, site_names
from fedconformal.errors import HeavySiteWarning, InfeasibleWarning, VersionWarning
from fedconformal.evaluation.full import why_full
from fedconformal.summaries.summary import Summary

__all__ = ["heavy_sites", "heavy_warning", "remarks", "silent_sites", "site_names", "warn_of_sites"]


def warn_of_sites(certificate: Certificate) -> None:
    """Warn of sites that outweigh the others, and of those that say less of their scores than others do."""
    for remark in remarks(certificate):
        warnings.warn(remark, stacklevel=3)


def remarks(certificate: Certificate) -> list[UserWarning]:
    """Say what is to be known of the sites in a certificate."""
    found: list[UserWarning] = [*map(heavy_warning, certificate.heavy_sites or [])]
    claim = certificate.privacy or {}
    if claim.get("mode") == "sums" and "epsilon" not in claim and (why := why_full(certificate)):
        found.append(InfeasibleWarning(why))
    if quiet := certificate.version_1_sites:
        more = f" and {len(quiet) - 5} more" if len(quiet) > 5 else ""
        found.append(
            VersionWarning(
                f"the summaries of {', '.join(map(repr, quiet[:5]))}{more} are of version 1 of the format and do not "
                "say what the others do (classes, precision or calibration), so it is not checked there; update these "
                "sites"
            )
        )
    return found


def heavy_warning(heavy: HeavySite) -> HeavySiteWarning:
    """Say what it means that a site outweighs the others."""
    return HeavySiteWarning(
        f"site {heavy.site!r} has {heavy.share:.0%} of all scores, by its own claim, so the promise is mostly to "
        "that site; if that is not meant, bound what a site may claim (most_scores), or use weights of your own"
    )


def silent_sites(summaries: Sequence[Summary]) -> list[str]:
    """Name the sites whose summaries are of version 1, if others' are not."""
    if len({id(summary.origin) for summary in summaries}) == 1:
        return []
    silent = [summary.origin.silent for summary in summaries for _ in summary.sizes]
    return [] if all(silent) else [name for name, quiet in zip(site_names(summaries), silent, strict=True) if quiet]
