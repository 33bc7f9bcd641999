"""Which predictor a certificate takes the place of, why, and which rows calibrated the new one.

Rows that a watch has counted up to its alarm are not like the rows to come: the alarm rang because of them. Their
number depends on their outcomes, rows from before a change are among them, and after a false alarm they are the ones
that looked bad, or good. So a threshold from them promises nothing, and is estimated (tests/validity/test_renewal.py).
A time that was fixed beforehand, whatever a watch says, does no harm.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from fedconformal._base.names import as_line, shown
from fedconformal.errors import InputError

if TYPE_CHECKING:
    from fedconformal.calibration.certificate import Certificate

MOST_WHY = 200
PLANNED = "planned renewal"
"""The reason, if none is given."""


class Rows(StrEnum):
    """Which rows calibrate a predictor that replaces another one."""

    planned = "planned"
    """Those of a time that was fixed beforehand, whatever a watch says."""
    new = "new"
    """Those that no watch has counted: they came after the alarm, or after the decision to calibrate anew."""
    watched = "watched"
    """Some were counted by a watch, which raised an alarm or led to the decision; nothing is promised from them."""


GIVE = "give rows='new', 'planned' or 'watched'"

ON = {
    Rows.planned: "at a planned time",
    Rows.new: "on rows that no watch had counted",
    Rows.watched: "on rows that a watch had counted, so nothing is promised",
}


class Replaced(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The predictor that was there before, by its SHA-256; why it was replaced, and by which rows."""

    sha256: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    why: str
    rows: Rows

    def __post_init__(self) -> None:
        as_line(self.why, "why", MOST_WHY)

    def sentence(self) -> str:
        """Say that this is a renewal, and from which rows.

        >>> Replaced(sha256="0" * 64, why="yearly", rows=Rows.new).sentence()
        'This predictor was calibrated anew on rows that no watch had counted.'
        """
        return f"This predictor was calibrated anew {ON[self.rows]}."


def replacing(sha256: str, *, why: Any = None, rows: Any = None) -> Replaced:
    """Say what is replaced; who gives a reason must say which rows calibrate, as it may be an alarm.

    >>> replacing("0" * 64).rows
    <Rows.planned: 'planned'>
    """
    if rows is None and why is not None:
        raise InputError(
            f"why is {shown(why)}, and nothing says which rows calibrate anew (those that a watch counted up to its "
            f"alarm are not new); {GIVE}"
        )
    if rows is not None and rows not in list(Rows):
        raise InputError(f"rows is {shown(rows)}; {GIVE}")
    said = PLANNED if why is None else as_line(why, "why", MOST_WHY)
    return Replaced(sha256=sha256, why=said, rows=Rows.planned if rows is None else Rows(rows))


def is_watched(certificate: Certificate) -> bool:
    """Whether nothing is promised because a watch had counted rows that calibrated."""
    return certificate.replaces is not None and certificate.replaces.rows is Rows.watched


def with_replaced(certificate: Certificate, replaced: Replaced) -> Certificate:
    """Name what a certificate takes the place of; from rows that were watched it promises nothing, and is estimated."""
    replace = msgspec.structs.replace
    if replaced.rows is not Rows.watched:
        return replace(certificate, replaces=replaced, format=2)
    nothing: dict[str, Any] = {"coverage_at_least": 0.0, "coverage_at_most": 1.0}
    parts: dict[str, Any] = {}
    for name in ("classes", "groups"):
        records = getattr(certificate, name)
        parts[name] = None if records is None else [replace(one, **nothing) for one in records]
    if certificate.lower is not None:
        parts["lower"] = replace(certificate.lower, **nothing)
    return replace(certificate, replaces=replaced, format=2, status="estimated", **nothing, **parts)
