"""One more question to every site, whatever engine carries it: what did your watch count in these days?

The coordinator names a predictor, and days if it likes; every site answers with the messages of its periods, counts
only, as it would write them to a `.fcw` file. The coordinator reads them strictly: a site whose messages are of another
predictor or another site, or contradict each other or earlier ones, is refused, and the others count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from fedconformal._base.files import naming, read_bytes
from fedconformal._base.names import name_key, shown
from fedconformal.calibration.certificate import LeftOut
from fedconformal.calibration.document import Document
from fedconformal.errors import InputError
from fedconformal.federated.calibration import MAX_BYTES
from fedconformal.monitoring.combine import Combined, Refused, check_predictor, combine
from fedconformal.monitoring.line import lines_of
from fedconformal.monitoring.period import EPOCH, Period, day_of, read_periods, write_periods
from fedconformal.privacy.policy import WATCH, Leaving, Policy

FORMAT = "fcw1"
KEYS = {"data", "format"}
DIGEST = 32
"""Bytes of a SHA-256."""

Source = str | Path | Callable[[int | None, int | None], Sequence[Period]]
"""Where a site's messages are: a .fcw file, or a function of the first and the last day, None for all of them."""


@dataclass(frozen=True, kw_only=True)
class WatchQuestion:
    """What every site is asked for: its messages about a predictor, by its SHA-256, that reach into these days.

    >>> question = WatchQuestion(predictor="00" * 32, first=20758)
    >>> WatchQuestion.from_dict(question.to_dict()) == question
    True
    """

    predictor: str
    first: int | None = None
    last: int | None = None

    @classmethod
    def about(cls, predictor: Document | str, first: date | None, last: date | None) -> WatchQuestion:
        """Ask about a predictor, or about the SHA-256 of one."""
        digest = predictor if isinstance(predictor, str) else str(json.loads(predictor.to_bytes())["sha256"])
        start, end = (None if day is None else (day - EPOCH).days for day in (first, last))
        return cls(predictor=digest, first=start, last=end)

    def __post_init__(self) -> None:
        days = [day for day in (self.first, self.last) if day is not None]
        try:
            right = len(bytes.fromhex(self.predictor)) == DIGEST and all(type(day) is int for day in days)
        except (TypeError, ValueError):
            right = False
        if not right or days != sorted(days):
            raise InputError("the question names no predictor by its SHA-256, or no days in order")

    def to_dict(self) -> dict[str, Any]:
        """Describe in plain values, as every engine's messages can hold them."""
        days = {"first": self.first, "last": self.last}
        return {"predictor": self.predictor} | {name: day for name, day in days.items() if day is not None}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> WatchQuestion:
        """Read what `to_dict` made."""
        return cls(predictor=found["predictor"], first=found.get("first"), last=found.get("last"))

    def answer(self, source: Source, *, site: str, policy: Policy) -> dict[str, Any]:
        """Return the messages that are asked for, unless the site's policy is against it."""
        found = source(self.first, self.last) if callable(source) else _read(Path(source))
        periods = [period for period in found if self._asks_for(period)]
        own = [period for period in periods if name_key(period.site) == name_key(site)]
        if not own:
            others = f"; it has those of {shown(periods[0].site)}, and is {shown(site)}" if periods else ""
            raise InputError(f"this site has no message of these days{others}")
        self.check(own, site)
        policy.check(leaving(own))
        return {"data": write_periods(own), "format": FORMAT}

    def _asks_for(self, period: Period) -> bool:
        return (self.last is None or period.first <= self.last) and (self.first is None or period.last >= self.first)

    def read(self, reply: Mapping[str, Any], *, site: str, earlier: Iterable[Period] = ()) -> list[Period]:
        """Read what a site answered, which may be hostile, and compare it with its earlier messages."""
        if set(reply) != KEYS or reply["format"] != FORMAT or not isinstance(reply["data"], bytes):
            raise InputError(f"sent no messages of a watch in the format {FORMAT}, as bytes")
        if len(reply["data"]) > MAX_BYTES:
            raise InputError(f"sent {len(reply['data'])} bytes, more than {MAX_BYTES}")
        periods = read_periods(reply["data"])
        self.check(periods, site)
        lines_of([*(one for one in earlier if name_key(one.site) == name_key(site)), *periods])
        return periods

    def check(self, periods: Iterable[Period], site: str) -> None:
        """Refuse messages of another predictor, or of another site."""
        for period in periods:
            check_predictor(period, bytes.fromhex(self.predictor))
            if name_key(period.site) != name_key(site):
                raise InputError(f"is {shown(site)} and sent messages of {shown(period.site)}")
            if not self._asks_for(period):
                raise InputError(f"sent a message of other days, to {day_of(period.last)}")


def _read(path: Path) -> list[Period]:
    """Read a file; the coordinator sees what is wrong, and where the file is says too much."""
    try:
        with naming(path):
            return read_periods(read_bytes(path))
    except InputError as error:
        raise InputError(str(error).replace(str(path), path.name)) from None


def leaving(periods: Sequence[Period]) -> Leaving:
    """Describe messages for a policy: the fewest new outcomes that one of them has, of all rows or of a group."""
    new = [stream.after.known - stream.before.known for period in periods for stream in period.streams]
    return Leaving(kind=WATCH, rows=min(filter(None, new), default=0))


@dataclass(frozen=True, eq=False, kw_only=True)
class Watched:
    """The messages of all sites that answered properly, and who did not; `report.watch_page` makes the page of them."""

    periods: tuple[Period, ...]
    refused: tuple[Refused, ...] = ()

    @classmethod
    def of(
        cls, answers: Iterable[Sequence[Period]], left_out: Iterable[LeftOut], earlier: Iterable[Period] = ()
    ) -> Watched:
        """Put answers and earlier messages together."""
        new = [period for answer in answers for period in answer]
        return cls(periods=(*earlier, *new), refused=tuple(Refused(one.site, one.reason) for one in left_out))

    def combined(self) -> Combined:
        """Return what all of them say."""
        return combine(self.periods, refused=self.refused)

    def to_bytes(self) -> bytes:
        """Write the messages as a .fcw file, which `fedconformal monitor combine` reads."""
        return write_periods(self.periods)
