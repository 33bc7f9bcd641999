"""Which rows are in which of the groups that a predictor was calibrated for; a row in any other is promised nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedconformal._base.arrays import Integers
from fedconformal._base.groups import NONE, Groups, columns_of, members
from fedconformal._base.names import listed, name_key
from fedconformal.calibration.certificate import Certificate
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
        raise InputError(f"groups: the predictor needs the columns {listed(needed)} of every row, {got}")
    found, known = members(groups, rows=rows), {record.group for record in certificate.groups or ()}
    for group in found.keys() - known:
        row = found[group][0]
        if group == NONE:
            raise InputError(
                f"groups: row {row} has no value of {listed(needed)}, and every calibration row had one, so nothing is "
                "promised to it; fill in a value, or leave such rows out"
            )
        raise InputError(
            f"groups: row {row} is in {group}, as no calibration row is, so nothing is promised to it; correct the "
            "value, leave such rows out, or calibrate again with rows of that group"
        )
    return found
