"""The certificate of a sums session that has found its threshold."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from typing import Any

from fedconformal.calibration.curve import RiskCurve
from fedconformal.calibration.predictor import Predictor
from fedconformal.calibration.risk import risk_record, safe_action, warn_of_no_threshold
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Promise, SummaryRecord, made_certificate
from fedconformal.certificates.uninformative import warn_of_sites
from fedconformal.errors import InputError
from fedconformal.privacy.distributed_dp import NoisyRound
from fedconformal.privacy.release import Inputs, certify, certify_release
from fedconformal.privacy.sums.losses import LossRounds, limit_of, promised_risks
from fedconformal.privacy.sums.radix import LAST, Rounds
from fedconformal.privacy.sums.state import CoordinatorState
from fedconformal.summaries.losses import UNIT

HIDDEN = " It was found from sums over all sites: no site's own counts were seen."
IN_CELLS = (
    " The threshold is the upper edge of a public cell, never below the plain one; the sums show how many rows of all "
    "sites together are in each of a few cells."
)
TO_THE_BIT = (
    " The threshold itself is a score of some site, and the sums show how many scores of all sites together lie in "
    "ever smaller cells around it: who knows a row can often tell that it is in there."
)
IN_PARTS = (
    " The threshold is never below the plain one; the sums show how much all rows together lose at a few thresholds."
)
TO_THE_POINT = (
    " The sums show how much all rows together lose at a few thresholds, and at last at those beside this one: who "
    "knows a row may be able to tell that it is in there."
)
FOLLOWED = (
    " It is assumed that every site follows the protocol: nothing bounds the counts that a site sends by its number of "
    "rows, so one site can move the threshold to anywhere."
)
DROPPED = (
    " A site dropped out. Before the first sum its scores count for nothing; after it the search stops at the cell "
    "that it has reached. So the threshold can be too high, not too low, and the promise still includes that site."
)


def certified(state: CoordinatorState) -> Predictor:
    """Write the certificate."""
    session, threshold = state.session, state.search.answer
    if threshold is None:
        raise InputError("the session has not come to its end; there are more rounds to play")
    bound, alpha, sizes, rounds = session.guarantee, session.alpha, session.sizes, session.rounds
    records = [
        SummaryRecord(sites=(name,), sizes=(n,), kind="sums", sha256=hashlib.sha256(key).hexdigest())
        for name, n, key in zip(session.names, sizes, session.signing, strict=True)
    ]
    inputs = Inputs(alpha=alpha, guarantee=bound, records=records, provenance=state.provenance)
    caveat = FOLLOWED + (DROPPED if state.dropped else "")
    played = {
        "mode": "sums",
        "rounds": state.search.number,
        "session": session.fingerprint,
        "dropped": [
            {"site": session.names[k], "when": when, "share": session.share(k)}
            for k, when in sorted(state.dropped.items())
        ],
    }
    if isinstance(rounds, NoisyRound):
        return certify_release(threshold, rounds.claim(state.counted, played), inputs, caveat)
    if isinstance(rounds, LossRounds):
        return _of_losses(state, inputs, played, caveat)
    finite = threshold < math.inf
    whole = _is_whole(state, rounds)
    band = bound.band(alpha, sizes)
    lowest = band.least if finite else Fraction(1)
    sure = not state.provenance.estimated
    highest = band.most if finite and whole else Fraction(1)
    played["precision"] = _precision(state, rounds) | {"reach": 2.0**rounds.exponent}
    return certify(
        threshold,
        lowest,
        inputs,
        status="certified" if sure else "estimated",
        caveat=text.caveat(bound, text.answers_to(state.provenance.score))
        + HIDDEN
        + (TO_THE_BIT if rounds.least is None else IN_CELLS)
        + caveat,
        target=band.least,
        promises=[
            Promise.of(
                threshold,
                sum(sizes),
                least=float(lowest) if sure else 0.0,
                most=float(highest),
                slack=0.0 if whole else 1.0,
                rank=(band.rank, band.out_of),
            )
        ],
        privacy={
            **played,
            "claim": "the coordinator saw the name and number of scores of every site, and of the scores only sums",
        },
    )


def _is_whole(state: CoordinatorState, rounds: Rounds) -> bool:
    """Tell whether the threshold is the plain one: all sites are in all sums, and the search went to its end.

    The upper edge of a cell instead, or sites that dropped out, may cost any amount of coverage on top.
    """
    return rounds.exact and len(state.counted) == len(state.session.names) and state.search.stopped == LAST


def _precision(state: CoordinatorState, rounds: Rounds) -> dict[str, Any]:
    finite, everybody = state.search.answer != math.inf, len(state.counted) == len(state.session.names)
    return {
        "exact": _is_whole(state, rounds),
        "above": rounds.above(state.search) if finite and everybody else None,
        "least": rounds.least,
        "stopped": state.search.stopped,
    }


def _of_losses(state: CoordinatorState, inputs: Inputs, played: dict[str, Any], caveat: str) -> Predictor:
    """Write the certificate of a limit on the expected loss."""
    session, terms, threshold = state.session, state.invite.losses, state.search.answer
    rounds = session.rounds
    if terms is None or threshold is None or not isinstance(rounds, LossRounds):
        raise InputError("the session is not for losses, or has not come to its end")
    bound, sizes, provenance = session.guarantee, session.sizes, state.provenance
    limit, finite, whole = limit_of(terms), threshold < math.inf, _is_whole(state, rounds)
    safe = safe_action(provenance, limit, terms.safe)
    if not finite:
        dropped = "sites dropped out, and their rows count as lost" if state.dropped else "rows lose too much"
        warn_of_no_threshold(bound, session.alpha, sizes, session.names, limit, safe, f"at the last one {dropped}")
    sure = finite and not provenance.estimated
    certificate = made_certificate(
        guarantee=bound,
        provenance=provenance,
        summaries=inputs.records,
        alpha=float(session.alpha),
        status="estimated" if provenance.estimated else "certified",
        answers=text.LOSSES,
        caveat=text.LOSS_CAVEAT + HIDDEN + (TO_THE_POINT if rounds.least is None else IN_PARTS) + caveat,
        target=limit,
        promises=[
            Promise.of(
                threshold,
                sum(sizes),
                least=float(1 - session.alpha) if sure else 0.0,
                slack=float(bound.band(session.alpha, sizes, [1] * len(sizes)).slack / UNIT) if whole else 1.0,
            )
        ],
        risk=risk_record(provenance, limit, safe),
        privacy={
            **played,
            "precision": _precision(state, rounds),
            "claim": "the coordinator saw the name and number of rows of every site, and of the losses only sums",
        },
    )
    warn_of_sites(certificate)
    curve = RiskCurve(*promised_risks(provenance, threshold, limit))
    return Predictor(certificate=certificate, make_curves=lambda: [curve])
