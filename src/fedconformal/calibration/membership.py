"""Which rows are in which of the groups or sites that a predictor was calibrated for; others are promised nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Integers, as_alpha, as_sites
from fedconformal._base.groups import NONE, Groups, columns_of, members
from fedconformal._base.names import listed, name_key, shown
from fedconformal.calibration.certificate import Certificate
from fedconformal.calibration.curve import SiteFields
from fedconformal.errors import InputError


def needed_of(certificate: Certificate, groups: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Take the columns that a predictor needs, where others are given too; None if it needs none."""
    if certificate.groups is None:
        return None
    needed = certificate.group_columns
    return {str(name): values for name, values in (groups or {}).items() if name_key(str(name)) in needed}


def members_for(certificate: Certificate, groups: Groups | None, rows: int) -> dict[str, Integers]:
    """Return which rows are in each calibrated group, and refuse rows that are promised nothing."""
    needed = certificate.group_columns
    if not groups or columns_of(groups) != needed:
        got = f"got {listed(columns_of(groups))}" if groups else "got none"
        raise InputError(f"the predictor needs the columns {listed(needed)} of every row, {got}", where="groups")
    found, known = members(groups, rows=rows), {record.group for record in certificate.groups or ()}
    for group in found.keys() - known:
        row = found[group][0]
        if group == NONE:
            raise InputError(
                f"has no value of {listed(needed)}, and every calibration row had one, so nothing is "
                "promised to it; fill in a value, or leave such rows out",
                where="groups",
                row=row,
            )
        raise InputError(
            f"is in {group}, as no calibration row is, so nothing is promised to it; correct the "
            "value, leave such rows out, or calibrate again with rows of that group",
            where="groups",
            row=row,
        )
    return found


def site_members(certificate: Certificate, sites: ArrayLike, rows: int) -> dict[str, Integers]:
    """Return which rows are of each calibrated site, by its name there; one name is that of all rows."""
    if certificate.by_site is None:
        raise InputError("sites: the predictor has one threshold for all sites; leave them out")
    given = as_sites(np.full(rows, sites) if isinstance(sites, str) else sites, rows=rows).astype(np.str_)
    known = {name_key(record.site): record.site for record in certificate.by_site}
    names, first, index, counts = np.unique(given, return_index=True, return_inverse=True, return_counts=True)
    for name, row in zip(names.tolist(), first.tolist(), strict=True):
        if name not in known:
            raise InputError(
                f"sites: row {row} is of {shown(name)}, which was not calibrated, so nothing is promised to it; "
                f"there are {listed(list(known.values()))}"
            )
    parts = np.split(np.argsort(index, kind="stable"), np.cumsum(counts)[:-1])
    return {known[name]: mine for name, mine in zip(names.tolist(), parts, strict=True)}


def own_sites(certificate: Certificate, sites: Any) -> Any:
    """Take the sites of rows for a predictor with a threshold for each; None for any other."""
    return None if certificate.by_site is None else sites


SiteCurves = Mapping[str, Any]
"""The promise curve of every site, by its name in the certificate."""


def read_sites(certificate: Certificate, found: Sequence[SiteFields] | None, share: Any = None) -> SiteCurves | None:
    """Rebuild the curves of the sites from a file."""
    if (found is None) != (certificate.by_site is None) or len(found or ()) != len(certificate.by_site or ()):
        raise InputError("the promise curves are not one for each site of the certificate")
    records = zip(certificate.by_site or (), found or (), strict=True)
    return None if found is None else {record.site: own.built(share) for record, own in records}


def check_sites(certificate: Certificate, curves: SiteCurves | None) -> None:
    """Check that the curves of the sites give the thresholds in the certificate."""
    alpha, records = as_alpha(certificate.alpha), certificate.by_site or ()
    if {record.site: record.limit for record in records} != {
        name: curve.threshold(alpha) for name, curve in (curves or {}).items()
    }:
        raise InputError("the promise curves and the certificate give different thresholds of sites")
