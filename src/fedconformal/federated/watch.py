"""Monitoring over an engine: the coordinator asks every site for the counts of its monitor.

A site answers with the messages of its periods, in the format of a `.fcw` file. It fixes the periods itself
(`Watch.send`): a coordinator that chose days could read single outcomes from the difference of two answers. A site with
messages about another predictor or site, or with contradictory messages, is refused; the others count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from fedconformal._base.files import read_bytes
from fedconformal._base.names import abbreviate, name_key
from fedconformal.calibration.predictor import Predictor
from fedconformal.errors import InputError, prefix_errors
from fedconformal.federated.ask import Record, Sites
from fedconformal.monitoring.combine import Refused, check_predictor, histories_of
from fedconformal.monitoring.messages import ALL_SITES, Period, day_of, read_periods, write_periods
from fedconformal.privacy.policy import WATCH, Outgoing, Policy, hide_folder

Source = str | Path | Callable[[], Sequence[Period]]
"""A .fcw file with a site's messages, or a function that returns those sent so far, such as `Watch.sent`."""


class WatchQuestion(Record, frozen=True, kw_only=True, tag="watch"):
    """A question for a site's messages about a predictor, by its SHA-256."""

    stage: ClassVar[str] = "watch"

    predictor: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]

    def answer(self, source: Source, *, site: str, policy: Policy) -> bytes:
        """Return a site's messages, unless its policy forbids it."""
        periods = list(source() if callable(source) else _read(Path(source)))
        own = [period for period in periods if name_key(period.site) == name_key(site)]
        if not own:
            others = f"; it has those of {abbreviate(periods[0].site)}, and is {abbreviate(site)}" if periods else ""
            raise InputError(f"this site has no message{others}")
        self._check(own, site)
        check_apart(own)
        policy.check(outgoing(own))
        return write_periods(own)

    def read(self, data: bytes, *, site: str) -> list[Period]:
        """Decode a site's messages, which must be consistent."""
        periods = read_periods(data)
        self._check(periods, site)
        histories_of(periods)
        return periods

    def _check(self, periods: Iterable[Period], site: str) -> None:
        """Refuse messages of another predictor, of another site, or of a watch over several sites."""
        if name_key(site) == ALL_SITES:
            raise InputError(f"{ALL_SITES} is the name of a watch over several sites; name the site otherwise")
        for period in periods:
            check_predictor(period, self.predictor)
            if name_key(period.site) != name_key(site):
                raise InputError(f"is {abbreviate(site)} and sent messages of {abbreviate(period.site)}")


def _read(path: Path) -> list[Period]:
    with hide_folder(path), prefix_errors(path):
        return read_periods(read_bytes(path))


def check_apart(periods: Iterable[Period]) -> None:
    """Refuse overlapping periods of one site, whose difference would show the outcomes of a few days."""
    ordered = sorted(set(periods), key=lambda one: (one.first, one.last))
    for one, other in pairwise(ordered):
        if other.first <= one.last:
            raise InputError(
                f"two messages overlap on {day_of(other.first)}, and their difference shows single outcomes; send what "
                "monitor send writes"
            )


def outgoing(periods: Sequence[Period]) -> Outgoing:
    """Describe messages for a policy, by the smallest number of new outcomes (each has its own id) of a group."""
    new = [stream.new for period in periods for stream in period.streams]
    if not any(new):
        raise InputError("no outcome has come since the last message, so there is nothing to send; add outcomes first")
    fewest = min(filter(None, new))
    return Outgoing(kind=WATCH, rows=fewest, patients=fewest)


@dataclass(frozen=True, eq=False, kw_only=True)
class Watched:
    """Messages of the sites with valid answers, and the refused sites; see `report.watch_page`."""

    periods: tuple[Period, ...]
    refused: tuple[Refused, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the messages as a .fcw file for `fedconformal monitor combine`."""
        return write_periods(self.periods)


def watch(sites: Sites, predictor: Predictor | str) -> Watched:
    """Ask every site for the counts of its monitor; sites with invalid answers are refused and named.

    Parameters
    ----------
    sites
        The engine's sites.
    predictor
        The monitored predictor, or its SHA-256.
    """
    digest = predictor if isinstance(predictor, str) else predictor.digest()
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise InputError(f"predictor is {abbreviate(digest)}, expected a predictor or its SHA-256", param="predictor")
    answers = sites.ask(WatchQuestion(predictor=bytes.fromhex(digest)))
    refused = tuple(Refused(one.site, one.reason) for one in sites.left_out(answers))
    return Watched(periods=tuple(period for answer in answers for period in answer.value), refused=refused)
