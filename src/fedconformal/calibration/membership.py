"""The rows of each group or site that a predictor was calibrated for; other rows are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Integers
from fedconformal._base.groups import NONE, Groups, as_sites, columns_of, group_columns, members
from fedconformal._base.names import abbreviate, join_names, name_key
from fedconformal.certificates.certificate import Certificate
from fedconformal.errors import InputError


def needed_groups(certificate: Certificate, groups: Groups | None) -> dict[str, Any] | None:
    """Return the columns that a predictor needs among those that are given; None if it needs none."""
    if certificate.by != "group":
        return None
    needed = certificate.group_columns
    return {name: values for name, values in group_columns(groups).items() if name_key(name) in needed}


def own_sites(certificate: Certificate, sites: Any) -> Any:
    """Return the sites of rows for a predictor with a threshold for each; None for any other."""
    return sites if certificate.by == "site" else None


def rows_by_group(certificate: Certificate, groups: Groups | None, rows: int) -> dict[str, Integers]:
    """Return which rows are in each calibrated group, and refuse rows that are promised nothing."""
    needed = certificate.group_columns
    given = group_columns(groups)
    if not given or columns_of(given) != needed:
        got = f"got {join_names(columns_of(given))}" if given else "got none"
        raise InputError(f"the predictor needs the columns {join_names(needed)} of every row, {got}", where="groups")
    found = members(given, rows=rows)
    known = certificate.parts
    for group in (one for one in found if one not in known):
        what = f"has no value of {join_names(needed)}" if group == NONE else f"is in {group}"
        advice = "correct the value, leave such rows out, or calibrate again with such rows"
        problem = f"{what}, as no calibration row, so nothing is promised to it; {advice}"
        raise InputError(problem, where="groups", row=found[group][0])
    return found


def rows_by_site(certificate: Certificate, sites: ArrayLike, rows: int) -> dict[str, Integers]:
    """Return which rows are of each calibrated site, by its name there; one name is that of all rows."""
    if certificate.by != "site":
        raise InputError("sites: the predictor has one threshold for all sites; leave them out", param="sites")
    given = as_sites(np.full(rows, sites) if isinstance(sites, str) else sites, rows=rows).astype(np.str_)
    known = {name_key(str(site)): str(site) for site in certificate.parts}
    names, first, index, counts = np.unique(given, return_index=True, return_inverse=True, return_counts=True)
    for name, row in zip(names.tolist(), first.tolist(), strict=True):
        if name not in known:
            raise InputError(
                f"sites: row {row} is of {abbreviate(name)}, which was not calibrated, so nothing is promised to it; "
                f"there are {join_names(list(known.values()))}",
                param="sites",
            )
    parts = np.split(np.argsort(index, kind="stable"), np.cumsum(counts)[:-1])
    return {known[name]: mine for name, mine in zip(names.tolist(), parts, strict=True)}
