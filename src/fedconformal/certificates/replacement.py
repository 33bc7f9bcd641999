"""The predictor that a new one replaces, the reason, and which rows calibrated the new one.

Rows that a watch has counted are not exchangeable with later rows: when the watch stops depends on their outcomes, also
if it raised no alarm. So nothing is promised from them (tests/validity/test_renewal.py).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from fedconformal._base.names import abbreviate, as_line
from fedconformal.errors import InputError

MOST_WHY = 200
PLANNED = "planned renewal"
"""The reason, if none is given."""


class Rows(StrEnum):
    """Calibration rows of a predictor that replaces another."""

    new = "new"
    """Rows that no watch has counted."""
    watched = "watched"
    """Rows of which a watch has counted some; nothing is promised from them."""


ON = {
    Rows.new: "on rows that no watch had counted",
    Rows.watched: "on rows that a watch had counted, so nothing is promised",
}


class Replacement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The SHA-256 of the predictor that is replaced, the reason, and the rows that calibrated the new one."""

    sha256: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    why: str
    rows: Rows

    def __post_init__(self) -> None:
        as_line(self.why, "why", MOST_WHY)

    @classmethod
    def of(cls, sha256: str, *, why: Any = None, rows: Any = None) -> Replacement:
        """Check the reason, and whether a watch has counted rows that calibrate."""
        if rows not in list(Rows):
            said = "rows is not given" if rows is None else f"rows is {abbreviate(rows)}"
            raise InputError(
                f"{said}, expected 'new' or 'watched': has a watch counted rows that calibrate?", param="rows"
            )
        return cls(sha256=sha256, why=PLANNED if why is None else as_line(why, "why", MOST_WHY), rows=Rows(rows))

    def sentence(self) -> str:
        """Return from which rows the predictor was calibrated anew."""
        return f"This predictor was calibrated anew {ON[self.rows]}."
