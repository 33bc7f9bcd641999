"""The certificate of a sums session that has found its threshold."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from typing import Any

from fedconformal.calibration.predictor import Predictor
from fedconformal.calibration.risk import risk_record, safe_action, warn_of_no_threshold
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Promise, SummaryRecord
from fedconformal.errors import InputError
from fedconformal.privacy.distributed_dp import NoisyRound
from fedconformal.privacy.release import Inputs, certify, one_step
from fedconformal.privacy.sums.losses import limit_of, risk_curve
from fedconformal.privacy.sums.messages import Losses
from fedconformal.privacy.sums.radix import LEAST
from fedconformal.privacy.sums.state import CoordinatorState

HIDDEN = " It was found from sums over all sites: no site's own counts were seen."
IN_CELLS = (
    " The threshold is the upper edge of a public cell, never below the plain one; the sums show how many rows of all "
    "sites together are in each of a few cells."
)
IN_PARTS = (
    " The threshold is never below the plain one; the sums show how much all rows together lose at a few thresholds."
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
    rounds, provenance, bound = session.rounds, session.provenance, session.guarantee
    records = [
        SummaryRecord(sites=(name,), sizes=(n,), kind="sums", sha256=hashlib.sha256(key).hexdigest())
        for name, n, key in zip(session.names, session.sizes, session.signing, strict=True)
    ]
    inputs = Inputs(alpha=session.alpha, guarantee=bound, records=records, provenance=provenance)
    caveat = FOLLOWED + (DROPPED if state.dropped else "")
    privacy: dict[str, Any] = {
        "mode": "sums",
        "rounds": state.search.number,
        "session": session.fingerprint,
        "dropped": [
            {"site": session.names[k], "when": when, "share": session.share(k)}
            for k, when in sorted(state.dropped.items())
        ],
    }
    if isinstance(rounds, NoisyRound):
        return rounds.certify(threshold, state.counted, inputs, caveat, **privacy)
    known = threshold < math.inf and len(state.counted) == len(session.names)
    privacy["precision"] = {
        "above": rounds.above(state.search) if known else None,
        "least": LEAST,
        "stopped": state.search.stopped,
    }
    terms = state.invite.losses
    if terms is not None:
        return _of_losses(state, inputs, terms, privacy, caveat)
    privacy["precision"]["reach"] = 2.0**state.invite.exponent
    privacy["claim"] = "the coordinator saw the name and number of scores of every site, and of the scores only sums"
    band = bound.band(session.alpha, session.sizes)
    lowest = band.least if threshold < math.inf else Fraction(1)
    promise = Promise.of(
        threshold,
        sum(session.sizes),
        least=0.0 if provenance.estimated else float(lowest),
        rank=(band.rank, band.out_of),
    )
    return certify(
        one_step(threshold, lowest),
        inputs,
        caveat=text.caveat(bound, text.answers_to(provenance.score)) + HIDDEN + IN_CELLS + caveat,
        target=band.least,
        promises=[promise],
        privacy=privacy,
    )


def _of_losses(
    state: CoordinatorState, inputs: Inputs, terms: Losses, privacy: dict[str, Any], caveat: str
) -> Predictor:
    """Write the certificate of a limit on the expected loss."""
    session, threshold, provenance = state.session, state.search.answer or 0.0, inputs.provenance
    limit, finite = limit_of(terms), threshold < math.inf
    safe = safe_action(provenance, limit, None)
    if not finite:
        why = "sites dropped out, and their rows count as lost" if state.dropped else "rows lose too much"
        why = f"at the last one {why}"
        warn_of_no_threshold(session.guarantee, session.alpha, session.sizes, session.names, limit, safe, why)
    least = float(1 - session.alpha) if finite and not provenance.estimated else 0.0
    privacy["claim"] = "the coordinator saw the name and number of rows of every site, and of the losses only sums"
    return certify(
        risk_curve(provenance, threshold, limit),
        inputs,
        answers=text.LOSSES,
        caveat=text.LOSS_CAVEAT + HIDDEN + IN_PARTS + caveat,
        target=limit,
        promises=[Promise.of(threshold, sum(session.sizes), least=least)],
        risk=risk_record(provenance, limit, safe),
        privacy=privacy,
    )
