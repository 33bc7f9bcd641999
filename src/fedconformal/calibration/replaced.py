"""Which predictor a certificate takes the place of, why, and which rows calibrated the new one.

Rows that a watch has counted up to its alarm are not like the rows to come: the alarm rang because of them. Their
number depends on their outcomes, rows from before a change are among them, and after a false alarm they are the ones
that looked bad, or good. Without an alarm they are those that looked good enough, also at a planned time: after an
alarm the plan would have been dropped. So a threshold from rows that a watch has counted promises nothing, and is
estimated (tests/validity/test_renewal.py).
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

    new = "new"
    """Those that no watch has counted: they came after the decision to calibrate anew, or were kept apart."""
    watched = "watched"
    """Some were counted by a watch, whether it raised an alarm or not; nothing is promised from them."""


GIVE = "give rows='new' or 'watched'"

ON = {
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
    """Say what is replaced, why, and whether a watch has counted rows that calibrate.

    >>> replacing("0" * 64, rows="new").why
    'planned renewal'
    """
    if rows not in list(Rows):
        said = (
            "nothing says whether a watch has counted rows that calibrate" if rows is None else f"rows is {shown(rows)}"
        )
        raise InputError(f"{said}; {GIVE}", param="rows")
    return Replaced(sha256=sha256, why=PLANNED if why is None else as_line(why, "why", MOST_WHY), rows=Rows(rows))


def is_watched(certificate: Certificate) -> bool:
    """Whether nothing is promised because a watch had counted rows that calibrated."""
    return certificate.replaces is not None and certificate.replaces.rows is Rows.watched


def with_replaced(certificate: Certificate, replaced: Replaced) -> Certificate:
    """Name what a certificate takes the place of; from rows that were watched it promises nothing, and is estimated."""
    certificate = msgspec.structs.replace(certificate, replaces=replaced, format=2)
    return without_promise(certificate) if replaced.rows is Rows.watched else certificate


def without_promise(certificate: Certificate) -> Certificate:
    """State the same as an estimate, from which nothing is promised to anybody."""
    replace = msgspec.structs.replace
    nothing: dict[str, Any] = {"coverage_at_least": 0.0, "coverage_at_most": 1.0}
    parts: dict[str, Any] = {}
    for name in ("classes", "groups", "by_site"):
        records = getattr(certificate, name)
        parts[name] = None if records is None else [replace(one, **nothing) for one in records]
    if certificate.by_site is not None and certificate.lower is not None:
        parts["by_site"] = [replace(one, lower=replace(one.lower, **nothing)) for one in parts["by_site"]]
    if certificate.lower is not None:
        parts["lower"] = replace(certificate.lower, **nothing)
    return replace(certificate, status="estimated", **nothing, **parts)
