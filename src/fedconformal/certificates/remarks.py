"""Warnings about the sites of a certificate."""

from __future__ import annotations

import warnings

from fedconformal.certificates import text
from fedconformal.certificates.certificate import Certificate
from fedconformal.certificates.uninformative import explain_uninformative
from fedconformal.errors import HeavySiteWarning, InfeasibleWarning


def warn_of_sites(certificate: Certificate) -> None:
    """Warn of sites that outweigh the others, and of sums without a finite threshold."""
    for remark in remarks(certificate):
        warnings.warn(remark, stacklevel=3)


def remarks(certificate: Certificate) -> list[UserWarning]:
    """Return the warnings."""
    found: list[UserWarning] = [
        HeavySiteWarning(text.heavy_site(heavy.site, heavy.share)) for heavy in certificate.heavy_sites
    ]
    claim = certificate.privacy or {}
    plain = claim.get("mode") == "sums" and "epsilon" not in claim and certificate.risk is None
    if plain and (why := explain_uninformative(certificate)):
        found.append(InfeasibleWarning(why))
    return found
