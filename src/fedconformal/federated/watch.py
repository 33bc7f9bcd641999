"""Monitoring over an engine: the coordinator asks every site for the counts of its monitor.

The coordinator names a predictor; every site answers with the messages of its periods, counts only, as they are in a
`.fcw` file. The site fixes the periods (`Watch.send`): who could choose days would read single outcomes from the
difference of two answers. A site whose messages are of another predictor or another site, or contradict each other or
earlier ones, is refused, and the others count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedconformal._base.files import read_bytes
from fedconformal._base.names import abbreviate, name_key
from fedconformal.calibration.predictor import Predictor
from fedconformal.errors import InputError, prefix_errors
from fedconformal.federated.ask import Question, Sites, payload
from fedconformal.monitoring.combine import Combined, Refused, check_predictor, combine
from fedconformal.monitoring.history import histories_of
from fedconformal.monitoring.messages import Period, day_of, read_periods, write_periods
from fedconformal.privacy.policy import WATCH, Outgoing, Policy, hide_folder

FORMAT = "fcw1"
DIGEST = 32
"""Bytes of a SHA-256."""

Source = str | Path | Callable[[], Sequence[Period]]
"""A .fcw file with a site's messages, or a function that returns those sent so far, such as `Watch.sent`."""


@dataclass(frozen=True, kw_only=True)
class WatchQuestion(Question[list[Period]]):
    """A question for a site's messages about a predictor, by its SHA-256.

    >>> question = WatchQuestion(predictor="00" * 32)
    >>> WatchQuestion.from_dict(question.to_dict()) == question
    True
    """

    stage = "watch"

    predictor: str
    earlier: tuple[Period, ...] = ()

    @classmethod
    def about(cls, predictor: Predictor | str, earlier: Iterable[Period] = ()) -> WatchQuestion:
        """Ask about a predictor, or about the SHA-256 of one."""
        digest = predictor if isinstance(predictor, str) else str(json.loads(predictor.to_bytes())["sha256"])
        return cls(predictor=digest, earlier=tuple(earlier))

    def __post_init__(self) -> None:
        try:
            right = len(bytes.fromhex(self.predictor)) == DIGEST
        except (TypeError, ValueError):
            right = False
        if not right:
            raise InputError("the question names no predictor by its SHA-256")

    def to_dict(self) -> dict[str, Any]:
        """Return the question in plain values."""
        return {"predictor": self.predictor}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> WatchQuestion:
        """Read the values of `to_dict`."""
        return cls(predictor=found["predictor"])

    def answer(self, source: Source, *, site: str, policy: Policy) -> dict[str, Any]:
        """Return a site's reply, unless its policy forbids it."""
        periods = list(source() if callable(source) else _read(Path(source)))
        own = [period for period in periods if name_key(period.site) == name_key(site)]
        if not own:
            others = f"; it has those of {abbreviate(periods[0].site)}, and is {abbreviate(site)}" if periods else ""
            raise InputError(f"this site has no message{others}")
        self.check(own, site)
        check_apart(own)
        policy.check(outgoing(own))
        return {"data": write_periods(own), "format": FORMAT}

    def read(self, reply: Mapping[str, Any], *, site: str) -> list[Period]:
        """Read a site's messages, and compare them with its earlier ones."""
        periods = read_periods(payload(reply, FORMAT))
        self.check(periods, site)
        histories_of([*(one for one in self.earlier if name_key(one.site) == name_key(site)), *periods])
        return periods

    def check(self, periods: Iterable[Period], site: str) -> None:
        """Refuse messages of another predictor, or of another site."""
        for period in periods:
            check_predictor(period, bytes.fromhex(self.predictor))
            if name_key(period.site) != name_key(site):
                raise InputError(f"is {abbreviate(site)} and sent messages of {abbreviate(period.site)}")


def _read(path: Path) -> list[Period]:
    with hide_folder(path), prefix_errors(path):
        return read_periods(read_bytes(path))


def check_apart(periods: Iterable[Period]) -> None:
    """Refuse periods of one site that overlap: their difference would show the outcomes of a few days."""
    ordered = sorted(set(periods), key=lambda one: (one.first, one.last))
    for one, other in pairwise(ordered):
        if other.first <= one.last:
            raise InputError(
                f"two messages overlap on {day_of(other.first)}, and their difference shows single outcomes; send what "
                "monitor send writes"
            )


def outgoing(periods: Sequence[Period]) -> Outgoing:
    """Describe messages for a policy: the fewest new outcomes that one of them has, of all rows or of a group.

    In a watch an id is there once, so there are as many ids as outcomes.
    """
    new = [stream.new for period in periods for stream in period.streams]
    fewest = min(filter(None, new), default=0)
    return Outgoing(kind=WATCH, rows=fewest, patients=fewest)


@dataclass(frozen=True, eq=False, kw_only=True)
class Watched:
    """Messages of the sites that answered properly, and the refused sites; `report.watch_page` makes the page."""

    periods: tuple[Period, ...]
    refused: tuple[Refused, ...] = ()

    def combined(self) -> Combined:
        """Combine the evidence of all sites."""
        return combine(self.periods, refused=self.refused)

    def to_bytes(self) -> bytes:
        """Write the messages as a .fcw file, which `fedconformal monitor combine` reads."""
        return write_periods(self.periods)


def watch(sites: Sites, predictor: Predictor | str, *, earlier: Sequence[Period] = ()) -> Watched:
    """Ask every site for the counts of its monitor; a site that cannot be used is refused, and named.

    Parameters
    ----------
    sites
        The engine's sites.
    predictor
        The monitored predictor, or its SHA-256.
    earlier
        Messages that came before, which new ones must not contradict.
    """
    answers = sites.ask(WatchQuestion.about(predictor, earlier))
    refused = tuple(Refused(one.site, one.reason) for one in sites.left_out(answers))
    return Watched(periods=(*earlier, *(period for answer in answers for period in answer.value)), refused=refused)
