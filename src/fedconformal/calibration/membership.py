"""Assignment of rows to the calibrated groups or sites of a predictor; other rows are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Integers
from fedconformal._base.groups import NONE, Groups, as_sites, columns_of, group_columns, group_rows
from fedconformal._base.names import abbreviate, join_names, name_key
from fedconformal.certificates.certificate import Certificate
from fedconformal.errors import InputError


def needed_groups(certificate: Certificate, groups: Groups | None) -> dict[str, Any] | None:
    """Select the group columns that a predictor requires; None if it requires none."""
    if certificate.by != "group":
        return None
    needed = certificate.group_columns
    return {name: values for name, values in group_columns(groups).items() if name_key(name) in needed}


def own_sites(certificate: Certificate, sites: Any) -> Any:
    """Return the sites of rows if the predictor has a threshold per site; None otherwise."""
    return sites if certificate.by == "site" else None


def rows_by_group(certificate: Certificate, groups: Groups | None, rows: int) -> dict[str, Integers]:
    """Return the rows of each calibrated group, and refuse rows of other groups."""
    needed = certificate.group_columns
    columns = group_columns(groups)
    if not columns or columns_of(columns) != needed:
        got = f"got {join_names(columns_of(columns))}" if columns else "got none"
        raise InputError(f"the predictor needs the columns {join_names(needed)} of every row, {got}", where="groups")
    by_group = group_rows(columns, rows=rows)
    known = certificate.parts
    for group in (name for name in by_group if name not in known):
        what = f"has no value of {join_names(needed)}" if group == NONE else f"is in {group}"
        advice = "correct the value, leave such rows out, or calibrate again with such rows"
        problem = f"{what}, as no calibration row, so nothing is promised to it; {advice}"
        raise InputError(problem, where="groups", row=by_group[group][0])
    return by_group


def rows_by_site(certificate: Certificate, sites: ArrayLike, rows: int) -> dict[str, Integers]:
    """Return the rows of each calibrated site, by its certified name; a single name applies to all rows."""
    if certificate.by != "site":
        raise InputError("sites: the predictor has one threshold for all sites; leave them out", param="sites")
    ids = as_sites(np.full(rows, sites) if isinstance(sites, str) else sites, rows=rows).astype(np.str_)
    known = {name_key(str(site)): str(site) for site in certificate.parts}
    names, first, index, counts = np.unique(ids, return_index=True, return_inverse=True, return_counts=True)
    for name, row in zip(names.tolist(), first.tolist(), strict=True):
        if name not in known:
            raise InputError(
                f"sites: row {row} is of {abbreviate(name)}, which was not calibrated, so nothing is promised to it; "
                f"there are {join_names(list(known.values()))}",
                param="sites",
            )
    parts = np.split(np.argsort(index, kind="stable"), np.cumsum(counts))  # the last one is empty
    return {known[name]: mine for name, mine in zip(names.tolist(), parts, strict=False)}
