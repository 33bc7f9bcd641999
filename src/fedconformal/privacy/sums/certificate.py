"""The certificate of a sums session that has found its threshold."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction

from fedconformal.calibration.calibrate import Calibration
from fedconformal.calibration.certificate import SummaryRecord
from fedconformal.errors import InputError
from fedconformal.privacy.distributed_dp import NoisyRound
from fedconformal.privacy.release import Inputs, certify, certify_release
from fedconformal.privacy.sums.lost import share
from fedconformal.privacy.sums.radix import LAST
from fedconformal.privacy.sums.state import CoordinatorState

HIDDEN = " It was found from sums over all sites: no site's own counts were seen."
IN_CELLS = (
    " The threshold is the upper edge of a public cell, never below the plain one; the sums show how many rows of all "
    "sites together are in each of a few cells."
)
TO_THE_BIT = (
    " The threshold itself is a score of some site, and the sums show how many scores of all sites together lie in "
    "ever smaller cells around it: who knows a row can often tell that it is in there."
)
APART = (
    " It was found from weighted sums over all sites. The sites' weights differ, so that who knows every n_k can often "
    "take such a sum apart: count every site's own histogram as seen by the coordinator."
)
FOLLOWED = (
    " It is assumed that every site follows the protocol: nothing bounds the counts that a site sends by its number of "
    "rows, so one site can move the threshold to anywhere."
)
DROPPED = (
    " A site dropped out. Before the first sum its scores count for nothing; after it the search stops at the cell "
    "that it has reached. So the threshold can be too high, not too low, and the promise still includes that site."
)


def certified(state: CoordinatorState) -> Calibration:
    """Write the certificate."""
    session, threshold = state.session, state.search.answer
    if threshold is None:
        raise InputError("the session has not come to its end; there are more rounds to play")
    bound, alpha, sizes, rounds = session.guarantee, session.alpha, session.sizes, session.rounds
    records = [
        SummaryRecord(sites=(name,), sizes=(n,), kind="sums", sha256=hashlib.sha256(key).hexdigest())
        for name, n, key in zip(session.names, sizes, session.signing, strict=True)
    ]
    inputs = Inputs(alpha=alpha, guarantee=bound, records=records, origin=state.origin)
    caveat = FOLLOWED + (DROPPED if state.dropped else "")
    played = {
        "mode": "sums",
        "rounds": state.search.number,
        "session": session.fingerprint,
        "dropped": [
            {"site": session.names[k], "when": when, "share": share(session, k)}
            for k, when in sorted(state.dropped.items())
        ],
    }
    if isinstance(rounds, NoisyRound):
        return certify_release(threshold, rounds.claim(state.counted, played), inputs, caveat)
    finite = threshold < math.inf
    everybody = len(state.counted) == len(session.names)
    # The upper edge of a cell instead of a score, or sites that dropped out, may cost any amount of coverage on top.
    whole = rounds.exact and everybody and state.search.stopped == LAST
    lowest = bound.at_least(alpha, sizes) if finite else Fraction(1)
    sure = not state.origin.estimated
    highest = bound.at_most(alpha, sizes, [0] * len(sizes)) if finite and whole else Fraction(1)
    rank, out_of = bound.rank(alpha, sizes) or (None, None)
    seen = "sums" if rounds.alike else "weighted sums, which it may be able to take apart"
    played["precision"] = {
        "exact": whole,
        "above": rounds.above(state.search) if finite and everybody else None,
        "least": rounds.least,
        "reach": 2.0**rounds.exponent,
        "stopped": state.search.stopped,
    }
    return certify(
        threshold,
        lowest,
        inputs,
        status="certified" if sure else "estimated",
        caveat=bound.caveat
        + (HIDDEN if rounds.alike else APART)
        + (TO_THE_BIT if rounds.least is None else IN_CELLS)
        + caveat,
        target=str(bound.at_least(alpha, sizes)),
        rank=rank,
        rank_out_of=out_of,
        slack=0.0 if whole else 1.0,
        coverage_at_least=float(lowest) if sure else 0.0,
        coverage_at_most=float(highest),
        privacy={
            **played,
            "claim": f"the coordinator saw the name and number of scores of every site, and of the scores only {seen}",
        },
    )
