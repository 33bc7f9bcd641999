"""The threshold from sums only, with everybody in one process, and its certificate.

The same functions serve a session over any channel: `sums_site` at each site, `sums_coordinator` in the middle.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from numpy.typing import ArrayLike

from fedconformal._base.float_bits import BITS
from fedconformal.calibration.calibrate import Calibration
from fedconformal.calibration.certificate import SummaryRecord, made_certificate, threshold_json
from fedconformal.calibration.remarks import heavy_sites, warn_of_sites
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee, Mixture
from fedconformal.privacy.distributed_dp import NoisyRound
from fedconformal.privacy.one_step import one_step
from fedconformal.privacy.released import released, warn_of_too_few
from fedconformal.privacy.sums import coordinator as middle
from fedconformal.privacy.sums import site as ends
from fedconformal.privacy.sums.radix import BYTES
from fedconformal.privacy.sums.reading import Coordinator, seated
from fedconformal.privacy.sums.session import Session
from fedconformal.summaries import Origin

HIDDEN = (
    " It was found from sums over all sites: no site's own counts were seen. The threshold itself is a score of some "
    "site, and the sums show how many scores of all sites together lie in ever smaller cells around it."
)
APART = (
    " It was found from weighted sums over all sites. The sites' weights differ, so that who knows every n_k can often "
    "take such a sum apart: count every site's own histogram as seen by the coordinator."
)
DROPPED = (
    " The scores of a site that dropped out count for nothing from then on: the threshold can be too high, not too "
    "low, and the promise still includes that site."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sums:
    """What came out, and what it cost."""

    calibration: Calibration
    session: Session
    rounds: int
    bytes_up: int
    """Sent by an average site, in all rounds."""
    bytes_down: int

    @property
    def threshold(self) -> float:
        """The threshold; +inf if alpha cannot be promised."""
        return float(self.calibration.threshold)


def calibrate_by_sums(
    sites: Mapping[str, ArrayLike],
    *,
    alpha: Any = 0.1,
    guarantee: Guarantee | None = None,
    widths: tuple[int, ...] = BYTES,
    origin: Origin | None = None,
    epsilon: Any = None,
    grid: ArrayLike | None = None,
) -> Sums:
    """Find the threshold while the coordinator sees only sums.

    `widths` says how many bits each round settles: 64 in all give the exact threshold (`EXACT` does so with
    the fewest counts), and `SHORT` rounds it up a little. With `epsilon` there is one round instead, in which the sites
    add noise to their counts over the grid, so that the sum itself is epsilon-differentially private.

    >>> sites = {"a": [0.1, 0.2, 0.3, 0.4], "b": [0.5, 0.6, 0.7], "c": [0.2, 0.9]}
    >>> found = calibrate_by_sums(sites, alpha=0.5)  # ceil(0.5 (9 + 3)) = 6
    >>> found.threshold, found.rounds
    (0.5, 8)
    """
    coordinator, invitation = middle.invite(guarantee or Mixture(), alpha, widths, epsilon=epsilon, grid=grid)
    present, sent = {}, []
    for name, scores in sites.items():
        present[name], joined = ends.join(ends.new_site(name, scores, origin), invitation)
        sent.append(joined)
    up, down = _bytes(sent), len(invitation)
    coordinator, roster = middle.seat(coordinator, sent)
    if coordinator.search.answer is None:  # else scores are too few for noise, and nobody is asked
        present, sent = _each(present, ends.enter, roster)
        up, down = up + _bytes(sent), down + len(roster)
        coordinator = middle.admit(coordinator, sent)
    while coordinator.search.answer is None:
        question = middle.ask(coordinator)
        present, answers = _each(present, ends.answer, question)
        coordinator, request = middle.collect(coordinator, answers)
        present, reveals = _each(present, ends.reveal, request)
        coordinator, _ = middle.finish(coordinator, reveals)  # nobody is lost here
        up, down = up + _bytes(answers) + _bytes(reveals), down + len(question) + len(request)
    return Sums(
        calibration=certified(coordinator),
        session=seated(coordinator),
        rounds=coordinator.search.number,
        bytes_up=round(up / len(present)),
        bytes_down=down,
    )


def _each(
    sites: dict[str, ends.Site], step: Callable[[ends.Site, bytes], tuple[ends.Site, bytes]], message: bytes
) -> tuple[dict[str, ends.Site], list[bytes]]:
    """Let every site take a step; return the sites afterwards, and what they send."""
    done = {name: step(site, message) for name, site in sites.items()}
    return {name: site for name, (site, _) in done.items()}, [sent for _, sent in done.values()]


def _bytes(messages: list[bytes]) -> int:
    return sum(map(len, messages))


def certified(coordinator: Coordinator) -> Calibration:
    """Write the certificate of a session that has come to its end."""
    session, threshold, origin = seated(coordinator), coordinator.search.answer, coordinator.origin
    if threshold is None:
        raise InputError("the session has not come to its end; there are more rounds to play")
    bound, alpha, sizes, rounds = session.guarantee, session.alpha, session.sizes, session.rounds
    records = [
        SummaryRecord(sites=(name,), sizes=(n,), kind="sums", sha256=hashlib.sha256(key).hexdigest())
        for name, n, key in zip(session.names, sizes, session.signing, strict=True)
    ]
    dropped = DROPPED if coordinator.dropped else ""
    played = {
        "mode": "sums",
        "rounds": coordinator.search.number,
        "session": session.fingerprint,
        "dropped": [{"site": session.names[k], "when": when} for k, when in sorted(coordinator.dropped.items())],
    }
    if isinstance(rounds, NoisyRound):
        if rounds.plan is None:
            warn_of_too_few(alpha, sum(sizes), rounds.epsilon)
        return released(
            threshold,
            rounds.claim(coordinator.counted, played),
            alpha=alpha,
            guarantee=bound,
            names=session.names,
            records=records,
            origin=origin,
            caveat=dropped,
        )
    finite = threshold < math.inf
    # A cell's end instead of a score, or sites that dropped out, may cost any amount of coverage on top.
    whole = sum(rounds.widths) == BITS and len(coordinator.present) == len(session.names)
    lowest = bound.at_least(alpha, sizes) if finite else Fraction(1)
    highest = bound.at_most(alpha, sizes, [0] * len(sizes)) if finite and whole else Fraction(1)
    rank, out_of = bound.rank(alpha, sizes) or (None, None)
    certificate = made_certificate(
        guarantee=bound,
        sites=session.names,
        origin=origin,
        status="certified",
        caveat=bound.caveat + (HIDDEN if rounds.alike else APART) + dropped,
        alpha=float(alpha),
        threshold=threshold_json(threshold),
        target=str(bound.at_least(alpha, sizes)),
        rank=rank,
        rank_out_of=out_of,
        slack=0.0 if whole else 1.0,
        coverage_at_least=float(lowest),
        coverage_at_most=float(highest),
        summaries=records,
        heavy_sites=heavy_sites(bound, session.names, sizes) or None,
        privacy={
            **played,
            "claim": "the coordinator saw the name and number of scores of every site, and of the scores only "
            + ("sums" if rounds.alike else "weighted sums, which it may be able to take apart"),
        },
    )
    warn_of_sites(certificate)
    return Calibration(certificate, lambda: one_step(threshold, lowest))
