"""Messages of a site: counts of a period in about a hundred bytes, without information on single rows.

A message holds the cumulative counts of the watch at the start and at the end of the period. It can be read alone, a
lost message loses no count, and the reader recomputes the evidence from the counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Annotated, Self

import msgspec

from fedconformal._base.names import MAX_NAME, check_name
from fedconformal.errors import InputError
from fedconformal.monitoring.monitor import MOST_ROWS, Monitor

MAGIC = b"FCP1"
ALL_SITES = "all sites"
"""Reserved name in messages of a watch over several sites."""
MOST_STREAMS = 1000
"""Maximum number of groups in a watch or a message."""
LAST_DAY = 2_932_896
Day = Annotated[int, msgspec.Meta(ge=0, le=LAST_DAY)]
"""Days since 1970-01-01, in UTC, to the end of the year 9999."""
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]


def day_of(day: int) -> date:
    """Return a day as a date.

    >>> day_of(20773).isoformat()
    '2026-11-16'
    """
    return date(1970, 1, 1) + timedelta(days=day)


Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_ROWS)]


class Tally(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """Cumulative counts of a watch: rows with a known outcome, misses, waiting rows, and total set size."""

    known: Count = 0
    misses: int | float = 0
    waiting: Count = 0
    sizes: int | float = 0
    """Total number of labels in all sets, or total width of all intervals."""

    def __post_init__(self) -> None:
        for name in ("misses", "sizes"):
            value = getattr(self, name)
            if isinstance(value, float) and value.is_integer() and abs(value) <= MOST_ROWS:  # a shorter encoding
                msgspec.structs.force_setattr(self, name, int(value))
        if not 0 <= self.misses <= self.known or not 0 <= self.sizes < math.inf:
            raise ValueError("more misses than known rows, or invalid sizes")
        if self.known + self.waiting > MOST_ROWS:
            raise ValueError("too many rows")

    def can_become(self, later: Tally) -> bool:
        """Return whether `later` may follow: cumulative counts never decrease."""
        return self.known <= later.known and self.misses <= later.misses and self.sizes <= later.sizes


class Stream(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """Limit and counts of a stream: all rows of a site, or one group."""

    limit: float
    false_alarm: float
    failure: float
    before: Tally
    after: Tally
    group: Annotated[str, msgspec.Meta(max_length=2 * MAX_NAME)] = ""
    """Name of the group, such as "sex=F"; empty for all rows."""
    alarm: Day | None = None
    changed: Day | None = None
    """Day of the change detector's alarm."""

    def __post_init__(self) -> None:
        for name in ("limit", "false_alarm", "failure"):
            msgspec.structs.force_setattr(self, name, float(getattr(self, name)))
        self.monitor()  # validates the numbers
        if not self.group.isprintable():
            raise ValueError("the name of a group that cannot be printed")
        if not self.before.can_become(self.after):
            raise ValueError("counts since the start cannot fall")

    @property
    def new(self) -> int:
        """Outcomes that became known in the period."""
        return self.after.known - self.before.known

    def monitor(self) -> Monitor:
        """Return the monitor at the end of the period."""
        known, misses, waiting, _ = msgspec.structs.astuple(self.after)
        about = {name: getattr(self, name) for name in ("limit", "false_alarm", "failure")}
        return Monitor(**about, known=known, misses=misses, waiting=waiting)


class Period(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """Message of a site about a period of days, both ends included.

    >>> stream = Stream(0.13, 0.025, 0.025, Tally(), Tally(known=480, misses=41, waiting=20, sizes=700))
    >>> period = Period(bytes(32), "clinic-a", 20758, 20773, (stream,))
    >>> len(period.to_bytes()), Period.from_bytes(period.to_bytes()) == period
    (101, True)
    >>> round(period.streams[0].monitor().log_e_value, 3)
    -5.215
    """

    predictor: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    """The SHA-256 of the predictor."""
    site: Name
    first: Day
    last: Day
    streams: Annotated[tuple[Stream, ...], msgspec.Meta(min_length=1, max_length=MOST_STREAMS)]
    """Streams: all rows first, then groups."""
    withheld: bool = False
    """Whether groups, classes and sites are left out because one of them has too few new outcomes."""

    def __post_init__(self) -> None:
        check_name(self.site, "site")
        if self.last < self.first:
            raise ValueError("a period that ends before it begins")
        names = [stream.group for stream in self.streams]
        if names[:1] != [""] or len(set(names)) != len(names):
            raise ValueError("the stream of all rows comes first, and each group once")

    def to_bytes(self) -> bytes:
        """Encode the message: a magic number, then MessagePack."""
        return MAGIC + msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decode an untrusted message; only the canonical form is accepted."""
        try:
            period = msgspec.msgpack.decode(data[len(MAGIC) :], type=cls) if data.startswith(MAGIC) else None
            if period is not None and period.to_bytes() == data:
                return period
        except (msgspec.DecodeError, InputError, ValueError, OverflowError) as error:
            raise InputError(f"this is not the state of a period: {error}") from None
        raise InputError("this is not the state of a period")


LENGTH = 4
"""Bytes of the length prefix of each message in a file."""


def write_periods(periods: Sequence[Period]) -> bytes:
    """Concatenate messages, each with its length prefix."""
    return b"".join(len(data).to_bytes(LENGTH, "little") + data for data in (period.to_bytes() for period in periods))


def read_periods(data: bytes) -> list[Period]:
    """Read all messages of an untrusted file.

    >>> stream = Stream(0.13, 0.025, 0.0, Tally(), Tally(known=9, misses=1))
    >>> periods = [Period(bytes(32), "a", day, day, (stream,)) for day in (20772, 20773)]
    >>> read_periods(write_periods(periods)) == periods
    True
    """
    periods, start = [], 0
    while start < len(data):
        size = int.from_bytes(data[start : start + LENGTH], "little")
        content = data[start + LENGTH : start + LENGTH + size]
        if len(content) != size or not size:
            raise InputError("this is not a file of periods: it ends within a message")
        periods.append(Period.from_bytes(content))
        start += LENGTH + size
    if not periods:
        raise InputError("this is not a file of periods: it is empty")
    return periods
