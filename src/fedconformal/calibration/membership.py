"""Which rows are in which of the groups that a predictor was calibrated for; a row in any other is promised nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedconformal._base.arrays import Integers
from fedconformal._base.groups import NONE, Groups, column_of, columns_of, members
from fedconformal._base.names import listed, name_key
from fedconformal.calibration.certificate import Certificate
from fedconformal.errors import InputError


def columns_needed(certificate: Certificate) -> list[str]:
    """Name the columns that say which groups a row is in; none if the promise is not by group."""
    return sorted({column for record in certificate.groups or () if (column := column_of(record.group))})


def needed_of(certificate: Certificate, groups: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Take the columns that a predictor needs, where others are given too; None if it needs none."""
    if certificate.groups is None:
        return None
    needed = columns_needed(certificate)
    return {str(name): values for name, values in (groups or {}).items() if name_key(str(name)) in needed}


def members_for(certificate: Certificate, groups: Groups | None, rows: int) -> dict[str, Integers]:
    """Return which rows are in each calibrated group, and refuse rows that are promised nothing."""
    needed = columns_needed(certificate)
    if not groups or columns_of(groups) != needed:
        got = f"got {listed(columns_of(groups))}" if groups else "got none"
        raise InputError(f"groups: the predictor needs the columns {listed(needed)} of every row, {got}")
    found, known = members(groups, rows=rows), {record.group for record in certificate.groups or ()}
    for group in found.keys() - known:
        where = f"in row {found[group][0]}{' and others' if len(found[group]) > 1 else ''}"
        if group == NONE:
            raise InputError(
                f"groups: {listed(needed)} have no value {where}, and every calibration row had one, so nothing is "
                "promised there; fill in a value, or leave these rows out"
            )
        raise InputError(
            f"groups: {group}, {where}, has no calibration row, so nothing is promised to it; correct the value, leave "
            "these rows out, or calibrate again with rows of that group"
        )
    return found
